//! An offer as JSON, as it stands in its file.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{offer::Offer, secret};
use crate::swarm::{Multiaddr, PeerId};

/// An offer as it stands in its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredOffer {
    paths: Vec<StoredPath>,
    only_for: Option<String>,
    secret: String,
    expires_s: Option<u64>,
    uses_left: u32,
    reserved: Vec<String>,
    addresses: Vec<String>,
}

/// Text where the path is text, so that a person can read the file; bytes where it is not.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredPath {
    Text(String),
    Bytes(Vec<u8>),
}

pub(super) fn encode(offer: &Offer) -> serde_json::Result<Vec<u8>> {
    let stored = StoredOffer {
        paths: offer.paths.iter().map(|path| encode_path(path)).collect(),
        only_for: offer.only_for.map(|peer| peer.to_string()),
        secret: secret::to_hex(&offer.secret),
        expires_s: offer.expires_s,
        uses_left: offer.uses_left,
        reserved: offer.reserved.iter().map(PeerId::to_string).collect(),
        addresses: offer.addresses.iter().map(Multiaddr::to_string).collect(),
    };
    serde_json::to_vec_pretty(&stored)
}

fn encode_path(path: &Path) -> StoredPath {
    match path.to_str() {
        Some(text) => StoredPath::Text(text.into()),
        None => StoredPath::Bytes(path.as_os_str().as_bytes().into()),
    }
}

/// The offer in a file's bytes, or what is wrong with them.
pub(super) fn parse(json: &[u8]) -> Result<Offer, String> {
    let stored: StoredOffer = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let peer = |text: &String| text.parse::<PeerId>().map_err(|error| format!("a peer: {error}"));
    let address = |text: &String| text.parse::<Multiaddr>().map_err(|error| format!("an address: {error}"));
    if stored.uses_left == 0 {
        return Err("no use is left".into());
    }
    if stored.reserved.len() > stored.uses_left as usize {
        return Err("more uses are reserved than left".into());
    }
    Ok(Offer {
        paths: stored.paths.into_iter().map(decode_path).collect(),
        only_for: stored.only_for.as_ref().map(peer).transpose()?,
        secret: secret::from_hex(&stored.secret).ok_or("the secret is not 32 hexadecimal digits")?,
        expires_s: stored.expires_s,
        uses_left: stored.uses_left,
        reserved: stored.reserved.iter().map(peer).collect::<Result<_, _>>()?,
        addresses: stored.addresses.iter().map(address).collect::<Result<_, _>>()?,
    })
}

fn decode_path(path: StoredPath) -> PathBuf {
    match path {
        StoredPath::Text(text) => text.into(),
        StoredPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
    }
}
