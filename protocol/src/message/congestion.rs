//! What one side tells the other of the congestion controller on the session's connection.

/// What a side has, and what came of a wish of the other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Congestion {
    /// The controller that it has, by the name that its system gives it: at most
    /// [`crate::limits::CONTROLLER_NAME_BYTES`] bytes. Empty where its system does not say.
    pub controller: String,
    /// Why it is not the one that was wished for, for a person; empty where it is, or none was.
    pub problem: String,
}
