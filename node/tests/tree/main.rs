//! The trees on disk, tried on real file systems through the public interface.

mod hostile;
mod known;
mod links;
mod partial;
mod removal;
mod setting;
mod source;
mod sparse;
mod sync;
mod target;
mod trash;
