//! Ctrl-C and its like, held back so that what is mounted and running is ended first.
//!
//! [`hold`] blocks the signals in this process, which its threads inherit and its children do not: the
//! standard library gives them an empty mask. A blocked signal stays pending, and whoever waits for
//! something also polls [`pending`].

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

use super::error::ToolsError;

/// Holds the signals back from now on. To be called while this process has one thread.
pub(crate) fn hold() -> Result<(), ToolsError> {
    signals().thread_block().map_err(refused)
}

/// What can be read when one of them has come; nobody reads it, so that it stays true.
pub(crate) fn pending() -> Result<SignalFd, ToolsError> {
    SignalFd::with_flags(&signals(), SfdFlags::SFD_CLOEXEC).map_err(refused)
}

fn signals() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

fn refused(source: nix::errno::Errno) -> ToolsError {
    ToolsError::Io { action: "hold back", path: "signals".into(), source: source.into() }
}
