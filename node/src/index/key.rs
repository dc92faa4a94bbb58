//! How a path is a key: `/` becomes NUL, which no path contains and which sorts below every other byte, so
//! that keys compared as bytes have the order of a manifest.

use std::cmp::Ordering;

use ketch_protocol::path::EntryPath;

/// Appends the key of `path`.
pub(super) fn put_key(out: &mut Vec<u8>, path: &EntryPath) {
    out.extend(path.as_bytes().iter().copied().map(key_byte));
}

/// The path whose key this is; `None` when it is that of none.
pub(super) fn path_of(key: &[u8]) -> Option<EntryPath> {
    let path: Vec<u8> = key.iter().map(|&byte| if byte == 0 { b'/' } else { byte }).collect();
    EntryPath::parse(&path).ok()
}

/// How `path` compares to a key, without making its own.
pub(super) fn compare(path: &EntryPath, key: &[u8]) -> Ordering {
    let path = path.as_bytes();
    let shared = path.iter().zip(key).take_while(|&(&path, &key)| key_byte(path) == key).count();
    path.get(shared).copied().map(key_byte).cmp(&key.get(shared).copied())
}

fn key_byte(byte: u8) -> u8 {
    if byte == b'/' { 0 } else { byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &EntryPath) -> Vec<u8> {
        let mut key = Vec::new();
        put_key(&mut key, path);
        key
    }

    #[test]
    fn keys_have_the_order_of_paths() {
        let paths = ["a", "a/b", "a/b/c", "a/z", "a\u{1}", "a-b", "a0", "b", "\u{ff}"]
            .map(|text| EntryPath::parse(text.as_bytes()).unwrap());
        assert!(paths.is_sorted());
        for left in &paths {
            for right in &paths {
                assert_eq!(compare(left, &key(right)), left.cmp(right), "{left} {right}");
                assert_eq!(key(left).cmp(&key(right)), left.cmp(right), "{left} {right}");
            }
        }
    }

    #[test]
    fn a_path_is_told_by_its_key() {
        for text in ["a", "a/b/c", "a\u{1}/\u{ff}"] {
            let path = EntryPath::parse(text.as_bytes()).unwrap();
            assert_eq!(path_of(&key(&path)), Some(path));
        }
        assert_eq!([&b""[..], b"a\0\0b", b"\0a"].map(path_of), [None, None, None]);
    }
}
