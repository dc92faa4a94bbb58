//! Reads extended attributes, by handle.
//!
//! Those of the namespace `user` belong to whoever owns the file. All others (labels, capabilities, access
//! lists by number) belong to the system the file lies on, and would mean something else on another.

use std::{borrow::Cow, os::fd::OwnedFd};

use ketch_protocol::{
    limits::{ATTRIBUTE_BYTES, ATTRIBUTES},
    manifest::Attribute,
};
use rustix::{
    buffer::spare_capacity,
    fs::{Mode, OFlags, fgetxattr, flistxattr, openat},
    io::Errno,
};

const CARRIED: &[u8] = b"user.";

/// Most bytes of the names of one file's attributes: XATTR_LIST_MAX of Linux.
const NAMES_BYTES: usize = 64 * 1024;

/// The attributes of the file or directory `leaf` in `directory`, in ascending order of their names. Why not,
/// for a person, when they can't be carried.
pub(super) fn read(directory: &OwnedFd, leaf: &[u8]) -> Result<Vec<Attribute>, Cow<'static, str>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(directory, leaf, flags, Mode::empty()) {
        Ok(file) => file,
        Err(error) => return Err(format!("opening it to read its attributes: {error}").into()),
    };
    let mut attributes = Vec::new();
    let mut room = ATTRIBUTE_BYTES;
    for name in names(&file)? {
        let value = value(&file, &name, room)?;
        room = match room.checked_sub(name.len() + value.len()) {
            Some(room) if attributes.len() < ATTRIBUTES => room,
            Some(_) | None => return Err(too_much()),
        };
        attributes.push(Attribute { name, value });
    }
    attributes.sort();
    Ok(attributes)
}

fn names(file: &OwnedFd) -> Result<Vec<Box<[u8]>>, Cow<'static, str>> {
    let mut listed: Vec<u8> = Vec::with_capacity(ATTRIBUTE_BYTES);
    match flistxattr(file, spare_capacity(&mut listed)) {
        Ok(_) => {}
        // The file system has none.
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            listed.reserve(NAMES_BYTES);
            flistxattr(file, spare_capacity(&mut listed)).map_err(listing)?;
        }
        Err(error) => return Err(listing(error)),
    }
    let names = listed.split(|&byte| byte == 0).filter(|name| name.starts_with(CARRIED));
    Ok(names.map(Box::from).collect())
}

/// The value of one attribute; it may have `room` bytes.
fn value(file: &OwnedFd, name: &[u8], room: usize) -> Result<Box<[u8]>, Cow<'static, str>> {
    // A buffer of no bytes would ask for the length.
    let mut value: Vec<u8> = Vec::with_capacity(room.max(1));
    match fgetxattr(file, name, spare_capacity(&mut value)) {
        Ok(_) => Ok(value.into()),
        Err(Errno::RANGE) => Err(too_much()),
        Err(error) => {
            let name = ketch_protocol::path::escape(name);
            Err(format!("reading its attribute \"{name}\": {error}").into())
        }
    }
}

fn listing(error: Errno) -> Cow<'static, str> {
    format!("listing its attributes: {error}").into()
}

fn too_much() -> Cow<'static, str> {
    format!(
        "its attributes are left out: more than {ATTRIBUTES}, or more than {ATTRIBUTE_BYTES} bytes of names \
         and values"
    )
    .into()
}
