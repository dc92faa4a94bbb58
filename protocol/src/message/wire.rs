//! The messages as protocol buffers, and the parsing of each into its checked form. Field numbers are those
//! of `docs/wire-format.md`.

mod entry;
mod storing;
mod sync;

use prost::{Message as ProstMessage, Oneof};

use self::{
    entry::{WireEntry, entry_from_wire, entry_to_wire},
    storing::{WireName, WireSettled, WireWant, names_from_wire, names_to_wire},
    sync::{
        WireExpand, WireList, WireNodes, WirePropose, WireRoot, WireSelection, place_from_wire,
        place_to_wire, selection_from_wire, selection_to_wire,
    },
};
use super::{
    Ask, Batch, Claim, Congestion, Connections, Consent, Counts, DiskId, Message, MessageError, Offer,
    Refuse, Run, Secret, SessionId, TargetView, Totals,
};
use crate::{
    controller::Controller,
    limits::{BATCH_ENTRIES, BATCH_PROBLEMS, CONTROLLER_NAME_BYTES, DETAIL_BYTES},
    manifest::{Entry, EntryId},
    path::EntryPath,
    problem::{Cause, Problem, Reason, cut_detail},
};

#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct Envelope {
    #[prost(oneof = "Body", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16")]
    body: Option<Body>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Body {
    #[prost(message, tag = "1")]
    Ask(WireAsk),
    #[prost(message, tag = "2")]
    Offer(WireOffer),
    #[prost(message, tag = "3")]
    Refuse(WireRefuse),
    #[prost(message, tag = "4")]
    Accept(Nothing),
    #[prost(message, tag = "5")]
    Manifest(WireBatch),
    #[prost(message, tag = "6")]
    ManifestEnd(WireTotals),
    #[prost(message, tag = "7")]
    Want(WireWant),
    #[prost(message, tag = "8")]
    Settled(WireSettled),
    #[prost(message, tag = "9")]
    Done(WireCounts),
    #[prost(message, tag = "10")]
    Farewell(Nothing),
    #[prost(message, tag = "11")]
    KeepAlive(Nothing),
    #[prost(message, tag = "12")]
    Propose(WirePropose),
    #[prost(message, tag = "13")]
    Root(WireRoot),
    #[prost(message, tag = "14")]
    Expand(WireExpand),
    #[prost(message, tag = "15")]
    Nodes(WireNodes),
    #[prost(message, tag = "16")]
    List(WireList),
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
struct Nothing {}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireAsk {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    session: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    secret: Vec<u8>,
    #[prost(bool, tag = "4")]
    consent_pending: bool,
    #[prost(uint32, tag = "5")]
    target: u32,
    #[prost(string, tag = "6")]
    share: String,
    #[prost(bytes = "vec", optional, tag = "7")]
    path: Option<Vec<u8>>,
    #[prost(message, optional, tag = "8")]
    selection: Option<WireSelection>,
    #[prost(bool, tag = "9")]
    preview: bool,
    #[prost(uint32, tag = "10")]
    controller: u32,
    #[prost(uint32, tag = "11")]
    connections: u32,
    #[prost(message, optional, tag = "12")]
    congestion: Option<WireCongestion>,
    #[prost(message, repeated, tag = "13")]
    missed: Vec<WireName>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireOffer {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, optional, tag = "2")]
    estimate: Option<WireTotals>,
    #[prost(message, optional, tag = "3")]
    congestion: Option<WireCongestion>,
    #[prost(uint32, tag = "4")]
    connections: u32,
    #[prost(bytes = "vec", optional, tag = "5")]
    disk: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireCongestion {
    #[prost(string, tag = "1")]
    controller: String,
    #[prost(string, tag = "2")]
    problem: String,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireRefuse {
    #[prost(uint32, tag = "1")]
    reason: u32,
    #[prost(bytes = "vec", optional, tag = "2")]
    path: Option<Vec<u8>>,
    #[prost(string, tag = "3")]
    detail: String,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireBatch {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<WireEntry>,
    #[prost(message, repeated, tag = "3")]
    problems: Vec<WireProblem>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireProblem {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(bytes = "vec", tag = "2")]
    path: Vec<u8>,
    #[prost(uint32, tag = "3")]
    cause: u32,
    #[prost(string, tag = "4")]
    detail: String,
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
struct WireTotals {
    #[prost(uint64, tag = "1")]
    entries: u64,
    #[prost(uint64, tag = "2")]
    bytes: u64,
    #[prost(uint64, tag = "3")]
    problems: u64,
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
struct WireRun {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    count: u64,
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
struct WireCounts {
    #[prost(uint64, tag = "1")]
    listed: u64,
    #[prost(uint64, tag = "2")]
    sent: u64,
    #[prost(uint64, tag = "3")]
    kept: u64,
    #[prost(uint64, tag = "4")]
    skipped: u64,
    #[prost(uint64, tag = "5")]
    failed: u64,
    #[prost(uint64, tag = "6")]
    removed: u64,
    #[prost(uint64, tag = "7")]
    problems: u64,
}

impl From<&Message> for Envelope {
    fn from(message: &Message) -> Self {
        let body = match message {
            Message::Ask(ask) => Body::Ask(ask.into()),
            Message::Offer(offer) => Body::Offer(offer.into()),
            Message::Refuse(refuse) => Body::Refuse(WireRefuse {
                reason: refuse.reason.code(),
                path: refuse.path.as_ref().map(|path| path.as_bytes().to_vec()),
                detail: cut_detail(refuse.detail.clone()),
            }),
            Message::Accept => Body::Accept(Nothing {}),
            Message::Manifest(batch) => Body::Manifest(batch.into()),
            Message::ManifestEnd(totals) => Body::ManifestEnd((*totals).into()),
            Message::Want(want) => Body::Want(want.into()),
            Message::Settled(settled) => Body::Settled(settled.into()),
            Message::Done(counts) => Body::Done((*counts).into()),
            Message::Farewell => Body::Farewell(Nothing {}),
            Message::KeepAlive => Body::KeepAlive(Nothing {}),
            Message::Propose(propose) => Body::Propose(propose.into()),
            Message::Root(root) => Body::Root((*root).into()),
            Message::Expand(expand) => Body::Expand(expand.into()),
            Message::Nodes(nodes) => Body::Nodes(nodes.into()),
            Message::List(list) => Body::List(list.into()),
        };
        Self { body: Some(body) }
    }
}

impl TryFrom<Envelope> for Message {
    type Error = MessageError;

    fn try_from(envelope: Envelope) -> Result<Self, MessageError> {
        Ok(match envelope.body.ok_or(MessageError::Field("body"))? {
            Body::Ask(ask) => Self::Ask(ask.try_into()?),
            Body::Offer(offer) => Self::Offer(offer.try_into()?),
            Body::Refuse(refuse) => Self::Refuse(refuse.try_into()?),
            Body::Accept(Nothing {}) => Self::Accept,
            Body::Manifest(batch) => Self::Manifest(batch.try_into()?),
            Body::ManifestEnd(totals) => Self::ManifestEnd(totals.into()),
            Body::Want(want) => Self::Want(want.try_into()?),
            Body::Settled(settled) => Self::Settled(settled.try_into()?),
            Body::Done(counts) => Self::Done(counts.into()),
            Body::Farewell(Nothing {}) => Self::Farewell,
            Body::KeepAlive(Nothing {}) => Self::KeepAlive,
            Body::Propose(propose) => Self::Propose(propose.try_into()?),
            Body::Root(root) => Self::Root(root.try_into()?),
            Body::Expand(expand) => Self::Expand(expand.try_into()?),
            Body::Nodes(nodes) => Self::Nodes(nodes.try_into()?),
            Body::List(list) => Self::List(list.try_into()?),
        })
    }
}

impl From<&Ask> for WireAsk {
    fn from(ask: &Ask) -> Self {
        let (secret, share, path) = match &ask.claim {
            Claim::Ticket(secret) => (secret.as_bytes().to_vec(), String::new(), None),
            Claim::Share(place) => {
                let (share, path) = place_to_wire(place);
                (Vec::new(), share, path)
            }
            Claim::Proposed => (Vec::new(), String::new(), None),
        };
        Self {
            version: ask.version,
            session: ask.session.0.to_vec(),
            secret,
            consent_pending: ask.consent == Consent::Pending,
            target: match ask.target {
                TargetView::Empty => 0,
                TargetView::Occupied => 1,
                TargetView::Comparable => 2,
            },
            share,
            path,
            selection: selection_to_wire(&ask.selection),
            preview: ask.preview,
            connections: connections_to_wire(ask.connections),
            controller: controller_to_wire(ask.controller),
            congestion: ask.congestion.as_ref().map(Into::into),
            missed: names_to_wire(&ask.missed),
        }
    }
}

impl TryFrom<WireAsk> for Ask {
    type Error = MessageError;

    fn try_from(ask: WireAsk) -> Result<Self, MessageError> {
        let consent = if ask.consent_pending { Consent::Pending } else { Consent::Given };
        let target = match (ask.target, consent, ask.preview) {
            // Content would be sent to a receiver that stores nothing.
            (0, Consent::Given | Consent::Pending, false) => TargetView::Empty,
            (1, Consent::Given | Consent::Pending, _) => TargetView::Occupied,
            // Nobody could be shown what is listed before all of it was compared.
            (2, Consent::Given, _) => TargetView::Comparable,
            _ => return Err(MessageError::Field("view of the target")),
        };
        Ok(Self {
            version: ask.version,
            session: session_from_wire(ask.session)?,
            claim: claim_from_wire(ask.secret, &ask.share, ask.path.as_deref())?,
            consent,
            target,
            selection: selection_from_wire(ask.selection)?,
            preview: ask.preview,
            connections: connections_from_wire(ask.connections)?,
            controller: controller_from_wire(ask.controller)?,
            congestion: ask.congestion.map(TryInto::try_into).transpose()?,
            missed: names_from_wire(ask.missed)?,
        })
    }
}

/// Nothing for one.
fn connections_to_wire(connections: Connections) -> u32 {
    match connections {
        Connections::ONE => 0,
        more => more.count() as u32,
    }
}

fn connections_from_wire(count: u32) -> Result<Connections, MessageError> {
    count.max(1).try_into().map_err(|_| MessageError::Field("number of connections"))
}

impl From<&Offer> for WireOffer {
    fn from(offer: &Offer) -> Self {
        Self {
            version: offer.version,
            estimate: offer.estimate.map(Into::into),
            connections: connections_to_wire(offer.connections),
            congestion: offer.congestion.as_ref().map(Into::into),
            disk: offer.disk.map(|DiskId(bytes)| bytes.to_vec()),
        }
    }
}

impl TryFrom<WireOffer> for Offer {
    type Error = MessageError;

    fn try_from(offer: WireOffer) -> Result<Self, MessageError> {
        let disk = offer.disk.map(|bytes| bytes.try_into().map(DiskId)).transpose();
        Ok(Self {
            version: offer.version,
            estimate: offer.estimate.map(Into::into),
            connections: connections_from_wire(offer.connections)?,
            congestion: offer.congestion.map(TryInto::try_into).transpose()?,
            disk: disk.map_err(|_| MessageError::Field("disk"))?,
        })
    }
}

/// 0 for none.
fn controller_to_wire(controller: Option<Controller>) -> u32 {
    match controller {
        None => 0,
        Some(Controller::Cubic) => 1,
        Some(Controller::Bbr) => 2,
    }
}

fn controller_from_wire(controller: u32) -> Result<Option<Controller>, MessageError> {
    match controller {
        0 => Ok(None),
        1 => Ok(Some(Controller::Cubic)),
        2 => Ok(Some(Controller::Bbr)),
        _ => Err(MessageError::Field("congestion controller")),
    }
}

impl From<&Congestion> for WireCongestion {
    fn from(congestion: &Congestion) -> Self {
        Self { controller: congestion.controller.clone(), problem: cut_detail(congestion.problem.clone()) }
    }
}

impl TryFrom<WireCongestion> for Congestion {
    type Error = MessageError;

    fn try_from(WireCongestion { controller, problem }: WireCongestion) -> Result<Self, MessageError> {
        check_count(
            controller.len() as u64,
            CONTROLLER_NAME_BYTES as u64,
            "name of a congestion controller",
        )?;
        Ok(Self { controller, problem: parse_detail(problem)? })
    }
}

fn session_from_wire(session: Vec<u8>) -> Result<SessionId, MessageError> {
    session.try_into().map(SessionId).map_err(|_| MessageError::Field("session id"))
}

fn claim_from_wire(secret: Vec<u8>, share: &str, path: Option<&[u8]>) -> Result<Claim, MessageError> {
    match (secret.is_empty(), share.is_empty(), path) {
        (true, true, None) => Ok(Claim::Proposed),
        (true, false, path) => Ok(Claim::Share(place_from_wire(share, path)?)),
        (false, true, None) => {
            let secret = secret.try_into().map_err(|_| MessageError::Field("secret"))?;
            Ok(Claim::Ticket(Secret::from_bytes(secret)))
        }
        (true, true, Some(_)) | (false, _, _) => Err(MessageError::Field("claim")),
    }
}

impl TryFrom<WireRefuse> for Refuse {
    type Error = MessageError;

    fn try_from(refuse: WireRefuse) -> Result<Self, MessageError> {
        Ok(Self {
            reason: Reason::from_code(refuse.reason).ok_or(MessageError::Field("reason"))?,
            path: refuse.path.map(|path| EntryPath::parse(&path)).transpose()?,
            detail: parse_detail(refuse.detail)?,
        })
    }
}

impl From<&Batch> for WireBatch {
    fn from(batch: &Batch) -> Self {
        let mut before: &[u8] = &[];
        let mut entries = Vec::with_capacity(batch.entries.len());
        for entry in &batch.entries {
            entries.push(entry_to_wire(entry, shared_bytes(before, &entry.path)));
            before = entry.path.as_bytes();
        }
        Self { first: batch.first.0, entries, problems: plain_problems_to_wire(&batch.problems) }
    }
}

impl TryFrom<WireBatch> for Batch {
    type Error = MessageError;

    fn try_from(batch: WireBatch) -> Result<Self, MessageError> {
        check_count(batch.entries.len() as u64, BATCH_ENTRIES as u64, "number of entries")?;
        batch.first.checked_add(batch.entries.len() as u64).ok_or(MessageError::Field("entry id"))?;
        let mut entries: Vec<Entry> = Vec::with_capacity(batch.entries.len());
        for entry in batch.entries {
            let before = entries.last().map_or(&[][..], |before| before.path.as_bytes());
            let parsed = entry_from_wire(entry, before)?;
            entries.push(parsed);
        }
        Ok(Self { first: EntryId(batch.first), entries, problems: plain_problems_from_wire(batch.problems)? })
    }
}

fn problem_to_wire(id: EntryId, problem: &Problem) -> WireProblem {
    WireProblem {
        id: id.0,
        path: problem.path.as_bytes().to_vec(),
        cause: problem.cause.code(),
        detail: cut_detail(problem.detail.clone()),
    }
}

/// Problems of what has no id.
fn plain_problems_to_wire(problems: &[Problem]) -> Vec<WireProblem> {
    problems.iter().map(|problem| problem_to_wire(EntryId(0), problem)).collect()
}

fn plain_problems_from_wire(problems: Vec<WireProblem>) -> Result<Vec<Problem>, MessageError> {
    Ok(problems_from_wire(problems)?.into_iter().map(|(_, problem)| problem).collect())
}

fn problems_from_wire(problems: Vec<WireProblem>) -> Result<Vec<(EntryId, Problem)>, MessageError> {
    check_count(problems.len() as u64, BATCH_PROBLEMS as u64, "number of problems")?;
    problems.into_iter().map(|problem| Ok((EntryId(problem.id), problem_from_wire(problem)?))).collect()
}

fn problem_from_wire(problem: WireProblem) -> Result<Problem, MessageError> {
    Ok(Problem {
        path: EntryPath::parse(&problem.path)?,
        cause: Cause::from_code(problem.cause).ok_or(MessageError::Field("cause"))?,
        detail: parse_detail(problem.detail)?,
    })
}

fn parse_detail(detail: String) -> Result<String, MessageError> {
    check_count(detail.len() as u64, DETAIL_BYTES as u64, "length of detail")?;
    Ok(detail)
}

fn check_count(count: u64, limit: u64, what: &'static str) -> Result<(), MessageError> {
    if count > limit { Err(MessageError::Field(what)) } else { Ok(()) }
}

impl From<Totals> for WireTotals {
    fn from(Totals { entries, bytes, problems }: Totals) -> Self {
        Self { entries, bytes, problems }
    }
}

impl From<WireTotals> for Totals {
    fn from(WireTotals { entries, bytes, problems }: WireTotals) -> Self {
        Self { entries, bytes, problems }
    }
}

impl From<Counts> for WireCounts {
    fn from(Counts { listed, sent, kept, skipped, failed, removed, problems }: Counts) -> Self {
        Self { listed, sent, kept, skipped, failed, removed, problems }
    }
}

impl From<WireCounts> for Counts {
    fn from(WireCounts { listed, sent, kept, skipped, failed, removed, problems }: WireCounts) -> Self {
        Self { listed, sent, kept, skipped, failed, removed, problems }
    }
}

/// How many bytes a path has in front that are those of the one before it.
fn shared_bytes(before: &[u8], path: &EntryPath) -> usize {
    path.as_bytes().iter().zip(before).take_while(|(left, right)| left == right).count()
}

fn path_from_wire(shared: u32, rest: &[u8], before: &[u8]) -> Result<EntryPath, MessageError> {
    let shared = before.get(..shared as usize).ok_or(MessageError::Field("shared path length"))?;
    Ok(EntryPath::parse(&[shared, rest].concat())?)
}

fn runs_to_wire(runs: &[Run]) -> Vec<WireRun> {
    runs.iter().map(|run| WireRun { first: run.first, count: run.count }).collect()
}

fn runs_from_wire(runs: Vec<WireRun>) -> Result<Vec<Run>, MessageError> {
    runs.into_iter()
        .map(|WireRun { first, count }| match first.checked_add(count) {
            Some(_) if count > 0 => Ok(Run { first, count }),
            Some(_) | None => Err(MessageError::Field("run of numbers")),
        })
        .collect()
}
