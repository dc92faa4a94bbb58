//! Whatever a peer says, nothing panics, and nothing is kept beyond the limits.

mod fields;
mod frames;
mod messages;
mod records;
mod sessions;
