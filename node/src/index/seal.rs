//! [`Seal`]: what the file of an index has to be.

use std::{fs::File, io, path::Path};

/// What the file of the index is: redb does not check what it reads, and must not be given a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    /// There is none.
    Missing,
    /// It is being written. If nobody is at it, its writer was killed, and redb puts it in order.
    Writing,
    /// It has this length and the BLAKE3 that begins so.
    Whole { length: u64, hash: [u8; 16] },
}

/// Bytes of an encoded seal.
pub(super) const SEAL_BYTES: usize = 1 + 8 + 16;

impl Seal {
    /// What the file at `path` is. It takes a second for some gigabytes, so some hundredths for a million files.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            opened => opened?,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&file)?;
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Ok(Self::Whole { length: hasher.count(), hash })
    }

    pub(super) fn encode(self) -> [u8; SEAL_BYTES] {
        let (kind, length, hash) = match self {
            Self::Missing => (0, 0, [0; 16]),
            Self::Writing => (1, 0, [0; 16]),
            Self::Whole { length, hash } => (2, length, hash),
        };
        let mut out = [kind; SEAL_BYTES];
        out[1..9].copy_from_slice(&length.to_le_bytes());
        out[9..].copy_from_slice(&hash);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (length, hash) = rest.split_first_chunk()?;
        match kind {
            0 => Some(Self::Missing),
            1 => Some(Self::Writing),
            2 => Some(Self::Whole { length: u64::from_le_bytes(*length), hash: hash.try_into().ok()? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_seal_is_decoded_as_it_was_encoded() {
        for seal in [Seal::Missing, Seal::Writing, Seal::Whole { length: 1 << 40, hash: [7; 16] }] {
            assert_eq!(Seal::decode(&seal.encode()), Some(seal));
        }
        assert_eq!(Seal::decode(&[3; SEAL_BYTES]), None);
        assert_eq!(Seal::decode(&[]), None);
    }

    #[test]
    fn a_file_has_another_seal_when_a_bit_or_its_length_changes() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("f");
        let of = |content: &[u8]| {
            fs::write(&at, content).unwrap();
            Seal::of(&at).unwrap()
        };
        assert_eq!(Seal::of(&folder.path().join("none")).unwrap(), Seal::Missing);
        assert_eq!(of(b"abc"), of(b"abc"));
        for other in [&b""[..], b"ab", b"abc\0", b"abb"] {
            assert_ne!(of(other), of(b"abc"));
        }
    }
}
