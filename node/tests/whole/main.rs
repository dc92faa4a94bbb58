//! Whole nodes: `ketch` as processes of their own, and peers that keep to no rule.

mod admission;
mod deliver;
mod guards;
mod hostile_receiver;
mod hostile_sender;
mod interrupt;
mod mounts;
mod peer;
mod place;
mod process;
mod unreachable;
mod wire;
