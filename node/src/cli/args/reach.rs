//! How a peer is reached and found, as the commands that meet peers share it.

use clap::Args;

/// How peers are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct ReachOptions {
    /// Neither look for peers on the LAN nor tell it who and where this node is
    #[arg(long)]
    no_lan: bool,
}

impl ReachOptions {
    /// Whether the LAN takes part.
    pub(crate) fn lan(self) -> bool {
        !self.no_lan
    }
}
