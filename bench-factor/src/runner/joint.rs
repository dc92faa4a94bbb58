//! How the two ends of one observation are joined, and where the source's end is: on a host of this machine, or on the one
//! of `--remote`. The target's end is always here.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{
    error::{RunError, run_io_error},
    plan::Planned,
    probe::Probe,
    programs::Programs,
    remote::Remote,
    sampler::{Hosts, Sampled},
    stage::{await_ready, end},
};
use crate::{
    study::PORT,
    tools::{
        error::ToolsError,
        place::{Route, SERVER},
        process::End,
    },
};

/// Both ends.
#[derive(Debug)]
pub(super) struct Joint<'a> {
    /// Joins those of this machine; the target's is always one of them.
    pub(super) route: Route,
    /// Has the source's end, where that is not on this machine.
    pub(super) remote: Option<&'a Remote>,
}

/// A data set and its tree; on another host the name is enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data<'a> {
    pub(super) name: &'a str,
    pub(super) tree: &'a Path,
}

/// A source that listens.
#[derive(Debug)]
pub(super) struct Serving<'a> {
    /// Where the target dials it.
    pub(super) address: SocketAddr,
    log: PathBuf,
    process: Process<'a>,
}

#[derive(Debug)]
enum Process<'a> {
    Here(End),
    There(&'a Remote),
}

impl<'a> Joint<'a> {
    /// Starts the source; what it prints goes to the file `log`.
    pub(super) fn serve(
        &self,
        programs: &Programs,
        planned: &Planned,
        data: Data<'_>,
        log: PathBuf,
    ) -> Result<Serving<'a>, RunError> {
        if let Some(remote) = self.remote {
            let address = remote.serve(planned, data.name)?;
            return Ok(Serving { address, log, process: Process::There(remote) });
        }
        // Over loopback the port may be somebody's.
        let port = if self.route.is_one_host() { 0 } else { PORT };
        let listen = SocketAddr::new(self.route.address(SERVER), port);
        let command = programs.serve(planned, data.tree, listen)?;
        let mut end = End::start_alone(&self.route, SERVER, vec![command], &log)?;
        let address = await_ready(&mut end)?;
        Ok(Serving { address, log, process: Process::Here(end) })
    }

    /// Starts probes from the target's host to the source's.
    pub(super) fn probe(&self, link: &str) -> Result<Probe, RunError> {
        let probe = match self.remote {
            Some(remote) => Probe::towards(self.bind_towards(remote.echo())?, remote.echo()),
            None => Probe::start(self.route.bind_udp(SERVER.other())?, self.route.bind_udp(SERVER)?),
        };
        probe.map_err(run_io_error("start the probes over", Path::new(link)))
    }

    /// Where the counters of both hosts are; of a source on another host they come with its end.
    pub(super) fn hosts(&self) -> Result<Hosts, ToolsError> {
        let (sender, receiver) = (self.route.counters(SERVER)?, self.route.counters(SERVER.other())?);
        let are_one = self.remote.is_none() && self.route.is_one_host();
        Ok(Hosts { sender, receiver, are_one })
    }

    /// Fails where the source's end can be known to be gone.
    pub(super) fn check(&self) -> Result<(), RunError> {
        self.remote.map_or(Ok(()), Remote::check)
    }

    fn bind_towards(&self, address: SocketAddr) -> Result<std::net::UdpSocket, RunError> {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let bound = std::net::UdpSocket::bind(any);
        bound.map_err(run_io_error("open a socket at", Path::new(any)))
    }
}

impl Serving<'_> {
    /// Ends the source, which has done so `by_itself` after a whole observation. Returns what another host has counted.
    pub(super) fn end(self, by_itself: bool) -> Result<Option<Sampled>, RunError> {
        match self.process {
            Process::Here(mut process) => end(&mut process, by_itself).map(|()| None),
            Process::There(remote) => remote.end(by_itself, &self.log).map(Some),
        }
    }
}
