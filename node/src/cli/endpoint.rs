//! [`Endpoint`]: one side of `ketch sync` as a person writes it.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

use ketch::trust::PeerReference;
use ketch_protocol::{
    message::{Place, ShareName},
    path::{EntryPath, escape},
};

/// A tree here, or one that a peer shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// On this machine.
    Local(PathBuf),
    /// `PEER:SHARE[/PATH]`.
    Shared(SharedTree),
}

/// A tree that a peer shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedTree {
    pub(crate) peer: PeerReference,
    pub(crate) place: Place,
}

/// Why text is not a side of a sync.
#[derive(Debug, thiserror::Error)]
#[error("\"{text}\" is no PEER:SHARE[/PATH]: {why}; a path of this machine with a colon is written ./{text}")]
pub(crate) struct EndpointError {
    text: String,
    why: String,
}

impl Endpoint {
    /// What is in front of a colon is a peer, unless there is a slash before it.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, EndpointError> {
        let bytes = text.as_bytes();
        let Some(colon) = bytes.iter().position(|byte| matches!(byte, b':' | b'/')) else {
            return Ok(Self::Local(text.into()));
        };
        if bytes[colon] == b'/' {
            return Ok(Self::Local(text.into()));
        }
        let parsed = SharedTree::parse(&bytes[..colon], &bytes[colon + 1..]);
        parsed.map(Self::Shared).map_err(|why| EndpointError { text: escape(bytes).to_string(), why })
    }
}

impl SharedTree {
    fn parse(peer: &[u8], tree: &[u8]) -> Result<Self, String> {
        let peer = text(peer)?.parse::<PeerReference>().map_err(|error| error.to_string())?;
        let slash = tree.iter().position(|&byte| byte == b'/').unwrap_or(tree.len());
        let share = ShareName::parse(text(&tree[..slash])?).map_err(|error| error.to_string())?;
        // A slash at the end means nothing.
        let path = tree[slash..].strip_prefix(b"/").unwrap_or_default();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let path = (!path.is_empty()).then(|| EntryPath::parse(path)).transpose();
        Ok(Self { peer, place: Place { share, path: path.map_err(|error| error.to_string())? } })
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|_| format!("\"{}\" is no text", escape(bytes)))
}

/// What stands before and after the first `=` of an argument.
pub(crate) fn split_at_equals(argument: &OsStr) -> Option<(&str, OsString)> {
    let bytes = argument.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=')?;
    let name = str::from_utf8(&bytes[..equals]).ok()?;
    Some((name, OsString::from_vec(bytes[equals + 1..].to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Endpoint, String> {
        Endpoint::parse(text.as_ref()).map_err(|error| error.to_string())
    }

    fn shared(peer: &str, share: &str, path: Option<&str>) -> Endpoint {
        let path = path.map(|path| EntryPath::parse(path.as_bytes()).unwrap());
        let place = Place { share: ShareName::parse(share).unwrap(), path };
        Endpoint::Shared(SharedTree { peer: peer.parse().unwrap(), place })
    }

    #[test]
    fn a_colon_before_any_slash_makes_a_peer() {
        for local in [".", "photos", "/srv/a:b", "./a:b", "../x", "a/b:c", ""] {
            assert_eq!(parse(local), Ok(Endpoint::Local(local.into())), "{local}");
        }
        assert_eq!(parse("laptop:photos"), Ok(shared("laptop", "photos", None)));
        assert_eq!(parse("laptop:photos/"), Ok(shared("laptop", "photos", None)));
        assert_eq!(parse("laptop:photos/2026/may"), Ok(shared("laptop", "photos", Some("2026/may"))));
        assert_eq!(parse("laptop:photos/a:b/"), Ok(shared("laptop", "photos", Some("a:b"))));
        let peer = ketch::swarm::PeerId::random().to_string();
        assert_eq!(parse(&format!("{peer}:photos")), Ok(shared(&peer, "photos", None)));
        let bytes = OsStr::from_bytes(b"\xff:x");
        assert!(Endpoint::parse(bytes).is_err());
        assert_eq!(
            Endpoint::parse(OsStr::from_bytes(b"\xff")).unwrap(),
            Endpoint::Local(OsStr::from_bytes(b"\xff").into())
        );
    }

    #[test]
    fn what_is_neither_is_refused_with_a_way_out() {
        for text in [":x", "a b:x", "laptop:", "laptop:/x", "laptop:a/../b", "laptop:a//b", "laptop:a/."] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("./{text}")), "{error}");
        }
    }

    #[test]
    fn an_argument_is_split_at_its_first_equals_sign() {
        assert_eq!(split_at_equals("a=/b=c".as_ref()), Some(("a", "/b=c".into())));
        assert_eq!(split_at_equals("a".as_ref()), None);
    }
}
