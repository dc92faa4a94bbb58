//! The one place where outcomes become exit codes, and the hints that go with errors.

use std::process::ExitCode;

use ketch::{
    introduction::{AnnounceError, InviteError, JoinError},
    swarm::{ControllerError, DialError, NodeError},
    transfer::{ConnectError, DialedError, OfferError, ReceiveError, SyncError},
    tree::{TargetError, UndoError, Unfinished},
};
use ketch_protocol::{
    introduction::Refusal,
    message::Counts,
    problem::Reason,
    session::{SessionError, Stop},
};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Stored,
    Failed,
    Usage,
    Unreachable,
    Partial,
    Guard,
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Stored => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Partial => 4,
            Self::Guard => 5,
            Self::Interrupted => 130,
        }
    }

    /// How a session with this account ended.
    pub(crate) fn of_counts(counts: &Counts) -> Self {
        if counts.is_complete() { Self::Stored } else { Self::Partial }
    }

    pub(crate) fn of_session(error: &SessionError) -> Self {
        match error {
            SessionError::Stopped(Stop { reason, .. }) => Self::of_reason(*reason, true),
            SessionError::Refused(Stop { reason, .. }) => Self::of_reason(*reason, false),
            SessionError::Violation(_) => Self::Failed,
            SessionError::Timeout { awaited, .. } | SessionError::Lost { awaited, .. } => match *awaited {
                // The hello of the side that was dialed.
                "offer" | "ask" => Self::Unreachable,
                _ => Self::Failed,
            },
        }
    }

    /// Why a session was stopped: by this side, or by the other.
    fn of_reason(reason: Reason, is_own: bool) -> Self {
        match reason {
            Reason::Interrupted if is_own => Self::Interrupted,
            Reason::Version if is_own => Self::Failed,
            Reason::NoSpace
            | Reason::ReadOnly
            | Reason::RemovalLimit
            | Reason::EmptySource
            | Reason::OtherSource
            | Reason::Unavailable => Self::Guard,
            Reason::NotAdmitted | Reason::Declined | Reason::Version | Reason::Busy => Self::Unreachable,
            Reason::Interrupted | Reason::Violation | Reason::Timeout | Reason::Internal => Self::Failed,
        }
    }

    /// The exit of an error that reached the top.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<ReceiveError>() {
            return Self::of_receive(error);
        }
        if let Some(error) = error.downcast_ref::<OfferError>() {
            return Self::of_offer(error);
        }
        if let Some(error) = error.downcast_ref::<SyncError>() {
            return Self::of_sync(error);
        }
        if let Some(UndoError::Target(error)) = error.downcast_ref::<UndoError>() {
            return Self::of_target(error);
        }
        if let Some(error) = error.downcast_ref::<DialError>() {
            return Self::of_dial(error);
        }
        if error.is::<JoinError>() {
            return Self::Unreachable;
        }
        if error.is::<Interrupted>() {
            return Self::Interrupted;
        }
        if error.is::<Usage>() {
            return Self::Usage;
        }
        Self::Failed
    }

    fn of_receive(error: &ReceiveError) -> Self {
        match error {
            ReceiveError::LookAtTarget(_) | ReceiveError::List(_) => Self::Failed,
            ReceiveError::Target(error) => Self::of_target(error),
            ReceiveError::NoAddress { .. } => Self::Unreachable,
            ReceiveError::Dialed(error) => Self::of_dialed(error),
        }
    }

    fn of_sync(error: &SyncError) -> Self {
        match error {
            SyncError::Tree(_) | SyncError::LookAtTarget(_) => Self::Failed,
            SyncError::Source { .. } | SyncError::OtherSource { .. } => Self::Guard,
            SyncError::Target(error) => Self::of_target(error),
            SyncError::Dialed(error) => Self::of_dialed(error),
        }
    }

    fn of_dialed(error: &DialedError) -> Self {
        match error {
            DialedError::Connect(error) => Self::of_connect(error),
            DialedError::Session { error, .. } => Self::of_session(error),
            DialedError::Interrupted => Self::Interrupted,
            DialedError::Random(_) => Self::Failed,
        }
    }

    fn of_connect(error: &ConnectError) -> Self {
        match error {
            ConnectError::Dial(error) => Self::of_dial(error),
            ConnectError::OnlyRelayed { .. }
            | ConnectError::Stream(_)
            | ConnectError::Control(_)
            | ConnectError::Silent { .. } => Self::Unreachable,
        }
    }

    fn of_dial(error: &DialError) -> Self {
        match error {
            DialError::Controller(_) => Self::Failed,
            DialError::NoAddress(_) | DialError::ManyAddresses { .. } | DialError::Unreachable { .. } => {
                Self::Unreachable
            }
        }
    }

    fn of_target(error: &TargetError) -> Self {
        match error {
            TargetError::Trash(_) | TargetError::Failed { .. } => Self::Failed,
            TargetError::Busy { .. } => Self::Unreachable,
            TargetError::NoSpace { .. }
            | TargetError::ReadOnly { .. }
            | TargetError::NotDirectory { .. }
            | TargetError::Planted { .. } => Self::Guard,
        }
    }

    fn of_offer(error: &OfferError) -> Self {
        match error {
            OfferError::Session(error) => Self::of_session(error),
            OfferError::Expired | OfferError::State(_) | OfferError::Stopped => Self::Failed,
            OfferError::Interrupted => Self::Interrupted,
        }
    }
}

