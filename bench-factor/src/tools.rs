//! Other people's programs on the same work: whole sessions, as a person would start them, timed from the
//! outside. `docs/benchmarks/tools.md` tells the method.
//!
//! [`run`] reads a [`plan`], drops what cannot be run here and says so, puts the rest in a seeded
//! [`schedule`], and makes each observation with [`session`], which starts what [`adapter`]s describe.

mod adapter;
pub(crate) mod error;
pub(crate) mod installed;
pub(crate) mod interrupt;
mod memory;
mod observation;
mod parts;
pub(crate) mod pipe;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod process;
mod schedule;
mod session;
mod source;
mod summary;
pub(crate) mod target;
pub(crate) mod text;

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    adapter::Tool,
    error::{ToolsError, io_error},
    observation::Observation,
    place::Where,
    plan::Plan,
    schedule::{Condition, Turn, conditions, turns},
    session::Bench,
};

/// What `bench-factor tools` was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// The plans to run, one after the other.
    pub(crate) plans: Vec<PathBuf>,
    /// An emulated path, instead of what the plan names.
    pub(crate) link: Option<String>,
    /// Where the rows and the summary go, those of several plans in a folder each; made if missing.
    pub(crate) out: PathBuf,
    /// Sources, images and targets go below this folder.
    pub(crate) scratch: PathBuf,
    /// The `ketch` program; that beside this one where none is named.
    pub(crate) ketch: Option<PathBuf>,
}

/// Runs plans. The rows of each go to `rows.csv` as they come, the summary to `summary.txt`; progress and the
/// summaries are written to `out`. Fails at the end if any observation has.
pub(crate) fn run(options: &Options, out: &mut impl io::Write) -> Result<(), ToolsError> {
    let plans: Vec<Plan> = options.plans.iter().map(|path| Plan::read(path)).collect::<Result<_, _>>()?;
    let folders = folders(options)?;
    let mut benches: Vec<Bench> = plans.iter().map(|plan| bench(options, plan)).collect::<Result<_, _>>()?;
    for bench in &mut benches {
        bench.place.gain_access()?;
    }
    interrupt::hold()?;
    let mut observations = Vec::new();
    for (folder, (plan, bench)) in folders.iter().zip(plans.iter().zip(&benches)) {
        observations.extend(run_plan(plan, bench, folder, out)?);
    }
    verdict(&observations)
}

/// Where the results of each plan go; no two may share a folder.
fn folders(options: &Options) -> Result<Vec<PathBuf>, ToolsError> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for plan in &options.plans {
        let folder = folder(options, plan);
        if folders.contains(&folder) {
            return Err(ToolsError::SameFolder { folder });
        }
        folders.push(folder);
    }
    Ok(folders)
}

fn folder(options: &Options, plan: &Path) -> PathBuf {
    match (&options.plans[..], plan.file_stem()) {
        ([_], _) | (_, None) => options.out.clone(),
        (_, Some(stem)) => options.out.join(stem),
    }
}

fn run_plan(
    plan: &Plan,
    bench: &Bench,
    results: &Path,
    out: &mut impl io::Write,
) -> Result<Vec<Observation>, ToolsError> {
    let (can, obstacles) = sort_out(conditions(plan), bench);
    for obstacle in &obstacles {
        say(out, obstacle)?;
    }
    fs::create_dir_all(results).map_err(io_error("make the folder", results))?;
    let turns = turns(&can, plan.rounds, plan.seed);
    let observations = observe_all(bench, &turns, &results.join("rows.csv"), out)?;
    let text = summary_text(&observations, &obstacles, plan.reference());
    say(out, &text)?;
    let path = results.join("summary.txt");
    fs::write(&path, text).map_err(io_error("write", &path))?;
    Ok(observations)
}

fn bench(options: &Options, plan: &Plan) -> Result<Bench, ToolsError> {
    let bench_factor = env::current_exe().map_err(io_error("find", Path::new("this program")))?;
    let beside = bench_factor.with_file_name("ketch");
    let scratch = &options.scratch;
    let link = options.link.as_deref().or(plan.link.as_deref());
    Ok(Bench {
        place: Where::new(link, plan.tcp_mem.as_deref())?,
        root: rustix::process::getuid().is_root(),
        scratch: scratch.canonicalize().map_err(io_error("find", scratch))?,
        ketch: options.ketch.clone().unwrap_or(beside),
        bench_factor,
        seed: plan.seed,
        limit: Duration::from_secs(plan.limit_s),
    })
}

/// The conditions that can be run here, and a line for each other one that says why not.
fn sort_out(conditions: Vec<Condition>, bench: &Bench) -> (Vec<Condition>, Vec<String>) {
    let mut obstacles = Vec::new();
    let can = conditions.into_iter().filter(|condition| match obstacle(condition, bench) {
        None => true,
        Some(obstacle) if obstacles.contains(&obstacle) => false,
        Some(obstacle) => {
            obstacles.push(obstacle);
            false
        }
    });
    (can.collect(), obstacles)
}

