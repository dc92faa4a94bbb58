//! What the receiver says of entries, as protocol buffers: what it wants of them, and what became of them.

use prost::Message as ProstMessage;

use super::{
    WireProblem, WireRun, check_count, path_from_wire, plain_problems_from_wire, plain_problems_to_wire,
    problem_to_wire, problems_from_wire, runs_from_wire, runs_to_wire, shared_bytes,
};
use crate::{
    limits::{BATCH_ENTRIES, PARTS_RUNS, WINDOW_ENTRIES},
    manifest::EntryId,
    message::{MessageError, Parts, Pieces, Run, Settled, Want},
    path::EntryPath,
};

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireWant {
    #[prost(message, repeated, tag = "1")]
    content: Vec<WireRun>,
    #[prost(message, repeated, tag = "2")]
    digest: Vec<WireRun>,
    #[prost(message, repeated, tag = "3")]
    parts: Vec<WireParts>,
    #[prost(message, repeated, tag = "4")]
    delta: Vec<WireRun>,
    #[prost(message, repeated, tag = "5")]
    lists: Vec<WirePieces>,
    #[prost(message, repeated, tag = "6")]
    pieces: Vec<WirePieces>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireParts {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "2")]
    content: Vec<WireRun>,
    #[prost(message, repeated, tag = "3")]
    digest: Vec<WireRun>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WirePieces {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "2")]
    bytes: Vec<WireRun>,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireSettled {
    #[prost(message, repeated, tag = "1")]
    created: Vec<WireRun>,
    #[prost(message, repeated, tag = "2")]
    updated: Vec<WireRun>,
    #[prost(message, repeated, tag = "3")]
    described: Vec<WireRun>,
    #[prost(message, repeated, tag = "4")]
    kept: Vec<WireRun>,
    #[prost(message, repeated, tag = "5")]
    skipped: Vec<WireRun>,
    #[prost(message, repeated, tag = "6")]
    problems: Vec<WireProblem>,
    #[prost(message, repeated, tag = "7")]
    late: Vec<WireProblem>,
    #[prost(message, repeated, tag = "8")]
    removed: Vec<WireName>,
    #[prost(uint64, tag = "9")]
    planned_bytes: u64,
}

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct WireName {
    /// Leading bytes that the path shares with the path before it in this list.
    #[prost(uint32, tag = "1")]
    shared: u32,
    #[prost(bytes = "vec", tag = "2")]
    rest: Vec<u8>,
}

impl From<&Want> for WireWant {
    fn from(want: &Want) -> Self {
        Self {
            content: runs_to_wire(&want.content),
            digest: runs_to_wire(&want.digest),
            parts: want.parts.iter().map(Into::into).collect(),
            delta: runs_to_wire(&want.delta),
            lists: want.lists.iter().map(Into::into).collect(),
            pieces: want.pieces.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<WireWant> for Want {
    type Error = MessageError;

    fn try_from(want: WireWant) -> Result<Self, MessageError> {
        let parts = want.parts.into_iter().map(|parts| {
            Ok(Parts {
                id: EntryId(parts.id),
                content: range_runs_from_wire(parts.content)?,
                digest: range_runs_from_wire(parts.digest)?,
            })
        });
        Ok(Self {
            content: wanted_from_wire(want.content)?,
            digest: wanted_from_wire(want.digest)?,
            parts: parts.collect::<Result<_, MessageError>>()?,
            delta: wanted_from_wire(want.delta)?,
            lists: want.lists.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            pieces: want.pieces.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&Parts> for WireParts {
    fn from(parts: &Parts) -> Self {
        Self { id: parts.id.0, content: runs_to_wire(&parts.content), digest: runs_to_wire(&parts.digest) }
    }
}

impl From<&Pieces> for WirePieces {
    fn from(pieces: &Pieces) -> Self {
        Self { id: pieces.id.0, bytes: runs_to_wire(&pieces.bytes) }
    }
}

impl TryFrom<WirePieces> for Pieces {
    type Error = MessageError;

    fn try_from(pieces: WirePieces) -> Result<Self, MessageError> {
        Ok(Self { id: EntryId(pieces.id), bytes: range_runs_from_wire(pieces.bytes)? })
    }
}

impl From<&Settled> for WireSettled {
    fn from(settled: &Settled) -> Self {
        Self {
            created: runs_to_wire(&settled.created),
            updated: runs_to_wire(&settled.updated),
            described: runs_to_wire(&settled.described),
            kept: runs_to_wire(&settled.kept),
            skipped: runs_to_wire(&settled.skipped),
            problems: settled.problems.iter().map(|(id, problem)| problem_to_wire(*id, problem)).collect(),
            late: plain_problems_to_wire(&settled.late),
            removed: names_to_wire(&settled.removed),
            planned_bytes: settled.planned_bytes,
        }
    }
}

impl TryFrom<WireSettled> for Settled {
    type Error = MessageError;

    fn try_from(settled: WireSettled) -> Result<Self, MessageError> {
        Ok(Self {
            created: runs_from_wire(settled.created)?,
            updated: runs_from_wire(settled.updated)?,
            described: runs_from_wire(settled.described)?,
            kept: runs_from_wire(settled.kept)?,
            skipped: runs_from_wire(settled.skipped)?,
            problems: problems_from_wire(settled.problems)?,
            late: plain_problems_from_wire(settled.late)?,
            removed: names_from_wire(settled.removed)?,
            planned_bytes: settled.planned_bytes,
        })
    }
}

pub(super) fn names_to_wire(names: &[EntryPath]) -> Vec<WireName> {
    let mut before: &[u8] = &[];
    let mut wire = Vec::with_capacity(names.len());
    for name in names {
        let shared = shared_bytes(before, name);
        wire.push(WireName { shared: shared as u32, rest: name.as_bytes()[shared..].to_vec() });
        before = name.as_bytes();
    }
    wire
}

/// Counted before any is unfolded: a name may be a few bytes here and the longest path there.
pub(super) fn names_from_wire(names: Vec<WireName>) -> Result<Vec<EntryPath>, MessageError> {
    check_count(names.len() as u64, BATCH_ENTRIES as u64, "number of names")?;
    let mut parsed: Vec<EntryPath> = Vec::with_capacity(names.len());
    for WireName { shared, rest } in names {
        let before = parsed.last().map_or(&[][..], EntryPath::as_bytes);
        parsed.push(path_from_wire(shared, &rest, before)?);
    }
    Ok(parsed)
}

/// Runs of entries that are wanted. They are counted: each number becomes a job of the sender, and a run
/// takes a few bytes whatever its length.
fn wanted_from_wire(runs: Vec<WireRun>) -> Result<Vec<Run>, MessageError> {
    let runs = runs_from_wire(runs)?;
    let wanted = runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.count));
    check_count(wanted, WINDOW_ENTRIES, "number of wanted entries")?;
    Ok(runs)
}

fn range_runs_from_wire(runs: Vec<WireRun>) -> Result<Vec<Run>, MessageError> {
    check_count(runs.len() as u64, PARTS_RUNS as u64, "number of runs")?;
    runs_from_wire(runs)
}
