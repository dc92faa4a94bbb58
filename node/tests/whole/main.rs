//! Whole nodes: `ketch` as processes of their own, and peers that keep to no rule.

mod admission;
mod again;
mod arguments;
mod changing;
mod compressed;
mod deliver;
mod forwarder;
mod guards;
mod hostile_receiver;
mod hostile_sender;
mod hostile_sync;
mod interrupt;
mod kinds;
mod left_out;
mod mounts;
mod peer;
mod place;
mod process;
mod rebuilt;
mod reported;
mod serving;
mod sync;
mod teardown;
mod unreachable;
mod wire;
