//! The messages that only a sync speaks, as protocol buffers.

use prost::Message as ProstMessage;

use super::{
    WireRun, WireTotals, check_count, connections_from_wire, connections_to_wire, controller_from_wire,
    controller_to_wire, runs_from_wire, runs_to_wire, session_from_wire,
};
use crate::{
    difference::RangeHash,
    message::{
        Compression, Durability, Equality, Expand, Hashes, List, MessageError, Nodes, Place, Policy, Propose,
        Removal, RemovalLimit, Root, Rules, Run, Selection, ShareName, Totals,
    },
    path::EntryPath,
};

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WirePropose {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    session: Vec<u8>,
    #[prost(string, tag = "3")]
    share: String,
    #[prost(bytes = "vec", optional, tag = "4")]
    path: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    selection: Option<WireSelection>,
    #[prost(message, optional, tag = "6")]
    policy: Option<WirePolicy>,
    #[prost(uint32, tag = "7")]
    controller: u32,
    #[prost(uint32, tag = "8")]
    connections: u32,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireSelection {
    #[prost(bytes = "vec", repeated, tag = "1")]
    rules: Vec<Vec<u8>>,
    #[prost(uint32, tag = "2")]
    hashes: u32,
    #[prost(bool, tag = "3")]
    owner: bool,
    #[prost(bool, tag = "4")]
    attributes: bool,
    #[prost(uint32, tag = "5")]
    compression: u32,
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
pub(super) struct WirePolicy {
    #[prost(bool, tag = "1")]
    remove: bool,
    #[prost(uint64, optional, tag = "2")]
    limit_entries: Option<u64>,
    #[prost(uint32, optional, tag = "3")]
    limit_percent: Option<u32>,
    #[prost(bool, tag = "4")]
    force_empty: bool,
    #[prost(bool, tag = "5")]
    existing: bool,
    #[prost(bool, tag = "6")]
    ignore_existing: bool,
    #[prost(bool, tag = "7")]
    update: bool,
    #[prost(uint32, tag = "8")]
    equality: u32,
    #[prost(bool, tag = "9")]
    find_moves: bool,
    #[prost(bool, tag = "10")]
    delta: bool,
    #[prost(bool, tag = "11")]
    preview: bool,
    #[prost(uint32, tag = "12")]
    durability: u32,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireRoot {
    #[prost(bytes = "vec", tag = "1")]
    hash: Vec<u8>,
    #[prost(uint32, tag = "2")]
    levels: u32,
    #[prost(message, optional, tag = "3")]
    totals: Option<WireTotals>,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireExpand {
    #[prost(uint32, tag = "1")]
    level: u32,
    #[prost(message, repeated, tag = "2")]
    nodes: Vec<WireRun>,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireNodes {
    #[prost(uint32, tag = "1")]
    level: u32,
    #[prost(uint64, tag = "2")]
    first: u64,
    #[prost(bytes = "vec", tag = "3")]
    hashes: Vec<u8>,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireList {
    #[prost(message, repeated, tag = "1")]
    leaves: Vec<WireRun>,
    #[prost(bool, tag = "2")]
    complete: bool,
}

impl From<&Propose> for WirePropose {
    fn from(propose: &Propose) -> Self {
        let (share, path) = place_to_wire(&propose.place);
        Self {
            version: propose.version,
            session: propose.session.0.to_vec(),
            share,
            path,
            selection: selection_to_wire(&propose.selection),
            policy: Some((&propose.policy).into()),
            connections: connections_to_wire(propose.connections),
            controller: controller_to_wire(propose.controller),
        }
    }
}

impl TryFrom<WirePropose> for Propose {
    type Error = MessageError;

    fn try_from(propose: WirePropose) -> Result<Self, MessageError> {
        Ok(Self {
            version: propose.version,
            session: session_from_wire(propose.session)?,
            place: place_from_wire(&propose.share, propose.path.as_deref())?,
            selection: selection_from_wire(propose.selection)?,
            policy: propose.policy.ok_or(MessageError::Field("policy"))?.try_into()?,
            connections: connections_from_wire(propose.connections)?,
            controller: controller_from_wire(propose.controller)?,
        })
    }
}

pub(super) fn place_to_wire(place: &Place) -> (String, Option<Vec<u8>>) {
    (place.share.to_string(), place.path.as_ref().map(|path| path.as_bytes().to_vec()))
}

pub(super) fn place_from_wire(share: &str, path: Option<&[u8]>) -> Result<Place, MessageError> {
    let share = ShareName::parse(share).map_err(|_| MessageError::Field("name of a share"))?;
    Ok(Place { share, path: path.map(EntryPath::parse).transpose()? })
}

/// Nothing for the selection of everything.
pub(super) fn selection_to_wire(selection: &Selection) -> Option<WireSelection> {
    (*selection != Selection::default()).then(|| WireSelection {
        rules: selection.rules.iter().map(<[u8]>::to_vec).collect(),
        hashes: match selection.hashes {
            Hashes::Known => 0,
            Hashes::All => 1,
            Hashes::Read => 2,
        },
        owner: selection.owner,
        attributes: selection.attributes,
        compression: match selection.compression {
            Compression::Auto => 0,
            Compression::Zstd => 1,
            Compression::None => 2,
        },
    })
}

pub(super) fn selection_from_wire(selection: Option<WireSelection>) -> Result<Selection, MessageError> {
    let selection = selection.unwrap_or_default();
    let lines = selection.rules.into_iter().map(Into::into).collect();
    Ok(Selection {
        rules: Rules::new(lines).map_err(|_| MessageError::Field("list of rules"))?,
        hashes: match selection.hashes {
            0 => Hashes::Known,
            1 => Hashes::All,
            2 => Hashes::Read,
            _ => return Err(MessageError::Field("choice of hashes")),
        },
        owner: selection.owner,
        attributes: selection.attributes,
        compression: match selection.compression {
            0 => Compression::Auto,
            1 => Compression::Zstd,
            2 => Compression::None,
            _ => return Err(MessageError::Field("compression")),
        },
    })
}

impl From<&Policy> for WirePolicy {
    fn from(policy: &Policy) -> Self {
        let (limit, force_empty) = match policy.removal {
            Removal::Nothing => (RemovalLimit::Default, false),
            Removal::Extra { limit, force_empty } => (limit, force_empty),
        };
        let (limit_entries, limit_percent) = match limit {
            RemovalLimit::Default => (None, None),
            RemovalLimit::Entries(entries) => (Some(entries), None),
            RemovalLimit::Percent(percent) => (None, Some(percent.into())),
        };
        Self {
            remove: policy.removal != Removal::Nothing,
            limit_entries,
            limit_percent,
            force_empty,
            existing: policy.existing,
            ignore_existing: policy.ignore_existing,
            update: policy.update,
            equality: match policy.equality {
                Equality::Content => 0,
                Equality::Size => 1,
                Equality::Checksum => 2,
            },
            find_moves: policy.find_moves,
            delta: policy.delta,
            preview: policy.preview,
            durability: match policy.durability {
                Durability::None => 0,
                Durability::Session => 1,
                Durability::File => 2,
            },
        }
    }
}

impl TryFrom<WirePolicy> for Policy {
    type Error = MessageError;

    fn try_from(policy: WirePolicy) -> Result<Self, MessageError> {
        Ok(Self {
            removal: removal_from_wire(&policy)?,
            existing: policy.existing,
            ignore_existing: policy.ignore_existing,
            update: policy.update,
            equality: match policy.equality {
                0 => Equality::Content,
                1 => Equality::Size,
                2 => Equality::Checksum,
                _ => return Err(MessageError::Field("equality")),
            },
            find_moves: policy.find_moves,
            delta: policy.delta,
            preview: policy.preview,
            durability: match policy.durability {
                0 => Durability::None,
                1 => Durability::Session,
                2 => Durability::File,
                _ => return Err(MessageError::Field("durability")),
            },
        })
    }
}

fn removal_from_wire(policy: &WirePolicy) -> Result<Removal, MessageError> {
    let limit = match (policy.limit_entries, policy.limit_percent) {
        (None, None) => RemovalLimit::Default,
        (Some(entries), None) => RemovalLimit::Entries(entries),
        (None, Some(percent @ 0..=100)) => RemovalLimit::Percent(percent as u8),
        (None | Some(_), Some(_)) => return Err(MessageError::Field("limit of removal")),
    };
    match (policy.remove, limit, policy.force_empty) {
        (true, limit, force_empty) => Ok(Removal::Extra { limit, force_empty }),
        (false, RemovalLimit::Default, false) => Ok(Removal::Nothing),
        // A limit without a removal: whoever said that meant something else.
        (false, RemovalLimit::Default | RemovalLimit::Entries(_) | RemovalLimit::Percent(_), _) => {
            Err(MessageError::Field("limit of removal"))
        }
    }
}

impl From<Root> for WireRoot {
    fn from(Root { hash, levels, totals }: Root) -> Self {
        Self { hash: hash.0.to_vec(), levels, totals: Some(totals.into()) }
    }
}

impl TryFrom<WireRoot> for Root {
    type Error = MessageError;

    fn try_from(root: WireRoot) -> Result<Self, MessageError> {
        let totals: Totals = root.totals.map(Into::into).unwrap_or_default();
        // More cannot be listed; less leaves room to count what is found late.
        check_count(totals.entries, i64::MAX as u64, "number of entries")?;
        let hash = root.hash.try_into().map_err(|_| MessageError::Field("hash of a range"))?;
        Ok(Self { hash: RangeHash(hash), levels: root.levels, totals })
    }
}

impl From<&Expand> for WireExpand {
    fn from(expand: &Expand) -> Self {
        Self { level: expand.level, nodes: runs_to_wire(&expand.nodes) }
    }
}

impl TryFrom<WireExpand> for Expand {
    type Error = MessageError;

    fn try_from(expand: WireExpand) -> Result<Self, MessageError> {
        Ok(Self { level: expand.level, nodes: ascending_from_wire(expand.nodes)? })
    }
}

impl From<&Nodes> for WireNodes {
    fn from(nodes: &Nodes) -> Self {
        let hashes = nodes.hashes.iter().flat_map(|hash| hash.0).collect();
        Self { level: nodes.level, first: nodes.first, hashes }
    }
}

impl TryFrom<WireNodes> for Nodes {
    type Error = MessageError;

    fn try_from(nodes: WireNodes) -> Result<Self, MessageError> {
        let (hashes, rest) = nodes.hashes.as_chunks();
        if !rest.is_empty() || nodes.first.checked_add(hashes.len() as u64).is_none() {
            return Err(MessageError::Field("list of nodes"));
        }
        let hashes = hashes.iter().copied().map(RangeHash).collect();
        Ok(Self { level: nodes.level, first: nodes.first, hashes })
    }
}

impl From<&List> for WireList {
    fn from(list: &List) -> Self {
        Self { leaves: runs_to_wire(&list.leaves), complete: list.complete }
    }
}

impl TryFrom<WireList> for List {
    type Error = MessageError;

    fn try_from(list: WireList) -> Result<Self, MessageError> {
        Ok(Self { leaves: ascending_from_wire(list.leaves)?, complete: list.complete })
    }
}

/// Runs of which each begins behind the end of the one before.
fn ascending_from_wire(runs: Vec<WireRun>) -> Result<Vec<Run>, MessageError> {
    let runs = runs_from_wire(runs)?;
    let ascending = runs.array_windows().all(|[left, right]| left.numbers().end < right.first);
    if ascending { Ok(runs) } else { Err(MessageError::Field("order of runs")) }
}
