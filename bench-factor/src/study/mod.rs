//! One observation of the study: a tree from a source to a target, over channels without a Swarm, timed and verified.
//!
//! The two ends are two processes of the same build. [`serve()`] is the source: it listens and answers. [`cell`] is the
//! target: it dials, asks and holds the clock. They arrange an observation on a control connection ([`control`]),
//! which carries nothing that is timed; then the source listens with the settings of the [`condition`], the
//! [`stopwatch`] starts, and data connections carry one [`request`] each and the content:
//!
//! ```text
//! files -> reading -> queue -> sending -> streams -> receiving -> queue -> writing -> files
//! ```
//!
//! When all is closed, acknowledged, drained and synced, the [`manifest`] tells whether it is a copy. The result is a
//! [`CellReport`].

pub(crate) mod account;
mod cell;
pub(crate) mod cell_report;
mod condition;
mod connection;
mod control;
mod controller;
mod ends;
mod error;
pub(crate) mod libraries;
mod limits;
mod manifest;
mod reading;
mod receiving;
mod request;
mod sending;
mod serve;
pub(crate) mod sockets;
mod stopwatch;
#[cfg(test)]
mod tests;
mod writing;

pub(crate) use cell::{Options as CellOptions, observe};
pub(crate) use cell_report::{CellReport, Outcome};
pub(crate) use condition::{Condition, Layout, Profile};
pub(crate) use controller::Controller;
pub(crate) use limits::{OBSERVATION_LIMIT, PORT};
pub(crate) use serve::{Options as ServeOptions, serve};

/// What this program was built from: one hash of its sources, those of the crates it is made of and its dependencies'
/// versions (`build.rs`).
pub(crate) const BUILD: &str = env!("BENCH_FACTOR_BUILD");
