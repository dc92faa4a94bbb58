//! Entries of a manifest as protocol buffers.

use prost::Message as ProstMessage;

use super::{check_count, path_from_wire};
use crate::{
    hash::ContentHash,
    limits::{ATTRIBUTE_BYTES, ATTRIBUTES, LINK_TARGET_BYTES},
    manifest::{Attribute, Entry, EntryKind, Owner, Timestamp},
    message::MessageError,
    path::EntryPath,
};

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireEntry {
    /// Leading bytes that the path shares with the path before it in this batch.
    #[prost(uint32, tag = "1")]
    shared: u32,
    #[prost(bytes = "vec", tag = "2")]
    rest: Vec<u8>,
    #[prost(uint32, tag = "3")]
    kind: u32,
    #[prost(uint64, tag = "4")]
    size: u64,
    #[prost(uint32, tag = "5")]
    mode: u32,
    #[prost(sint64, tag = "6")]
    seconds: i64,
    #[prost(uint32, tag = "7")]
    nanoseconds: u32,
    #[prost(bytes = "vec", tag = "8")]
    link_target: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "9")]
    hash: Option<Vec<u8>>,
    #[prost(message, optional, tag = "10")]
    owner: Option<WireOwner>,
    #[prost(message, repeated, tag = "11")]
    attributes: Vec<WireAttribute>,
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
pub(super) struct WireOwner {
    #[prost(uint32, tag = "1")]
    user: u32,
    #[prost(uint32, tag = "2")]
    group: u32,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireAttribute {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

const FILE: u32 = 0;
const DIRECTORY: u32 = 1;
const SYMLINK: u32 = 2;
const HARD_LINK: u32 = 3;

pub(super) fn entry_to_wire(entry: &Entry, shared: usize) -> WireEntry {
    let (kind, size, link_target) = match &entry.kind {
        EntryKind::File { size } => (FILE, *size, Vec::new()),
        EntryKind::Directory => (DIRECTORY, 0, Vec::new()),
        EntryKind::Symlink { target } => (SYMLINK, 0, target.to_vec()),
        EntryKind::HardLink { target } => (HARD_LINK, 0, target.as_bytes().to_vec()),
    };
    WireEntry {
        shared: shared as u32,
        rest: entry.path.as_bytes()[shared..].to_vec(),
        kind,
        size,
        mode: entry.mode,
        seconds: entry.mtime.seconds,
        nanoseconds: entry.mtime.nanoseconds,
        link_target,
        hash: entry.hash.map(|hash| hash.0.to_vec()),
        owner: entry.owner.map(|Owner { user, group }| WireOwner { user, group }),
        attributes: entry.attributes.iter().map(attribute_to_wire).collect(),
    }
}

fn attribute_to_wire(Attribute { name, value }: &Attribute) -> WireAttribute {
    WireAttribute { name: name.to_vec(), value: value.to_vec() }
}

pub(super) fn entry_from_wire(entry: WireEntry, before: &[u8]) -> Result<Entry, MessageError> {
    let path = path_from_wire(entry.shared, &entry.rest, before)?;
    if entry.mode > 0o7777 {
        return Err(MessageError::Field("mode"));
    }
    if entry.nanoseconds > 999_999_999 {
        return Err(MessageError::Field("time"));
    }
    let mtime = Timestamp { seconds: entry.seconds, nanoseconds: entry.nanoseconds };
    let kind = kind_from_wire(entry.kind, entry.size, entry.link_target)?;
    let hash = entry.hash.map(hash_from_wire).transpose()?;
    let owner = entry.owner.map(|WireOwner { user, group }| Owner { user, group });
    let attributes = attributes_from_wire(entry.attributes)?;
    let parsed = Entry { path, kind, mode: entry.mode, mtime, hash, owner, attributes };
    check_count(parsed.attribute_bytes() as u64, ATTRIBUTE_BYTES as u64, "length of attributes")?;
    Ok(parsed)
}

fn hash_from_wire(bytes: Vec<u8>) -> Result<ContentHash, MessageError> {
    bytes.try_into().map(ContentHash).map_err(|_| MessageError::Field("hash"))
}

/// Sorted, each name once.
fn attributes_from_wire(attributes: Vec<WireAttribute>) -> Result<Vec<Attribute>, MessageError> {
    check_count(attributes.len() as u64, ATTRIBUTES as u64, "number of attributes")?;
    let parsed: Vec<_> = attributes
        .into_iter()
        .map(|WireAttribute { name, value }| Attribute { name: name.into(), value: value.into() })
        .collect();
    let is_name = |name: &[u8]| !name.is_empty() && !name.contains(&0);
    let sound = parsed.iter().all(|attribute| is_name(&attribute.name))
        && parsed.array_windows().all(|[left, right]| left.name < right.name);
    if sound { Ok(parsed) } else { Err(MessageError::Field("attribute name")) }
}

fn kind_from_wire(kind: u32, size: u64, link_target: Vec<u8>) -> Result<EntryKind, MessageError> {
    match kind {
        // Offsets within a file are i64 in every system call.
        FILE if size <= i64::MAX as u64 => Ok(EntryKind::File { size }),
        FILE => Err(MessageError::Field("file size")),
        DIRECTORY => Ok(EntryKind::Directory),
        SYMLINK if is_link_target(&link_target) => Ok(EntryKind::Symlink { target: link_target.into() }),
        SYMLINK => Err(MessageError::Field("link target")),
        HARD_LINK => Ok(EntryKind::HardLink { target: EntryPath::parse(&link_target)? }),
        _ => Err(MessageError::Field("kind of entry")),
    }
}

fn is_link_target(target: &[u8]) -> bool {
    !target.is_empty() && target.len() <= LINK_TARGET_BYTES && !target.contains(&0)
}
