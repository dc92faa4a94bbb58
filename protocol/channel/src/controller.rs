//! Why a congestion controller cannot be had.

use std::io;

use crate::settings::Controller;

/// Why a connection does not have the congestion controller that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The connection failed.
    #[error("setting the congestion controller {asked}: {cause}")]
    Failed {
        /// What was asked for.
        asked: Controller,
        /// What happened.
        cause: io::Error,
    },
}
