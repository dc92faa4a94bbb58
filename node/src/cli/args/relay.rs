//! What `ketch relay` is told, and what nodes that wait ask of their router.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use ketch::swarm::Multiaddr;

#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Addresses, limits and listed peers from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Listen here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// Where others reach it, if it is not where it listens; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) external: Vec<Multiaddr>,

    /// Show counts for Prometheus here, at /metrics, such as 127.0.0.1:9383
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is asked of the router before a node that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct RouterOptions {
    /// Do not ask the router to open the ports that are listened on (UPnP); it is not asked with --listen either
    #[arg(long)]
    no_upnp: bool,
}

impl RouterOptions {
    /// Whether it is asked. Who names an address to listen on knows from where it is reached.
    pub(crate) fn opens_ports(self, listen: &[Multiaddr]) -> bool {
        !self.no_upnp && listen.is_empty()
    }
}
