//! The trees on disk, tried on real file systems through the public interface.

mod hostile;
mod known;
mod partial;
mod setting;
mod source;
mod target;
