//! A run of the study: every observation that a plan asks for, in the plan's order, each kept as soon as it is made.
//!
//! [`run`] reads a plan and begins, goes on with, or tries parts of a run again. [`stage`] makes one observation with
//! [`sampler`] and [`probe`] beside it, [`row`] writes it down, and [`journal`] keeps the rows, so that a process that is
//! killed loses the observation under way and no other. [`export`] puts what a referee needs beside them.
//!
//! | in the run's folder | what |
//! |---|---|
//! | `run.json` | what the run began with |
//! | `plan.toml`, `method.md` | copies of the plan and the method |
//! | `observations.jsonl` | the rows |
//! | `logs/`, `samples/` | what both ends printed, and every sample, of each observation |
//! | `source.zip`, `export.json` | what the program is made of, and the hashes of all other files |

mod capacity;
mod clock;
mod error;
mod export;
mod joint;
mod journal;
mod load;
mod made_of;
mod plan;
mod probe;
mod programs;
mod remote;
mod row;
mod sampler;
mod schedule;
mod stage;
mod traces;
mod zip;

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use self::{
    error::{RunError, run_io_error},
    journal::Journal,
    made_of::{METHOD, sha256},
    plan::{Measured, Plan, Planned},
    programs::Programs,
    remote::Preview,
    row::Frame,
    schedule::{Turn, turns},
    stage::{Around, Records, Stage},
};
use crate::{
    observation::{Observation, Outcome},
    study::{BUILD, PORT},
    tools::interrupt,
};

pub(crate) use self::remote::{AgentOptions, Destination, run_agent};

/// What `bench-factor study` was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// The plan of a run that begins; one that goes on has it in its folder.
    pub(crate) plan: Option<PathBuf>,
    /// The run's folder.
    pub(crate) out: PathBuf,
    /// Joins the ends of conditions that name no link.
    pub(crate) link: Option<String>,
    /// Has the sources of conditions that name no link; this host has the targets.
    pub(crate) remote: Option<Destination>,
    /// Sources and targets are made below this folder.
    pub(crate) scratch: PathBuf,
    pub(crate) task: Task,
}

/// What is to be done with the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// Print what would be done.
    Show,
    Begin,
    /// Make the observations that have no row.
    Resume,
    /// Make those of a condition again that failed.
    Retry {
        condition: String,
        reason: String,
    },
}

/// What a run began with: it cannot go on with anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    run: String,
    link: Option<String>,
    /// The other host, as ssh takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remote: Option<String>,
    plan_sha256: String,
    method_sha256: String,
    /// Of the program that began. Others may go on, as one does that a fault was mended in; every row names its own.
    build: String,
}

/// An observation that is to be made.
#[derive(Debug, Clone, Copy)]
struct Due<'a> {
    planned: &'a Planned,
    turn: Turn,
    /// Around it, what its path carries is measured.
    measured: Around,
    attempt: u32,
    reason: Option<&'a str>,
}

/// Does what `options` ask; progress goes to `out`. An observation that failed ends the run, and its row is kept.
pub(crate) fn run(options: &Options, out: &mut impl io::Write) -> Result<(), RunError> {
    let (description, text, plan) = read(options)?;
    let remote = remote(options, &description);
    if let Some(remote) = &remote {
        remote.check(&plan)?;
    }
    let programs = Programs::find(&plan)?;
    if options.task == Task::Show {
        return show(&plan, &programs, options, out);
    }
    programs.check()?;
    stage::check_mounts(&plan)?;
    let places = Stage::places(&plan, path_of(remote.as_ref(), None).as_deref())?;
    interrupt::hold()?;
    let folder = &options.out;
    if options.task == Task::Begin {
        begin(folder, &description, &text)?;
    }
    let mut journal = Journal::open(&folder.join("observations.jsonl"))?;
    let due = due(&plan, &options.task, &journal)?;
    say(out, &format!("{}: {} observations to make", description.run, due.len()))?;
    if !due.is_empty() {
        let scratch = options.scratch.join(&description.run);
        let stage = Stage::set(&plan, places, programs, remote.as_ref(), &scratch)?;
        if let Some(note) = stage.note() {
            say(out, &note)?;
        }
        observe_all(&stage, &description.run, &due, folder, &mut journal, out)?;
    }
    export::export(folder)?;
    say(out, &format!("{}: complete", description.run))
}

