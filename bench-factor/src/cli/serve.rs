//! `bench-factor serve`: the source of observations.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;

use crate::study::{self, PORT, ServeOptions};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The tree to send; its regular files are read once before anybody is served
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where to listen, over TCP and UDP
    #[arg(long, value_name = "IP:PORT", default_value_t = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// End after one observation
    #[arg(long)]
    once: bool,
}

/// Serves until it is stopped, or once.
pub(super) fn run(arguments: Serve, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Serve { data, listen, once } = arguments;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    Ok(runtime.block_on(study::serve(&ServeOptions { data, listen, once }, out))?)
}
