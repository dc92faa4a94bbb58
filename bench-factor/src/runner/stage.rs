//! Where observations are made: two hosts, a source that was written and fixed before, and a target that is made anew for
//! each. One call of [`Stage::observe`] is one observation with everything around it.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::{
    capacity,
    error::{RunError, run_io_error},
    joint::{Data, Joint},
    load::Load,
    plan::{LOOPBACK, Plan, Planned},
    probe::Probed,
    programs::Programs,
    remote::{Destination, Remote},
    sampler::{Sampler, Seen},
};
use crate::{
    observation::Capacity,
    study::CellReport,
    tools::{
        error::ToolsError,
        installed,
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
pub(super) const READY_LIMIT: Duration = Duration::from_secs(120);

/// What a target may take beside the limit of the observation: draining, syncing and verifying.
const AFTER_LIMIT: Duration = Duration::from_secs(300);

/// A source ends by itself within this time after its target.
pub(super) const END_LIMIT: Duration = Duration::from_secs(60);

/// What is fetched before each observation, untimed: enough for every connection to carry something.
const WARM_UP: Work = Work::Small { files: 64, bytes: 4_096 };

/// What that is called on another host. No data set of a plan has a space in its name.
const WARM_UP_NAME: &str = "warm up";

/// How often it is looked, during an observation, whether its source's end is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A data set on disk, which nobody writes to any more.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) tree: PathBuf,
    files: u64,
    bytes: u64,
    /// What holds it.
    _held: Target,
}

/// All that the observations of a run share.
#[derive(Debug)]
pub(super) struct Stage {
    places: BTreeMap<String, Where>,
    /// Has the sources of conditions with this path.
    remote: Option<(String, Remote)>,
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
    /// Makes the places that `plan` needs, and this process what it has to be to join ends there; `remote_path` is that
    /// to another host. To be called while it has one thread.
    pub(super) fn places(
        plan: &Plan,
        remote_path: Option<&str>,
    ) -> Result<BTreeMap<String, Where>, RunError> {
        let planned = plan.pilots.iter().chain(&plan.conditions);
        let mut places = BTreeMap::new();
        for Planned { link, .. } in planned {
            let mut place = match (link.as_str(), plan.links.get(link)) {
                (LOOPBACK, _) => Where::Loopback(Keeping::Loose),
                // Of the two hosts this is the one.
                (name, _) if remote_path == Some(name) => Where::Loopback(Keeping::Loose),
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
    /// something; those of conditions between two hosts below the same folder on the other one.
    pub(super) fn set(
        plan: &Plan,
        places: BTreeMap<String, Where>,
        programs: Programs,
        remote: Option<&Destination>,
        scratch: &Path,
    ) -> Result<Self, RunError> {
        let begin = |destination| begin_remote(destination, plan, &programs, scratch);
        let remote = remote.map(begin).transpose()?;
        let scratch = Scratch::make(scratch)?;
        let remote_path = remote.as_ref().map(|(path, _)| path.as_str());
        let mut sources = BTreeMap::new();
        for (name, work) in data_sets(plan, |link| remote_path != Some(link)) {
            let source = write_source(work, plan.source, plan.seed, &scratch.0, &name)?;
            sources.insert(name, source);
        }
        let warm_up = plan.warm_up.then(|| scratch.0.join("warm-up"));
        if let Some(place) = &warm_up {
            WARM_UP.shape().write(plan.seed, place).map_err(ToolsError::from)?;
        }
        Ok(Self { places, remote, programs, sources, warm_up, seed: plan.seed, limit: plan.limit, scratch })
    }

    /// Regular files of a condition's data set, and their content in bytes.
    pub(super) fn content(&self, planned: &Planned) -> (u64, u64) {
        match self.remote(planned) {
            Some(remote) => remote.content(&planned.data),
            None => self.sources.get(&planned.data).map_or((0, 0), Source::content),
        }
    }

    /// What somebody who starts a run should know, if anything.
    pub(super) fn note(&self) -> Option<String> {
        let (_, remote) = self.remote.as_ref()?;
        remote.note()
    }

    /// The host that has the source of a condition, where it is another one.
    pub(super) fn remote(&self, planned: &Planned) -> Option<&Remote> {
        self.remote.as_ref().filter(|(path, _)| *path == planned.link).map(|(_, remote)| remote)
    }

    /// Seconds that a perfect program takes for a condition; `None` over loopback.
    pub(super) fn ideal_s(&self, planned: &Planned) -> Option<f64> {
        let path = self.places.get(&planned.link)?.cold_path()?;
        Some(path.ideal_s(self.content(planned).1))
    }

    /// Makes one observation. Only what ends the run is an error: whatever else fails is what became of it.
    pub(super) fn observe(
        &self,
        planned: &Planned,
        round: u32,
        measured: Around,
        records: &Records,
    ) -> Result<Observed, RunError> {
        match self.make(planned, round, measured, records) {
            Err(error) if error.ends_run() => Err(error),
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
        let joint = Joint { route, remote: self.remote(planned) };
        let before_mbit_s = if measured.before { capacity::mbit_s(&joint.route)? } else { None };
        if let Some(tree) = &self.warm_up {
            self.warm_up(planned, &joint, tree, &scratch.path().join("warm-up"), records)?;
        }
        let tree = self.sources.get(&planned.data).map_or(Path::new(""), |source| &source.tree);
        let data = Data { name: &planned.data, tree };
        let serving = joint.serve(&self.programs, planned, data, records.logs.join("source.log"))?;
        let _load = Load::start(planned.load_threads);
        let probe = joint.probe(&planned.link)?;
        let sampler = Sampler::start(joint.hosts()?, &records.samples)?;
        let command = self.programs.cell(planned, serving.address, target.root(), self.limit)?;
        let said = fetch(&joint, command, self.limit + AFTER_LIMIT, &records.logs.join("target.log"));
        let (sampled, probed) = (sampler.stop(), probe.stop());
        let report = report(&said?);
        let sampled = match serving.end(report.is_ok())? {
            Some(there) => sampled?.with_sender(&there, &records.samples)?,
            None => sampled?,
        };
        let until_s = transfer_s(&report);
        let (seen, probed) = (sampled.until(until_s), probed.until(until_s));
        target.close()?;
        let after_mbit_s = if measured.after { capacity::mbit_s(&joint.route)? } else { None };
        let capacity = Capacity { before_mbit_s, after_mbit_s };
        Ok(Observed { report, seen, probed, capacity, off_path: part(joint.route)? })
    }

    /// Fetches something small in the same way, which is neither timed nor kept.
    fn warm_up(
        &self,
        planned: &Planned,
        joint: &Joint<'_>,
        tree: &Path,
        target: &Path,
        records: &Records,
    ) -> Result<(), RunError> {
        let data = Data { name: WARM_UP_NAME, tree };
        let log = records.logs.join("warm-up-source.log");
        let serving = joint.serve(&self.programs, planned, data, log)?;
        let command = self.programs.cell(planned, serving.address, target, self.limit)?;
        let log = records.logs.join("warm-up-target.log");
        fetch(joint, command, self.limit + AFTER_LIMIT, &log)?;
        // However it went: an observation follows that tells.
        serving.end(false).map(drop)
    }
}

/// Begins at another host, with the data sets of the conditions between it and this one.
fn begin_remote(
    destination: &Destination,
    plan: &Plan,
    programs: &Programs,
    scratch: &Path,
) -> Result<(String, Remote), RunError> {
    let path = destination.path_name();
    let mut data = data_sets(plan, |link| link == path);
    if plan.warm_up {
        data.insert(WARM_UP_NAME.to_owned(), WARM_UP);
    }
    let remote = Remote::begin(destination, plan, data, programs, scratch)?;
    Ok((path, remote))
}

/// The data sets of conditions with such a link.
fn data_sets(plan: &Plan, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Work> {
    let planned = plan.pilots.iter().chain(&plan.conditions);
    let wanted = planned.filter(|planned| is_wanted(&planned.link));
    wanted.filter_map(|planned| Some((planned.data.clone(), *plan.data.get(&planned.data)?))).collect()
}

/// A folder of this run alone, gone with all that is in it when dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn make(place: &Path) -> Result<Self, RunError> {
        if place.exists() {
            ketch_fixtures::tree::remove(place).map_err(ToolsError::from)?;
        }
        fs::create_dir_all(place).map_err(run_io_error("make the folder", place))?;
        let place = place.canonicalize().map_err(run_io_error("find", place))?;
        Ok(Self(place))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Source {
    /// Files, and their bytes.
    pub(super) fn content(&self) -> (u64, u64) {
        (self.files, self.bytes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next process at this run removes what is left.
        let _ = ketch_fixtures::tree::remove(&self.0);
    }
}

/// Writes a data set to a file system of its own, which nobody writes to any more.
pub(super) fn write_source(
    work: Work,
    file_system: FileSystem,
    seed: u64,
    scratch: &Path,
    name: &str,
) -> Result<Source, RunError> {
    let held = file_system.make_of(IMAGE_BYTES, scratch, &format!("source-{name}"))?;
    let tree = held.root().join("tree");
    let summary = work.shape().write(seed, &tree).map_err(ToolsError::from)?;
    held.make_read_only()?;
    Ok(Source { tree, files: summary.files, bytes: summary.bytes, _held: held })
}

/// Fails unless this process can make `file_system`: one that is mounted takes root, and a program that makes it.
pub(super) fn check_mount(file_system: FileSystem) -> Result<(), RunError> {
    let error = |why: String| RunError::Mounts { file_system: file_system.to_string(), why };
    if !file_system.needs_root() {
        return Ok(());
    }
    if !rustix::process::getuid().is_root() {
        return Err(error("mounting it takes root".into()));
    }
    match file_system.needs().iter().find(|program| installed::find(program).is_none()) {
        Some(missing) => Err(error(format!("{missing} is not installed"))),
        None => Ok(()),
    }
}

/// Fails unless this process can make everything that `plan` keeps trees on.
pub(super) fn check_mounts(plan: &Plan) -> Result<(), RunError> {
    let targets = plan.pilots.iter().chain(&plan.conditions).map(|planned| planned.target);
    targets.chain([plan.source]).try_for_each(check_mount)
}

/// Waits until a source has said where it listens.
pub(super) fn await_ready(source: &mut End) -> Result<SocketAddr, ToolsError> {
    source.until(|_, said| listening_at(said), READY_LIMIT)
}

/// Runs a target to its end, however that is; returns what it printed. It is not waited for where its source's end is gone.
fn fetch(joint: &Joint<'_>, command: Command, limit: Duration, log: &Path) -> Result<String, RunError> {
    let mut end = End::start_alone(&joint.route, SERVER.other(), vec![command], log)?;
    let began = Instant::now();
    loop {
        match end.wait_to_end(CHECK_INTERVAL) {
            Err(ToolsError::Late { .. }) if began.elapsed() < limit => joint.check()?,
            Err(ToolsError::Late { program, missed, said, .. }) => {
                return Err(ToolsError::Late { program, missed, limit_s: limit.as_secs(), said }.into());
            }
            ended => return Ok(ended?),
        }
    }
}

/// Ends a source, which has done so by itself after a whole observation.
pub(super) fn end(server: &mut End, by_itself: bool) -> Result<(), RunError> {
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