/// The run's description, and its plan as text and as values.
fn read(options: &Options) -> Result<(Description, String, Plan), RunError> {
    let kept = options.out.join("plan.toml");
    match options.task {
        Task::Show | Task::Begin => {
            let path = options.plan.as_deref().unwrap_or(&kept);
            let joined_by = path_of(options.remote.as_ref(), options.link.as_deref());
            let (plan, text) = Plan::read(path, joined_by.as_deref())?;
            let description = Description {
                run: format!("run-{}", clock::compact(SystemTime::now())),
                link: options.link.clone(),
                remote: options.remote.as_ref().map(|remote| remote.host.clone()),
                plan_sha256: sha256(text.as_bytes()),
                method_sha256: sha256(METHOD.as_bytes()),
                build: BUILD.into(),
            };
            Ok((description, text, plan))
        }
        Task::Resume | Task::Retry { .. } => {
            let description = described(&options.out)?;
            let joined_by = path_of(remote(options, &description).as_ref(), description.link.as_deref());
            let (plan, text) = Plan::read(&kept, joined_by.as_deref())?;
            if sha256(text.as_bytes()) != description.plan_sha256 || is_other_plan(options, &text)? {
                return Err(RunError::Changed("plan"));
            }
            if sha256(METHOD.as_bytes()) != description.method_sha256 {
                return Err(RunError::Changed("method"));
            }
            if options.link.is_some() && options.link != description.link {
                return Err(RunError::Changed("link"));
            }
            if options.remote.as_ref().is_some_and(|remote| Some(&remote.host) != description.remote.as_ref())
            {
                return Err(RunError::Changed("remote host"));
            }
            Ok((description, text, plan))
        }
    }
}

/// The other host: as it is asked for, or as the run began with it.
fn remote(options: &Options, description: &Description) -> Option<Destination> {
    let begun = || description.remote.clone().map(Destination::plain);
    options.remote.clone().or_else(begun)
}

/// What joins conditions that name no link, if anything was asked for.
fn path_of(remote: Option<&Destination>, link: Option<&str>) -> Option<String> {
    remote.map(Destination::path_name).or_else(|| link.map(str::to_owned))
}

fn is_other_plan(options: &Options, kept: &str) -> Result<bool, RunError> {
    let Some(path) = &options.plan else { return Ok(false) };
    Ok(fs::read_to_string(path).map_err(run_io_error("read the plan", path))? != kept)
}

fn described(folder: &Path) -> Result<Description, RunError> {
    let path = folder.join("run.json");
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RunError::NotBegun(folder.to_owned()));
        }
        Err(error) => return Err(run_io_error("read", &path)(error)),
    };
    serde_json::from_slice(&text).map_err(|source| RunError::Description { path, source })
}