/// The person has stopped it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// The command line asks for something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Usage {
    pub(crate) message: String,
    /// A command or option that would help.
    pub(crate) hint: Option<&'static str>,
}

/// A command or an option that would help, if one is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(usage) = error.downcast_ref::<Usage>() {
        return usage.hint;
    }
    if let Some(error) = error.downcast_ref::<NodeError>() {
        return match error {
            NodeError::Listen { .. } => {
                Some("--listen ADDR names another address, for instance /ip4/0.0.0.0/tcp/0")
            }
            NodeError::Controller(error) => controller_hint(error),
            NodeError::Identity(_) => None,
        };
    }
    if let Some(error) = error.downcast_ref::<DialError>() {
        return match error {
            DialError::Controller(error) => controller_hint(error),
            DialError::NoAddress(_) => Some(
                "`ketch peers add NAME PEERID ADDR` remembers an address; on one LAN both sides go without --no-lan",
            ),
            DialError::ManyAddresses { .. } | DialError::Unreachable { .. } => None,
        };
    }
    if let Some(error) = error.downcast_ref::<SyncError>() {
        return sync_hint(error);
    }
    if let Some(error) = error.downcast_ref::<JoinError>() {
        return Some(join_hint(error.refusal()));
    }
    if let Some(error) = error.downcast_ref::<InviteError>() {
        return invite_hint(*error);
    }
    if let Some(AnnounceError::Crowded) = error.downcast_ref::<AnnounceError>() {
        return Some("leave --code out to use a ticket");
    }
    match error.downcast_ref::<ReceiveError>()? {
        ReceiveError::NoAddress { transport: Some(_) } => {
            Some("leave --transport out to use whatever the ticket has")
        }
        ReceiveError::NoAddress { transport: None } => {
            Some("`ketch send` must still be running, on the same LAN and without --no-lan")
        }
        ReceiveError::Dialed(error) => dialed_hint(
            error,
            "`ketch send` must still be running, and its port reachable from here",
            "the ticket is spent, expired or for someone else; `ketch send` makes a new one",
        ),
        ReceiveError::Target(_) | ReceiveError::LookAtTarget(_) | ReceiveError::List(_) => None,
    }
}

