//! `bench-factor study`: runs a plan of the study.

use std::{io, net::IpAddr, path::PathBuf};

use clap::Args;

use crate::runner::{self, Destination, Options, Task};

#[derive(Debug, Args)]
pub(super) struct Study {
    /// What to observe; bench-factor/plans/study has examples. A run that goes on has its plan in its folder
    #[arg(long, value_name = "FILE", required_unless_present_any = ["resume", "retry"])]
    plan: Option<PathBuf>,
    /// The run's folder: rows, logs, samples and all else that is kept
    #[arg(long, value_name = "DIR", default_value = "study-results")]
    out: PathBuf,
    /// Join both ends by an emulated path with this profile, or of a rate and a round trip like 100mbit@262ms, where a
    /// condition names no link of its own
    #[arg(long, value_name = "PROFILE")]
    link: Option<String>,
    /// Have the sources on this host, which ssh reaches without a question, and the targets here; conditions that name no
    /// link are observed between the two
    #[arg(long, value_name = "USER@HOST", conflicts_with = "link")]
    remote: Option<String>,
    /// Reach it by this configuration of ssh instead of the user's
    #[arg(long, value_name = "FILE", requires = "remote")]
    ssh_config: Option<PathBuf>,
    /// Where the remote host's data port is dialed [default: where ssh connects to]
    #[arg(long, value_name = "IP", requires = "remote")]
    remote_address: Option<IpAddr>,
    /// The address of this host that the data port is opened to [default: where ssh comes from]
    #[arg(long, value_name = "IP", requires = "remote")]
    own_address: Option<IpAddr>,
    /// Where sources, images and targets are made; best on a tmpfs, so that no disk is measured
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    scratch: PathBuf,
    /// Print every observation with its commands, and make none
    #[arg(long, conflicts_with_all = ["resume", "retry"])]
    dry_run: bool,
    /// Go on with the run: make the observations that have no row
    #[arg(long, conflicts_with = "retry")]
    resume: bool,
    /// Make the failed observations of a condition again, beside their rows, once the fault is mended
    #[arg(long, value_name = "CONDITION", requires = "reason")]
    retry: Option<String>,
    /// Why they can be made now; stands in their rows
    #[arg(long, value_name = "TEXT", requires = "retry")]
    reason: Option<String>,
}

/// Runs the plan; every row is kept as soon as there is one.
pub(super) fn run(arguments: Study, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Study { plan, out: folder, link, scratch, dry_run, resume, retry, reason, .. } = arguments;
    let Study { remote, ssh_config, remote_address: address, own_address, .. } = arguments;
    let remote = remote.map(|host| Destination { host, ssh_config, address, own_address });
    let task = match (retry, reason) {
        (Some(condition), Some(reason)) => Task::Retry { condition, reason },
        _ if resume => Task::Resume,
        _ if dry_run => Task::Show,
        _ => Task::Begin,
    };
    Ok(runner::run(&Options { plan, out: folder, link, remote, scratch, task }, out)?)
}
