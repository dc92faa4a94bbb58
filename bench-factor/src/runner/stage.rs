//! Where observations are made: two hosts, a source that was written and fixed before, and a target that is made anew for
//! each. One call of [`Stage::observe`] is one observation with everything around it.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use ketch_fixtures::tree::Shape;
use ketch_lab::Side;

use super::{
    capacity,
    error::{RunError, run_io_error},
    load::Load,
    plan::{LOOPBACK, Plan, Planned},
    probe::{Probe, Probed},
    programs::Programs,
    sampler::{Hosts, Sampler, Seen},
};
use crate::{
    observation::Capacity,
    study::{CellReport, PORT},
    tools::{
        error::ToolsError,
        place::{Keeping, Route, SERVER, Where},
        plan::Work,
        process::{End, tail},
        target::{FileSystem, Target},
        text::chain,
    },
};

/// Length of a target's image: stated by the method.
const IMAGE_BYTES: u64 = 2_147_483_648;

/// A source reads its whole tree before it is ready; a cold disk gives 100 MB/s.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// What a target may take beside the limit of the observation: draining, syncing and verifying.
const AFTER_LIMIT: Duration = Duration::from_secs(300);

/// A source ends by itself within this time after its target.
const END_LIMIT: Duration = Duration::from_secs(60);

/// What is fetched before each observation, untimed: enough for every connection to carry something.
const WARM_UP: Shape = Shape::Small { files: 64, bytes: 4_096 };

/// A data set on disk, which nobody writes to any more.
#[derive(Debug)]
struct Source {
    tree: PathBuf,
    files: u64,
    bytes: u64,
    /// What holds it.
    _held: Target,
}

/// All that the observations of a run share.
#[derive(Debug)]
pub(super) struct Stage {
    places: BTreeMap<String, Where>,
    programs: Programs,
    sources: BTreeMap<String, Source>,
    warm_up: Option<PathBuf>,
    seed: u64,
    limit: Duration,
    /// Everything that is made goes below this folder. It goes last, as sources may be mounted in it.
    scratch: Scratch,
}

/// Where the records of one observation go.
#[derive(Debug)]
pub(super) struct Records {
    /// A folder for what both ends print.
    pub(super) logs: PathBuf,
    /// A file for the samples.
    pub(super) samples: PathBuf,
}

/// Around an observation, whether its path's capacity is measured before and after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) before: bool,
    pub(super) after: bool,
}

/// What became of one turn.
#[derive(Debug)]
pub(super) struct Observed {
    /// What the target reported, or why it did not.
    pub(super) report: Result<CellReport, String>,
    pub(super) seen: Seen,
    pub(super) probed: Probed,
    pub(super) capacity: Capacity,
    /// Why the emulated path was not what it was asked to be.
    pub(super) off_path: Option<String>,
}

impl Stage {
    /// Makes the places that `plan` needs, and this process what it has to be to join ends there. To be called while it has
    /// one thread.
    pub(super) fn places(plan: &Plan) -> Result<BTreeMap<String, Where>, RunError> {
        let planned = plan.pilots.iter().chain(&plan.conditions);
        let mut places = BTreeMap::new();
        for Planned { link, .. } in planned {
            let mut place = match (link.as_str(), plan.links.get(link)) {
                (LOOPBACK, _) => Where::Loopback(Keeping::Loose),
                (name, Some(text)) => Where::described(name, text)?,
                (name, None) => Where::new(Some(name), None)?,
            };
            if !places.contains_key(link) {
                place.gain_access()?;
                places.insert(link.clone(), place);
            }
        }
        Ok(places)
    }

    /// Writes the sources of `plan` below `scratch`, a folder of this run's own, of which an earlier process may have left
    /// something.
    pub(super) fn set(
        plan: &Plan,
        places: BTreeMap<String, Where>,
        programs: Programs,
        scratch: &Path,
    ) -> Result<Self, RunError> {
        let scratch = Scratch::make(scratch)?;
        let mut sources = BTreeMap::new();
        for Planned { data, .. } in plan.pilots.iter().chain(&plan.conditions) {
            if let Some(work) = plan.data.get(data).filter(|_| !sources.contains_key(data)) {
                sources.insert(data.clone(), write_source(*work, plan, &scratch.0, data)?);
            }
        }
        let warm_up = plan.warm_up.then(|| scratch.0.join("warm-up"));
        if let Some(place) = &warm_up {
            WARM_UP.write(plan.seed, place).map_err(ToolsError::from)?;
        }
        Ok(Self { places, programs, sources, warm_up, seed: plan.seed, limit: plan.limit, scratch })
    }