/// Makes the run's folder. The description comes last: without it nothing has begun.
fn begin(folder: &Path, description: &Description, plan: &str) -> Result<(), RunError> {
    if folder.join("run.json").exists() {
        return Err(RunError::Begun(folder.to_owned()));
    }
    for name in ["logs", "samples"] {
        let path = folder.join(name);
        fs::create_dir_all(&path).map_err(run_io_error("make the folder", &path))?;
    }
    let description = serde_json::to_string_pretty(description).expect("a description has only text as keys");
    for (name, text) in [("plan.toml", plan), ("method.md", METHOD), ("run.json", &description)] {
        write_durably(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Writes a file so that it is there whole or not at all, with the rights that the user gives new files.
fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    let error = || run_io_error("write", path);
    let folder = path.parent().unwrap_or(Path::new("."));
    let open = fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(open).tempfile_in(folder).map_err(error())?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(error())?;
    file.persist(path).map_err(|refused| error()(refused.error))?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(error())
}

/// Every turn of the plan with its condition and what is measured around it: pilots first, and once.
fn all_turns(plan: &Plan) -> Vec<(Turn, &Planned, Around)> {
    let turns = ordered(plan);
    let round = |index: Option<usize>| Some(turns.get(index?)?.0.round);
    let around = |index: usize| {
        let own = round(Some(index));
        match plan.capacity {
            Measured::Observations => Around { before: true, after: true },
            Measured::Rounds => {
                Around { before: round(index.checked_sub(1)) != own, after: round(Some(index + 1)) != own }
            }
            Measured::Never => Around::default(),
        }
    };
    let indexed = turns.iter().enumerate();
    indexed.map(|(index, &(turn, planned))| (turn, planned, around(index))).collect()
}

/// Every turn with its condition.
fn ordered(plan: &Plan) -> Vec<(Turn, &Planned)> {
    let pilots = (1..).zip(&plan.pilots);
    let pilots = pilots.map(|(position, pilot)| (Turn { round: 1, position, condition: 0 }, pilot));
    let count = plan.pilots.len() as u32;
    let turns = turns(plan.order, plan.conditions.len(), plan.rounds, plan.seed);
    let turns = turns.into_iter().map(|turn| {
        let before = if turn.round == 1 { count } else { 0 };
        (Turn { position: turn.position + before, ..turn }, &plan.conditions[turn.condition])
    });
    pilots.chain(turns).collect()
}

/// What is left to be done.
fn due<'a>(plan: &'a Plan, task: &'a Task, journal: &Journal) -> Result<Vec<Due<'a>>, RunError> {
    let turns = all_turns(plan);
    match task {
        Task::Show | Task::Begin | Task::Resume => {
            let left = turns.into_iter();
            let left = left.filter(|(turn, planned, _)| journal.latest(turn.round, &planned.name).is_none());
            let due = |(turn, planned, measured)| Due { planned, turn, measured, attempt: 1, reason: None };
            Ok(left.map(due).collect())
        }
        Task::Retry { condition, reason } => {
            let failed = journal.failed(condition);
            if failed.is_empty() {
                return Err(RunError::NothingFailed(condition.clone()));
            }
            let again = turns.into_iter().filter(|(_, planned, _)| planned.name == *condition);
            let again = again.filter_map(|(turn, planned, measured)| {
                let attempt = failed.iter().find(|row| row.round == turn.round)?.attempt + 1;
                Some(Due { planned, turn, measured, attempt, reason: Some(reason.as_str()) })
            });
            Ok(again.collect())
        }
    }
}

fn observe_all(
    stage: &Stage,
    run: &str,
    due: &[Due<'_>],
    folder: &Path,
    journal: &mut Journal,
    out: &mut impl io::Write,
) -> Result<(), RunError> {
    for (number, one) in (1..).zip(due) {
        let row = observe(stage, run, *one, folder)?;
        journal.append(row.clone())?;
        say(out, &format!("{number}/{} {}", due.len(), line(&row)))?;
        if let Outcome::Failed { reason } = row.outcome {
            return Err(RunError::Stopped { condition: row.condition, round: row.round, reason });
        }
    }
    Ok(())
}

fn observe(stage: &Stage, run: &str, due: Due<'_>, folder: &Path) -> Result<Observation, RunError> {
    let Due { planned, turn: Turn { round, position, .. }, measured, attempt, reason } = due;
    let name = format!("{round:03}-{position:03}-{}-{attempt}", planned.name);
    let records = Records {
        logs: folder.join("logs").join(&name),
        samples: folder.join(format!("samples/{name}.jsonl")),
    };
    fs::create_dir_all(&records.logs).map_err(run_io_error("make the folder", &records.logs))?;
    let frame = Frame {
        run,
        planned,
        round,
        position,
        attempt,
        attempt_reason: reason,
        started: clock::rfc3339(SystemTime::now()),
        content: stage.content(planned),
        ideal_s: stage.ideal_s(planned),
    };
    let mut row = frame.row(stage.observe(planned, round, measured, &records)?);
    if let Some(remote) = stage.remote(planned) {
        row.made_of.sender_kernel = remote.kernel().to_owned();
    }
    Ok(row)
}

/// A line of progress.
fn line(row: &Observation) -> String {
    let Observation { round, condition, useful_bytes, outcome, .. } = row;
    let became = match outcome {
        Outcome::Complete(times) => {
            let rate = *useful_bytes as f64 / times.ready_s / 1e6;
            format!("{:.3} s, {rate:.2} MB/s", times.ready_s)
        }
        Outcome::Censored { limit_s, .. } => format!("censored at {limit_s} s"),
        Outcome::Aborted { after_s, reason, .. } => format!("aborted after {after_s:.1} s: {reason}"),
        Outcome::Failed { reason } => format!("failed: {reason}"),
    };
    format!("round {round}: {condition}: {became}")
}

/// Prints every observation in order, with the commands of both its ends.
fn show(
    plan: &Plan,
    programs: &Programs,
    options: &Options,
    out: &mut impl io::Write,
) -> Result<(), RunError> {
    let peer = std::net::SocketAddr::from(([0, 0, 0, 0], PORT));
    let preview = options.remote.as_ref().map(|remote| Preview::new(remote, programs)).transpose()?;
    for text in preview.iter().flat_map(Preview::common) {
        say(out, text.trim_end())?;
    }
    for (Turn { round, position, .. }, planned) in ordered(plan) {
        let Planned { name, link, target, data, .. } = planned;
        say(out, &format!("round {round}, {position}: {name}: {data} to {target} over {link}"))?;
        let there = preview.as_ref().filter(|preview| preview.joins(planned));
        let serve = match there {
            Some(preview) => preview.source(planned, &options.scratch),
            None => words(&programs.serve(planned, &options.scratch.join(data), peer)?),
        };
        let cell = programs.cell(planned, peer, &options.scratch.join("target"), plan.limit)?;
        say(out, &format!("  source: {serve}\n  target: {}", words(&cell)))?;
    }
    Ok(())
}

/// A command as it could be typed.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn say(out: &mut impl io::Write, line: &str) -> Result<(), RunError> {
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(run_io_error("write to", Path::new("standard output")))
}
