//! `bench-factor latency`: how much of a copy is waiting for answers.

use std::{io, path::PathBuf, time::Duration};

use clap::Args;
use ketch_channel::TransportKind;
use ketch_fixtures::tree::TREE_UNIT_BYTES;

use crate::latency::{self, Matrix, Setup, Work};

/// The longest round trip: further than any satellite is, and well below what a session waits for an answer.
const ROUND_TRIP_MS: i64 = 2_000;

/// The largest unit: a tree of it has 7 GiB.
const UNIT_BYTES: u64 = 16 * TREE_UNIT_BYTES;

/// The smallest, so that there is at least one small file.
const LEAST_UNIT_BYTES: u64 = 16;

#[derive(Debug, Args)]
pub(super) struct Latency {
    /// Over how many data streams in the model, over how many connections with --real
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_value = "1,4,8", value_parser = clap::value_parser!(u8).range(1..=i64::from(ketch_protocol::limits::CONNECTIONS)))]
    parallel: Vec<u8>,
    /// The round trips [default: 30; with --real 30,150]
    #[arg(long, value_name = "MS,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=ROUND_TRIP_MS))]
    rtt_ms: Vec<u32>,
    /// Another seed makes another tree
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Copy the tree of a hundred files alone, not as many bytes in small files and in a large one too
    #[arg(long)]
    quick: bool,
    /// What lengths of the tree count in: small files of it have 1 to 4, big ones 20 to 64; the others have 256 together
    #[arg(long, value_name = "B", default_value_t = TREE_UNIT_BYTES, value_parser = clap::value_parser!(u64).range(LEAST_UNIT_BYTES..=UNIT_BYTES))]
    unit_bytes: u64,
    /// Where the table goes as CSV and Markdown too; made if missing
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// Run two ketch over an emulated path, instead of the model; needs root
    #[arg(long)]
    real: bool,
    #[command(flatten)]
    two: Two,
}

/// The two ketch.
#[derive(Debug, Args)]
struct Two {
    /// The ketch to run [default: the one beside this program]
    #[arg(long, value_name = "FILE", requires = "real")]
    ketch: Option<PathBuf>,
    /// What carries them: tcp or quic
    #[arg(long, value_name = "NAME", requires = "real", default_value = "tcp")]
    transport: TransportKind,
    /// How fast the emulated path is
    #[arg(long, value_name = "RATE", requires = "real", default_value = "1gbit")]
    rate: String,
    /// The limit of the TCP buffers of both hosts, like 64M [default: as a new host has it]
    #[arg(long, value_name = "SIZE", requires = "real")]
    tcp_mem: Option<String>,
    /// Where sources and copies are made; best on a tmpfs, so that no disk is measured
    #[arg(long, value_name = "DIR", requires = "real", default_value = "/dev/shm")]
    scratch: PathBuf,
}

/// Prints a row for each condition.
pub(super) fn run(arguments: Latency, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Latency { parallel, rtt_ms, seed, quick, unit_bytes, out_dir, real, two } = arguments;
    let works = if quick { Work::quick(unit_bytes) } else { Work::all(unit_bytes) };
    let round_trips_ms = match (&rtt_ms[..], real) {
        ([], false) => vec![30],
        ([], true) => vec![30, 150],
        ([..], _) => rtt_ms,
    };
    let round_trips = round_trips_ms.into_iter().map(|ms| Duration::from_millis(ms.into())).collect();
    let matrix = Matrix { works, parallel, round_trips, seed };
    if real {
        let Two { ketch, transport, rate, tcp_mem, scratch } = two;
        let setup = Setup::new(ketch, transport, rate, tcp_mem, scratch)?;
        return Ok(latency::real(&matrix, &setup, out_dir.as_deref(), out)?);
    }
    Ok(latency::model(&matrix, out_dir.as_deref(), out)?)
}
