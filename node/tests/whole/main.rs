//! Whole nodes: `ketch` as processes of their own, and peers that keep to no rule.

mod deliver;
mod place;
mod process;
