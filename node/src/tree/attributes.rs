//! Extended attributes, read and set by handle.
//!
//! Those of the namespace `user` belong to whoever owns the file. All others (labels, capabilities, access
//! lists by number) belong to the system the file lies on: they would mean something else on another, or act
//! with the rights of whoever receives, as setuid does.

use std::{
    borrow::Cow,
    os::fd::{AsFd, OwnedFd},
};

use ketch_protocol::{
    limits::{ATTRIBUTE_BYTES, ATTRIBUTES},
    manifest::Attribute,
};
use rustix::{
    buffer::spare_capacity,
    fs::{Mode, OFlags, XattrFlags, fchmod, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, openat},
    io::Errno,
};

/// Most bytes of the names of one file's attributes: XATTR_LIST_MAX of Linux.
const NAMES_BYTES: usize = 64 * 1024;

fn is_carried(name: &[u8]) -> bool {
    name.starts_with(b"user.")
}

/// The attributes of the file or directory `leaf` in `directory`, in ascending order of their names. Why not,
/// for a person, when they can't be carried.
pub(super) fn read(directory: &OwnedFd, leaf: &[u8]) -> Result<Vec<Attribute>, Cow<'static, str>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(directory, leaf, flags, Mode::empty()) {
        Ok(file) => file,
        Err(error) => return Err(format!("opening it to read its attributes: {error}").into()),
    };
    read_held(file).map_err(|error| match error {
        Errno::TOOBIG => too_much(),
        other => format!("reading its attributes: {other}").into(),
    })
}

/// The attributes of what `file` holds, as [`read`] gives them. E2BIG when they go beyond the limits.
pub(super) fn read_held(file: impl AsFd) -> Result<Vec<Attribute>, Errno> {
    let mut attributes = Vec::new();
    let mut room = ATTRIBUTE_BYTES;
    for name in names(&file)? {
        let value = match value(&file, &name, room) {
            // Removed since its name was read.
            Err(Errno::NODATA) => continue,
            read => read?,
        };
        room = match room.checked_sub(name.len() + value.len()) {
            Some(room) if attributes.len() < ATTRIBUTES => room,
            Some(_) | None => return Err(Errno::TOOBIG),
        };
        attributes.push(Attribute { name, value });
    }
    attributes.sort_unstable();
    Ok(attributes)
}

/// Gives a file or a directory these attributes and no other carried ones. EPERM for one that is not
/// carried; all others are set then, too.
pub(super) fn apply(handle: impl AsFd, attributes: &[Attribute]) -> Result<(), Errno> {
    let held = read_held(&handle)?;
    let mut result = Ok(());
    for attribute in attributes.iter().filter(|attribute| !held.contains(attribute)) {
        let set = if is_carried(&attribute.name) {
            as_writer(&handle, || fsetxattr(&handle, &*attribute.name, &attribute.value, XattrFlags::empty()))
        } else {
            Err(Errno::PERM)
        };
        result = result.and(set);
    }
    for extra in held.iter().filter(|held| !attributes.iter().any(|listed| listed.name == held.name)) {
        result = result.and(as_writer(&handle, || fremovexattr(&handle, &*extra.name)));
    }
    result
}

/// Attributes can be set by who may write to the file, whatever way it was opened. The mode is set after
/// them and needs not be put back.
fn as_writer(handle: impl AsFd, set: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    match set() {
        Err(Errno::ACCESS) => {
            fchmod(&handle, Mode::from_raw_mode(fstat(&handle)?.st_mode) | Mode::WUSR)?;
            set()
        }
        done => done,
    }
}

fn names(file: impl AsFd) -> Result<Vec<Box<[u8]>>, Errno> {
    let mut listed: Vec<u8> = Vec::with_capacity(ATTRIBUTE_BYTES);
    match flistxattr(&file, spare_capacity(&mut listed)) {
        Ok(_) => {}
        // The file system has none.
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            listed.reserve(NAMES_BYTES);
            flistxattr(&file, spare_capacity(&mut listed))?;
        }
        Err(error) => return Err(error),
    }
    Ok(listed.split(|&byte| byte == 0).filter(|name| is_carried(name)).map(Box::from).collect())
}

/// The value of one attribute; it may have `room` bytes.
fn value(file: impl AsFd, name: &[u8], room: usize) -> Result<Box<[u8]>, Errno> {
    // A buffer of no bytes would ask for the length.
    let mut value: Vec<u8> = Vec::with_capacity(room.max(1));
    match fgetxattr(file, name, spare_capacity(&mut value)) {
        Err(Errno::RANGE) => Err(Errno::TOOBIG),
        read => read.map(|_| value.into()),
    }
}

fn too_much() -> Cow<'static, str> {
    format!(
        "its attributes are left out: more than {ATTRIBUTES}, or more than {ATTRIBUTE_BYTES} bytes of names \
         and values"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

    fn attribute(name: &str, value: &str) -> Attribute {
        Attribute { name: name.as_bytes().into(), value: value.as_bytes().into() }
    }

    /// A file that can have attributes.
    fn file() -> Option<File> {
        let file = tempfile::tempfile().unwrap();
        match fsetxattr(&file, "user.probe", b"", XattrFlags::empty()) {
            Ok(()) => fremovexattr(&file, "user.probe").map(|()| Some(file)).unwrap(),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: no extended attributes here: {error}");
                None
            }
        }
    }

    #[test]
    fn what_is_set_is_read_back_and_nothing_else_stays() {
        let Some(file) = file() else { return };
        let (a, b, empty) = (attribute("user.a", "1"), attribute("user.b", "\0\n"), attribute("user.c", ""));
        for attributes in [vec![], vec![a.clone(), b.clone(), empty], vec![attribute("user.a", "2"), b]] {
            apply(&file, &attributes).unwrap();
            assert_eq!(read_held(&file).unwrap(), attributes);
        }
    }

    #[test]
    fn what_acts_with_the_receivers_rights_is_refused_and_the_rest_is_set() {
        let Some(file) = file() else { return };
        let (capability, plain) = (attribute("security.capability", "x"), attribute("user.a", "1"));
        assert_eq!(apply(&file, &[capability, plain.clone()]), Err(Errno::PERM));
        assert_eq!(read_held(&file).unwrap(), [plain]);
    }
}
