//! Two sessions over a link in memory, in virtual time. The bytes are real, the drivers are thin: what holds
//! here is decided by the protocol crate alone.

mod content;
mod cuts;
mod flights;
mod random;
mod stalls;
mod sync;

use ketch_simulation::{Side, link, source, tree, world};
