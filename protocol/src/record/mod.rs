//! What data streams carry: [`segment`]s between nodes, [`bare`] records in the study.

pub mod bare;
mod cursor;
pub mod segment;

pub use cursor::Field;
