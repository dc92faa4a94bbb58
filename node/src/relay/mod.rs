//! What a relay allows and keeps account of: decisions without a socket. `swarm::RelayServer` acts by them.
//!
//! A [`Policy`] says how much is allowed, a [`Ledger`] who has what of it, a [`Board`] which peers have left addresses
//! for others, and [`metrics`] shows the counts as text.

pub mod board;
pub mod config;
pub mod ledger;
mod limits;
pub mod metrics;
pub mod page;
pub mod policy;

pub use board::{Board, BoardError, Posted};
pub use ledger::{CircuitNumber, Counts, Cut, Ledger, Refusal};
pub use policy::{Allowance, Carrying, Policy};
