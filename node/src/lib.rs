//! Placeholder until its first module lands.

pub mod trust;