/// Why a condition cannot be run here.
fn obstacle(condition: &Condition, bench: &Bench) -> Option<String> {
    let Condition { scenario, target, tool, .. } = *condition;
    if let Some(why) = tool.unfit(scenario, target) {
        return Some(format!("left out: {tool}, {scenario}, to {target}: {why}"));
    }
    if tool.adapter().source == adapter::Source::Image && !bench.place.shares_mounts() {
        return Some(format!("left out: {tool}: what it mounts is seen on its own host only"));
    }
    if target.needs_root() && !bench.root {
        return Some(format!("missing: all to {target}: mounting it takes root"));
    }
    if tool.adapter().changes_user && !bench.root && !bench.place.keeps_user() {
        return Some(format!("left out: {tool}: its server changes users, which takes root over a link"));
    }
    let needs = tool.adapter().needs;
    if let Some(missing) = needs.iter().find(|program| !is_there(program, bench)) {
        return Some(format!("missing: {tool}: {missing} is not installed"));
    }
    let missing = target.needs().iter().find(|program| !is_there(program, bench))?;
    Some(format!("missing: all to {target}: {missing} is not installed"))
}

fn is_there(program: &str, bench: &Bench) -> bool {
    match program {
        "ketch" => installed::is_program(&bench.ketch),
        other => installed::find(other).is_some(),
    }
}

fn observe_all(
    bench: &Bench,
    turns: &[Turn],
    rows: &Path,
    out: &mut impl io::Write,
) -> Result<Vec<Observation>, ToolsError> {
    let mut file = File::create(rows).map_err(io_error("make the file", rows))?;
    observation::write_columns(&mut file).map_err(io_error("write to", rows))?;
    let mut observations = Vec::new();
    for turn in turns {
        let outcome = bench.observe(&turn.condition)?;
        let (place, cold_path) = (bench.place.to_string(), bench.place.cold_path());
        let observation = Observation { turn: *turn, place, cold_path, outcome };
        observation.write_row(&mut file).map_err(io_error("write to", rows))?;
        say(out, &format!("{}/{} {observation}", observations.len() + 1, turns.len()))?;
        observations.push(observation);
    }
    Ok(observations)
}

fn summary_text(observations: &[Observation], obstacles: &[String], reference: Tool) -> String {
    let mut text = Vec::new();
    let lines = obstacles.iter().try_for_each(|obstacle| writeln!(text, "{obstacle}"));
    let tables = lines.and_then(|()| summary::write(observations, reference, &mut text));
    tables.expect("a vector takes any number of bytes");
    String::from_utf8_lossy(&text).into_owned()
}

/// An unverified copy fails the run.
fn verdict(observations: &[Observation]) -> Result<(), ToolsError> {
    let failed = observations.iter().filter(|observation| observation.verified().is_none()).count();
    match failed {
        0 => Ok(()),
        failed => Err(ToolsError::Unverified { failed, total: observations.len() }),
    }
}

fn say(out: &mut impl io::Write, line: &str) -> Result<(), ToolsError> {
    writeln!(out, "{line}").map_err(io_error("write to", Path::new("standard output")))
}

#[cfg(test)]
mod tests {
    use super::{
        plan::{Scenario, Work},
        target::FileSystem,
        *,
    };

    fn obstacle_of(tool: &str, target: FileSystem, link: Option<&str>, root: bool) -> Option<String> {
        let bench = Bench {
            place: Where::new(link, None).unwrap(),
            root,
            scratch: PathBuf::new(),
            ketch: "/bin/sh".into(),
            bench_factor: PathBuf::new(),
            seed: 7,
            limit: Duration::ZERO,
        };
        let tool = Tool::try_from(tool.to_owned()).unwrap();
        let condition =
            Condition { work: Work::Source { files: 1 }, scenario: Scenario::Fresh, target, tool };
        obstacle(&condition, &bench)
    }

    fn folders_of(plans: &[&str]) -> Result<Vec<PathBuf>, ToolsError> {
        let plans = plans.iter().map(PathBuf::from).collect();
        folders(&Options { plans, link: None, out: "out".into(), scratch: PathBuf::new(), ketch: None })
    }

    #[test]
    fn several_plans_have_a_folder_each_called_as_the_plan() {
        assert_eq!(folders_of(&["a/one.toml"]).unwrap(), [PathBuf::from("out")]);
        let each = [PathBuf::from("out/one"), PathBuf::from("out/two")];
        assert_eq!(folders_of(&["a/one.toml", "b/two.toml"]).unwrap(), each);
    }

    #[test]
    fn plans_that_are_called_alike_are_refused() {
        let error = folders_of(&["a/one.toml", "two.toml", "b/one.toml"]).unwrap_err();
        assert!(error.to_string().contains("out/one"), "{error}");
    }

    #[test]
    fn only_root_mounts_targets_whatever_user_namespace_it_is_in() {
        let why = "missing: all to tmpfs: mounting it takes root";
        for link in [None, Some("lan")] {
            assert_eq!(obstacle_of("ketch-tcp", FileSystem::Tmpfs, link, false).as_deref(), Some(why));
            assert_eq!(obstacle_of("ketch-tcp", FileSystem::Tmpfs, link, true), None);
            assert_eq!(obstacle_of("ketch-tcp", FileSystem::Folder, link, false), None);
        }
    }

    #[test]
    fn a_server_that_changes_users_takes_root_over_a_link() {
        let left_out = |link, root| {
            let obstacle = obstacle_of("rsync-daemon", FileSystem::Folder, link, root);
            obstacle.is_some_and(|obstacle| obstacle.starts_with("left out: rsync-daemon: "))
        };
        assert!(left_out(Some("lan"), false));
        assert!(!left_out(Some("lan"), true) && !left_out(None, false));
    }
}
