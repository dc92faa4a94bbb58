//! Whole nodes: `ketch` as processes of their own, and peers that keep to no rule.

mod deliver;
mod hostile_receiver;
mod hostile_sender;
mod interrupt;
mod peer;
mod place;
mod process;
mod wire;