    /// Regular files of a data set, and their content in bytes.
    pub(super) fn content(&self, data: &str) -> (u64, u64) {
        self.sources.get(data).map_or((0, 0), |source| (source.files, source.bytes))
    }

    /// Seconds that a perfect program takes for a condition; `None` over loopback.
    pub(super) fn ideal_s(&self, planned: &Planned) -> Option<f64> {
        let path = self.places.get(&planned.link)?.cold_path()?;
        Some(path.ideal_s(self.content(&planned.data).1))
    }

    /// Makes one observation. Only an interruption is an error: whatever else fails is what became of it.
    pub(super) fn observe(
        &self,
        planned: &Planned,
        round: u32,
        measured: Around,
        records: &Records,
    ) -> Result<Observed, RunError> {
        match self.make(planned, round, measured, records) {
            Err(RunError::Step(ToolsError::Interrupted)) => Err(ToolsError::Interrupted.into()),
            Err(error) => Ok(Observed {
                report: Err(chain(&error)),
                seen: Seen::default(),
                probed: Probed::default(),
                capacity: Capacity::default(),
                off_path: None,
            }),
            Ok(observed) => Ok(observed),
        }
    }

    fn make(
        &self,
        planned: &Planned,
        round: u32,
        measured: Around,
        records: &Records,
    ) -> Result<Observed, RunError> {
        let place = &self.places[&planned.link];
        let scratch = tempfile::tempdir_in(&self.scratch.0);
        let scratch = scratch.map_err(run_io_error("make a folder in", &self.scratch.0))?;
        let target = planned.target.make_of(IMAGE_BYTES, scratch.path(), "target")?;
        // Conditions of one round lose the same packets.
        let route = place.join_seeded(self.seed.wrapping_add(u64::from(round)))?;
        let before_mbit_s = if measured.before { capacity::mbit_s(&route)? } else { None };
        if let Some(tree) = &self.warm_up {
            self.warm_up(planned, &route, tree, &scratch.path().join("warm-up"), records)?;
        }
        let tree = &self.sources[&planned.data].tree;
        let (mut server, address) = self.serve(planned, &route, tree, &records.logs.join("source.log"))?;
        let _load = Load::start(planned.load_threads);
        let probe = Probe::start(route.bind_udp(SERVER.other())?, route.bind_udp(SERVER)?);
        let probe = probe.map_err(run_io_error("start the probes over", Path::new(&planned.link)))?;
        let sampler = Sampler::start(hosts(&route)?, &records.samples)?;
        let command = self.programs.cell(planned, address, target.root(), self.limit)?;
        let said = fetch(&route, command, self.limit + AFTER_LIMIT, &records.logs.join("target.log"));
        let (sampled, probed) = (sampler.stop(), probe.stop());
        let report = report(&said?);
        let until_s = transfer_s(&report);
        let (seen, probed) = (sampled?.until(until_s), probed.until(until_s));
        end(&mut server, report.is_ok())?;
        target.close()?;
        let after_mbit_s = if measured.after { capacity::mbit_s(&route)? } else { None };
        let capacity = Capacity { before_mbit_s, after_mbit_s };
        Ok(Observed { report, seen, probed, capacity, off_path: part(route)? })
    }

    /// Starts the source on its side; returns where it listens.
    fn serve(
        &self,
        planned: &Planned,
        route: &Route,
        tree: &Path,
        log: &Path,
    ) -> Result<(End, SocketAddr), RunError> {
        // Over loopback the port may be somebody's.
        let port = if route.is_one_host() { 0 } else { PORT };
        let address = SocketAddr::new(route.address(SERVER), port);
        let command = self.programs.serve(planned, tree, address)?;
        let mut end = End::start_alone(route, SERVER, vec![command], log)?;
        let listens = end.until(|_, said| listening_at(said), READY_LIMIT)?;
        Ok((end, listens))
    }

    /// Fetches something small in the same way, which is neither timed nor kept.
    fn warm_up(
        &self,
        planned: &Planned,
        route: &Route,
        tree: &Path,
        target: &Path,
        records: &Records,
    ) -> Result<(), RunError> {
        let (mut server, address) =
            self.serve(planned, route, tree, &records.logs.join("warm-up-source.log"))?;
        let command = self.programs.cell(planned, address, target, self.limit)?;
        let log = records.logs.join("warm-up-target.log");
        fetch(route, command, self.limit + AFTER_LIMIT, &log)?;
        // However it went: an observation follows that tells.
        end(&mut server, false)
    }
}

