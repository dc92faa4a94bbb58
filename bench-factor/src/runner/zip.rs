//! A ZIP of files as they are (PKWARE, .ZIP File Format Specification, 4.3): without compression, times or rights, so that
//! the same files make the same bytes.

/// What begins a file, its entry in the directory at the end, and the end of that.
const FILE: u32 = 0x0403_4b50;
const ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;

/// Stored files and folders need no more of a reader: 2.0.
const VERSION: u16 = 20;

/// Names are UTF-8.
const UTF_8: u16 = 1 << 11;

/// Stored, not compressed.
const STORED: u16 = 0;

/// Midnight of 1980-01-01, where the format's time begins; 0 is no date in it.
const TIME: u16 = 0;
const DATE: u16 = 1 << 5 | 1;

/// The archive of some files, in their order: paths with `/` between folders, and content. All of them together are shorter
/// than 4 GiB, and there are fewer than 65,536, beyond which the format is another.
pub(super) fn zip<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let (mut archive, mut directory, mut count) = (Vec::new(), Vec::new(), 0_usize);
    for (path, content) in files {
        let offset = u32_of(archive.len());
        let about = about(path, content);
        put(&mut archive, &[&FILE.to_le_bytes(), &about, path.as_bytes(), content]);
        // The comment's length, the disk and the attributes inside and outside, then where the file begins.
        let more = [0; 2 + 2 + 2 + 4];
        let made_by = VERSION.to_le_bytes();
        put(
            &mut directory,
            &[&ENTRY.to_le_bytes(), &made_by, &about, &more, &offset.to_le_bytes(), path.as_bytes()],
        );
        count += 1;
    }
    let count =
        u16::try_from(count).expect("the sources of a program are fewer than 65,536 files").to_le_bytes();
    let (from, length) = (u32_of(archive.len()).to_le_bytes(), u32_of(directory.len()).to_le_bytes());
    // Two disks, which are one; files on it and in all; and no comment.
    put(&mut archive, &[&directory, &END.to_le_bytes(), &[0; 4], &count, &count, &length, &from, &[0; 2]]);
    archive
}

/// What a file's header and its entry have in common.
fn about(path: &str, content: &[u8]) -> Vec<u8> {
    let length = u32_of(content.len());
    let path_length = u16::try_from(path.len()).expect("a source's path is shorter than 65,536 bytes");
    let mut bytes = Vec::new();
    for number in [VERSION, UTF_8, STORED, TIME, DATE] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [crc32(content), length, length] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [path_length, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

fn u32_of(length: usize) -> u32 {
    u32::try_from(length).expect("the sources of a program are shorter than 4 GiB")
}

/// The checksum of the format: ISO 3309, bits from the lowest.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |value: u32| if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
    let table: [u32; 256] = std::array::from_fn(|byte| (0..8).fold(byte as u32, |value, _| step(value)));
    !bytes.iter().fold(!0, |value, byte| value >> 8 ^ table[(value as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, process::Command};

    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn an_archive_of_nothing_is_its_end_alone() {
        assert_eq!(zip([]), [&END.to_le_bytes()[..], &[0; 18]].concat());
    }

    #[test]
    fn another_program_finds_the_same_files() {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("archive.zip");
        fs::write(&archive, zip([("a", &b""[..]), ("folder/b c", b"content"), ("\u{e9}", &[0; 70_000])]))
            .unwrap();
        let mut unzip = Command::new("unzip");
        let Ok(output) = unzip.args(["-q", "archive.zip", "-d", "out"]).current_dir(place.path()).output()
        else {
            let _ = writeln!(std::io::stderr(), "skipped: unzip is not installed");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |path: &str| fs::read(place.path().join("out").join(path)).unwrap();
        assert_eq!((read("a"), read("folder/b c")), (vec![], b"content".to_vec()));
        let third = fs::read_dir(place.path().join("out")).unwrap().map(Result::unwrap);
        assert!(third.into_iter().any(|entry| entry.metadata().unwrap().len() == 70_000));
    }
}
