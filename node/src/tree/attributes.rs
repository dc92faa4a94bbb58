//! Extended attributes, read and set by handle.

use std::os::fd::{AsFd, OwnedFd};

use ketch_protocol::{
    limits::{ATTRIBUTE_BYTES, ATTRIBUTES},
    manifest::Attribute,
};
use rustix::{
    fs::{Mode, OFlags, XattrFlags, fchmod, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, openat},
    io::Errno,
};

/// Most bytes of the names of one file's attributes, of all namespaces: what Linux lists at most.
const NAMES_BYTES: usize = 64 * 1024;

/// Whether an attribute belongs to the file's user. Those of other namespaces act with the rights of whoever
/// receives, as setuid does (`security.capability`), or are the system's own business (`security.selinux`).
pub(super) fn is_carried(name: &[u8]) -> bool {
    name.starts_with(b"user.")
}

/// The attributes of `leaf` in `directory`, as [`read`] gives them; why not, for a person.
pub(super) fn read_at(directory: &OwnedFd, leaf: &[u8]) -> Result<Vec<Attribute>, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(directory, leaf, flags, Mode::empty());
    opened.and_then(read).map_err(|error| match error {
        Errno::TOOBIG => format!(
            "its attributes are left out: more than {ATTRIBUTES}, or more than {ATTRIBUTE_BYTES} bytes of \
             names and values"
        ),
        other => format!("reading its attributes: {other}"),
    })
}

/// The [carried](is_carried) attributes of a file or a directory, in ascending order of their names. E2BIG
/// when they go beyond the limits of the protocol; none where the file system has none.
pub(super) fn read(handle: impl AsFd) -> Result<Vec<Attribute>, Errno> {
    let mut attributes = Vec::new();
    let mut bytes = 0;
    for name in names(&handle)? {
        let value = match value(&handle, &name) {
            // Removed since its name was read.
            Err(Errno::NODATA) => continue,
            read => read?,
        };
        bytes += name.len() + value.len();
        if bytes > ATTRIBUTE_BYTES || attributes.len() == ATTRIBUTES {
            return Err(Errno::TOOBIG);
        }
        attributes.push(Attribute { name: name.into(), value: value.into() });
    }
    attributes.sort_unstable();
    Ok(attributes)
}

/// Gives a file or a directory these attributes and no other carried ones. EPERM for one that is not
/// carried; all others are set then, too.
pub(super) fn apply(handle: impl AsFd, attributes: &[Attribute]) -> Result<(), Errno> {
    let held = read(&handle)?;
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

fn names(handle: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut packed = vec![0; 1024];
    let length = loop {
        match flistxattr(&handle, &mut packed[..]) {
            Err(Errno::RANGE) if packed.len() < NAMES_BYTES => packed.resize(NAMES_BYTES, 0),
            Err(Errno::OPNOTSUPP) => break 0,
            listed => break listed?,
        }
    };
    let names = packed[..length].split(|&byte| byte == 0);
    Ok(names.filter(|name| is_carried(name)).map(<[u8]>::to_vec).collect())
}

fn value(handle: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; ATTRIBUTE_BYTES];
    match fgetxattr(&handle, name, &mut value[..]) {
        Err(Errno::RANGE) => Err(Errno::TOOBIG),
        read => {
            value.truncate(read?);
            Ok(value)
        }
    }
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
            assert_eq!(read(&file).unwrap(), attributes);
        }
    }

    #[test]
    fn what_acts_with_the_receivers_rights_is_refused_and_the_rest_is_set() {
        let Some(file) = file() else { return };
        let (capability, plain) = (attribute("security.capability", "x"), attribute("user.a", "1"));
        assert_eq!(apply(&file, &[capability, plain.clone()]), Err(Errno::PERM));
        assert_eq!(read(&file).unwrap(), [plain]);
    }
}
