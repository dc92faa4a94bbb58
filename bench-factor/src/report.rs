//! The report of a run: from its rows alone, and byte for byte the same whenever it is made.
//!
//! [`rows`] and [`plan`] read once and check, [`analysis`] makes values of what was read, and [`markdown`], [`csv`] and
//! [`html`] write them down, with the words of [`wording`].

mod analysis;
mod error;
mod limits;
mod plan;
mod rows;
