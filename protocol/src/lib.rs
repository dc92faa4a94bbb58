//! What two ketch peers say to each other: bytes and decisions.
//!
//! Nothing here runs, waits, opens a file or reads a clock. Callers hand in bytes, values and the time, and
//! carry out what is handed back. `docs/wire-format.md` is the normative description of the bytes.

pub mod chunk;
pub mod controller;
pub mod delta;
pub mod difference;
pub mod hash;
pub mod introduction;
pub mod io;
pub mod limits;
pub mod manifest;
pub mod message;
pub mod path;
pub mod problem;
pub mod record;
pub mod session;
