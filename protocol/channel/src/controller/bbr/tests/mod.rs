//! What it does on simulated paths, and to calls that a simulation does not make.

mod alone;
mod calls;
mod changes;
mod hostile;
mod together;
