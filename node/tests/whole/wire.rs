//! Messages as no honest peer makes them: protocol buffers put together by hand, with the field numbers of
//! `docs/wire-format.md`.

/// A frame that holds these bytes.
pub(crate) fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes(), message].concat()
}

/// A manifest that goes on at entry `first`.
pub(crate) fn manifest(first: u64, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut batch = number(1, first);
    entries.iter().for_each(|entry| batch.extend(bytes(2, entry)));
    frame(&bytes(5, &batch))
}

/// The end of a manifest of so many entries and bytes.
pub(crate) fn manifest_end(entries: u64, content: u64) -> Vec<u8> {
    frame(&bytes(6, &[number(1, entries), number(2, content)].concat()))
}

pub(crate) fn file(path: &[u8], size: u64) -> Vec<u8> {
    [bytes(2, path), number(4, size), number(5, 0o644)].concat()
}

pub(crate) fn directory(path: &[u8]) -> Vec<u8> {
    [bytes(2, path), number(3, 1), number(5, 0o755)].concat()
}

pub(crate) fn symlink(path: &[u8], target: &[u8]) -> Vec<u8> {
    [bytes(2, path), number(3, 2), bytes(8, target)].concat()
}

/// A number as protocol buffers and segments write it: seven bits a byte, least significant first.
pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field that holds a number.
pub(crate) fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field that holds bytes.
pub(crate) fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// The header of a content segment.
pub(crate) fn begin(id: u64, offset: u64, length: u64) -> Vec<u8> {
    [vec![1], varint(id), varint(offset), varint(length), vec![0]].concat()
}

/// A block of content.
pub(crate) fn block(content: &[u8]) -> Vec<u8> {
    [varint(content.len() as u64), content.to_vec()].concat()
}

/// The close of a segment whose content has this hash.
pub(crate) fn end(hash: [u8; 32]) -> Vec<u8> {
    [&[0, 0][..], &hash].concat()
}

/// The whole segment of a small file.
pub(crate) fn whole(id: u64, content: &[u8]) -> Vec<u8> {
    let hash = *blake3::hash(content).as_bytes();
    [begin(id, 0, content.len() as u64), block(content), end(hash)].concat()
}
