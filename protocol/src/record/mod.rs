//! What data streams carry: [`segment`]s between nodes, as they are or [`compressed`], and [`bare`] records in
//! the study.

pub mod bare;
pub mod compressed;
mod cursor;
mod number;
pub mod segment;

pub use cursor::Field;