/// What helps a guest that was refused, or met nobody.
fn join_hint(refusal: Option<Refusal>) -> &'static str {
    match refusal {
        None => "the command that printed it must still be running there, and its port reachable from here",
        Some(Refusal::Wrong | Refusal::Burnt | Refusal::Used | Refusal::Expired) => {
            "run the command that printed it once more there, which prints another one"
        }
        Some(Refusal::OtherCode) => "the number in front is another one there, or it waits with a ticket",
        Some(Refusal::OtherPurpose) => {
            "what `ketch send` prints is for `ketch receive`, what `ketch pair` prints for `ketch pair`"
        }
        Some(Refusal::NotAdmitted) => {
            "the offer is reserved for another peer; `ketch send --new` makes another"
        }
        Some(Refusal::Version) => "both sides need the same version of ketch",
    }
}

fn invite_hint(error: InviteError) -> Option<&'static str> {
    match error {
        InviteError::Burnt(_) => {
            Some("run the same command again for another code, and say it to the right person")
        }
        InviteError::Expired => Some("--expires TIME waits longer"),
        InviteError::Stopped => None,
    }
}

const OTHER_SOURCE: &str =
    "mount what belongs there, or --force-empty if the source is meant to lie on another file system";

/// What is kept of large files that are not whole, where a session ended early.
pub(crate) fn unfinished(error: &anyhow::Error) -> Option<&Unfinished> {
    let sync = error.downcast_ref::<SyncError>();
    let receive = error.downcast_ref::<ReceiveError>();
    match (sync, receive) {
        (Some(SyncError::Dialed(DialedError::Session { unfinished, .. })), _)
        | (_, Some(ReceiveError::Dialed(DialedError::Session { unfinished, .. }))) => Some(unfinished),
        (Some(_) | None, Some(_) | None) => None,
    }
}

fn controller_hint(error: &ControllerError) -> Option<&'static str> {
    error.remedy().or(Some("--controller auto leaves the system's"))
}

fn sync_hint(error: &SyncError) -> Option<&'static str> {
    match error {
        SyncError::Dialed(error) => dialed_hint(
            error,
            "`ketch serve` must be running there, and its port reachable from here",
            "there is no such share, or no such right on it: the other side gives one by `ketch serve --allow PEER=NAME:RIGHT`, and PEER is what `ketch id` prints here",
        ),
        SyncError::OtherSource { .. } => Some(OTHER_SOURCE),
        SyncError::Source { .. } | SyncError::Tree(_) | SyncError::Target(_) | SyncError::LookAtTarget(_) => {
            None
        }
    }
}

/// What helps where the peer was not reached, did not admit this one, or anything else came between.
fn dialed_hint(
    error: &DialedError,
    unreachable: &'static str,
    not_admitted: &'static str,
) -> Option<&'static str> {
    match error {
        DialedError::Connect(ConnectError::Dial(DialError::Controller(error))) => controller_hint(error),
        DialedError::Connect(ConnectError::Dial(_) | ConnectError::Silent { .. }) => Some(unreachable),
        DialedError::Session { error, .. } => session_hint(error, not_admitted),
        DialedError::Connect(
            ConnectError::OnlyRelayed { .. } | ConnectError::Stream(_) | ConnectError::Control(_),
        )
        | DialedError::Interrupted
        | DialedError::Random(_) => None,
    }
}

fn session_hint(error: &SessionError, not_admitted: &'static str) -> Option<&'static str> {
    match error.reason() {
        Some(Reason::NotAdmitted) => Some(not_admitted),
        Some(Reason::NoSpace) => {
            Some("make room and run the same command again; what is stored is not sent again")
        }
        Some(Reason::RemovalLimit) => {
            Some("--dry-run shows what would be removed, --max-delete allows more of it")
        }
        Some(Reason::EmptySource) => Some("--force-empty if the source is meant to be empty"),
        Some(Reason::OtherSource) => Some(OTHER_SOURCE),
        Some(Reason::Busy) => Some("run the same command again when the other session has ended"),
        Some(
            Reason::Version
            | Reason::Violation
            | Reason::Declined
            | Reason::Interrupted
            | Reason::ReadOnly
            | Reason::Unavailable
            | Reason::Timeout
            | Reason::Internal,
        ) => None,
        None => Some("run the same command again; what is stored is not sent again"),
    }
}
