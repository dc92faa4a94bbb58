//! The node: it meets peers and moves trees between them.

pub mod identity;
pub mod state;
pub mod swarm;
