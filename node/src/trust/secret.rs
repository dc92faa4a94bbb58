//! [`Secret`]: the one-time password inside a ticket.

use std::fmt;

use constant_time_eq::constant_time_eq_n;
use data_encoding::HEXLOWER;

/// Length of a secret, in bytes: 128 bits cannot be guessed, and every byte more makes the ticket longer.
pub const SECRET_BYTES: usize = 16;

/// Random bytes that admit whoever shows them. Comparing takes the same time whatever differs, and neither
/// `Debug` nor an error ever shows them.
#[derive(Clone)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// A new one from the operating system's randomness; an error says that there is none.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// One that came in an ask or out of a ticket.
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the ask to the pinned peer.
    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// As 32 hexadecimal digits, for the offer's file.
    pub(super) fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// From 32 hexadecimal digits; `None` for anything else.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq_n(&self.0, &other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_differ_and_one_equals_itself() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(one, Secret::from_bytes(*one.as_bytes()));
    }

    #[test]
    fn hexadecimal_digits_keep_the_secret_and_other_text_is_refused() {
        let secret = Secret::from_bytes([0xa7; SECRET_BYTES]);
        assert_eq!(Secret::from_hex(&secret.to_hex()), Some(secret));
        for text in ["", "a7", "zz", &"a7".repeat(17), &"A7".repeat(16)] {
            assert_eq!(Secret::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn debug_does_not_show_it() {
        assert_eq!(format!("{:?}", Secret::from_bytes([0xa7; SECRET_BYTES])), "Secret(..)");
    }
}
