//! `bench-factor cell`: one observation.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::Args;
use ketch_channel::TransportKind;

use crate::study::{
    self, CellOptions, CellReport, Condition, Controller, Layout, OBSERVATION_LIMIT, Outcome, PORT, Profile,
};

/// Exit codes of observations that were begun and brought no verified copy. 1 and 2 are taken.
const ABORTED: u8 = 3;
const CENSORED: u8 = 4;

#[derive(Debug, Args)]
pub(super) struct Cell {
    /// Where the copy goes: an empty folder, or one that is not there
    #[arg(long, value_name = "DIR")]
    target: PathBuf,
    /// Where `bench-factor serve` listens
    #[arg(long, value_name = "IP[:PORT]", value_parser = peer)]
    peer: SocketAddr,
    /// A stream for each file, or files back to back
    #[arg(long, value_enum)]
    layout: Layout,
    /// What carries the connections: tcp or quic
    #[arg(long)]
    transport: TransportKind,
    /// What decides how fast they may send: cubic, bbr, or over quic bbr3, which is ketch's own
    #[arg(long)]
    controller: Controller,
    /// How many connections share the files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(ketch_protocol::limits::CONNECTIONS)))]
    connections: u8,
    /// The windows and buffers of the method, or those that suit long and lossy paths
    #[arg(long, value_enum, default_value_t = Profile::Seed)]
    profile: Profile,
    /// What to ask for the buffers of UDP sockets, instead of what the profile has
    #[arg(long, value_name = "BYTES")]
    udp_buffer: Option<u32>,
    /// Stop after so many seconds; the observation counts as censored then
    #[arg(long, value_name = "SECONDS", default_value_t = OBSERVATION_LIMIT.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Parse what comes and keep nothing of it, to learn what the disk does not cost
    #[arg(long)]
    discard: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Makes the observation and prints its report. Exits with 0 where the copy is verified.
pub(super) fn run(arguments: Cell, started: Instant, out: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    let Cell { target, peer, layout, transport, controller, connections, profile, udp_buffer, .. } =
        arguments;
    let Cell { limit, discard, json, .. } = arguments;
    let condition =
        Condition { layout, transport, controller, connections, profile, udp_buffer_bytes: udp_buffer };
    let options =
        CellOptions { target, peer, condition, discard, limit: Duration::from_secs(limit), started };
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let report = runtime.block_on(study::observe(&options))?;
    print(&report, json, out).context("cannot write to standard output")?;
    Ok(match report.outcome {
        Outcome::Verified | Outcome::Discarded => ExitCode::SUCCESS,
        Outcome::Failed { .. } => ExitCode::FAILURE,
        Outcome::Aborted { .. } => ABORTED.into(),
        Outcome::Censored { .. } => CENSORED.into(),
    })
}

fn print(report: &CellReport, json: bool, out: &mut impl io::Write) -> io::Result<()> {
    if json { writeln!(out, "{}", serde_json::to_string(report)?) } else { write!(out, "{report}") }
}

/// An address with the port that sources listen on where none is said.
fn peer(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>().ok();
    let without = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    let address = with_port.or_else(without).filter(|address| address.port() != 0);
    address.ok_or_else(|| "an IP address is needed, with or without a port".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_may_leave_its_port_out() {
        assert_eq!(peer("192.0.2.7").unwrap().to_string(), "192.0.2.7:32943");
        assert_eq!(peer("192.0.2.7:80").unwrap().to_string(), "192.0.2.7:80");
        assert_eq!(peer("::1").unwrap().to_string(), "[::1]:32943");
        assert_eq!(peer("[::1]:80").unwrap().to_string(), "[::1]:80");
        for wrong in ["", "host", "192.0.2.7:0", "192.0.2.7:x"] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
    }
}
