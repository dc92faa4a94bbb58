//! What decides how fast a connection may send: the system's controllers, which TCP sockets are given, and our own BBR,
//! which decides from values and times alone.

pub(crate) mod bbr;
mod kernel;
#[cfg(test)]
mod simulation;

pub use kernel::{ControllerError, check_controller};
pub(crate) use kernel::{name, set};