/// A folder of this run alone, gone with all that is in it when dropped.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn make(place: &Path) -> Result<Self, RunError> {
        if place.exists() {
            ketch_fixtures::tree::remove(place).map_err(ToolsError::from)?;
        }
        fs::create_dir_all(place).map_err(run_io_error("make the folder", place))?;
        let place = place.canonicalize().map_err(run_io_error("find", place))?;
        Ok(Self(place))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next process at this run removes what is left.
        let _ = ketch_fixtures::tree::remove(&self.0);
    }
}

fn write_source(work: Work, plan: &Plan, scratch: &Path, name: &str) -> Result<Source, RunError> {
    let held = plan.source.make_of(IMAGE_BYTES, scratch, &format!("source-{name}"))?;
    let tree = held.root().join("tree");
    let summary = work.shape().write(plan.seed, &tree).map_err(ToolsError::from)?;
    held.make_read_only()?;
    Ok(Source { tree, files: summary.files, bytes: summary.bytes, _held: held })
}

/// What takes root of the conditions of `plan`, for those who are not.
pub(super) fn mounted(plan: &Plan) -> Option<FileSystem> {
    let targets = plan.pilots.iter().chain(&plan.conditions).map(|planned| planned.target);
    targets.chain([plan.source]).find(|file_system| file_system.needs_root())
}

fn hosts(route: &Route) -> Result<Hosts, ToolsError> {
    let (sender, receiver) = (route.counters(SERVER)?, route.counters(SERVER.other())?);
    Ok(Hosts { sender, receiver, are_one: route.is_one_host() })
}

/// Runs a target to its end, however that is; returns what it printed.
fn fetch(route: &Route, command: Command, limit: Duration, log: &Path) -> Result<String, RunError> {
    let receiver: Side = SERVER.other();
    let mut end = End::start_alone(route, receiver, vec![command], log)?;
    Ok(end.wait_to_end(limit)?)
}

/// Ends a source, which has done so by itself after a whole observation.
fn end(server: &mut End, by_itself: bool) -> Result<(), RunError> {
    if by_itself {
        match server.wait_to_end(END_LIMIT) {
            Err(ToolsError::Late { .. }) => {}
            ended => return Ok(ended.map(drop)?),
        }
    }
    Ok(server.stop()?)
}

/// Parts the ends; returns why their path was not as asked.
fn part(route: Route) -> Result<Option<String>, RunError> {
    match route.part() {
        Ok(_) => Ok(None),
        Err(ToolsError::InvalidLink { why }) => Ok(Some(why)),
        Err(error) => Err(error.into()),
    }
}

/// How long the hosts did what is observed: until the target began to sync and verify its copy, if it came to that.
fn transfer_s(report: &Result<CellReport, String>) -> f64 {
    let process_s = report.as_ref().ok().and_then(|report| report.times.process_s);
    process_s.unwrap_or(f64::INFINITY)
}

/// Where a source says that it listens: the last word of its first line.
fn listening_at(said: &str) -> Option<SocketAddr> {
    let (first, _) = said.split_once('\n')?;
    first.strip_prefix("serving ")?.rsplit(' ').next()?.parse().ok()
}

/// The report among what a target printed, or the end of that.
fn report(said: &str) -> Result<CellReport, String> {
    let object = said.lines().find(|line| line.starts_with('{'));
    object.and_then(|object| serde_json::from_str(object).ok()).ok_or_else(|| tail(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_ready_when_it_has_said_where() {
        let said = "serving 3 files, 9 bytes, 00ff, on 127.0.0.1:4711\n";
        assert_eq!(listening_at(said), Some("127.0.0.1:4711".parse().unwrap()));
        assert_eq!(listening_at(&said[..said.len() - 1]), None, "the line may be half written");
        assert_eq!(listening_at("error: no\n"), None);
    }

    #[test]
    fn a_target_without_a_report_is_quoted() {
        assert_eq!(report("error: cannot reach it\n").unwrap_err(), "error: cannot reach it");
        assert_eq!(report("{}\n").unwrap_err(), "{}");
    }

    #[test]
    fn what_an_earlier_process_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let scratch = place.path().join("run");
        fs::create_dir_all(scratch.join("left")).unwrap();
        let made = Scratch::make(&scratch).unwrap();
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
        drop(made);
        assert!(!scratch.exists());
    }
}
