//! Programs: started, waited for, ended, and what they cost.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use ketch_lab::Side;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use super::{
    error::{ToolsError, io_error},
    interrupt,
    memory::Watch,
    place::{Held, Route},
};

/// How long a program gets to end after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// How much of the end of a program's output an error quotes, in bytes.
const QUOTED_BYTES: usize = 600;

/// What the processes of one end cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all of them, waited-for descendants included, in seconds.
    pub(crate) cpu_s: f64,
    /// The sum of each process's largest resident set, in KiB.
    pub(crate) peak_kib: u64,
}

/// Processes that stand for one end of a session, each leading its own group. What is left of them is killed
/// on drop.
#[derive(Debug)]
pub(crate) struct End {
    processes: Vec<Process>,
    watch: Watch,
    log: PathBuf,
    cpu_s: f64,
}

#[derive(Debug)]
struct Process {
    program: String,
    held: Held,
    handle: OwnedFd,
    ended: bool,
}

impl End {
    /// Starts `commands` at once on one side of `route`. They read nothing, and what they print goes to the
    /// file `log`.
    pub(crate) fn start(
        route: &Route,
        side: Side,
        commands: Vec<Command>,
        log: &Path,
    ) -> Result<Self, ToolsError> {
        let mut end = Self::start_alone(route, side, commands, log)?;
        end.watch = Watch::start(end.processes.iter().map(|process| process.held.id()).collect());
        Ok(end)
    }

    /// The same without looking at them meanwhile: they are not disturbed, and nothing is known of their memory.
    pub(crate) fn start_alone(
        route: &Route,
        side: Side,
        commands: Vec<Command>,
        log: &Path,
    ) -> Result<Self, ToolsError> {
        let file = File::create(log).map_err(io_error("make the log", log))?;
        let mut end = Self { processes: vec![], watch: Watch::default(), log: log.to_owned(), cpu_s: 0.0 };
        for mut command in commands {
            let (out, err) = (file.try_clone(), file.try_clone());
            command.stdin(Stdio::null());
            command.stdout(out.map_err(io_error("share the log", log))?);
            command.stderr(err.map_err(io_error("share the log", log))?);
            end.processes.push(Process::start(route, side, command)?);
        }
        Ok(end)
    }

    /// Waits until `ready` gives something, asked again and again with the first process's id and all output
    /// so far.
    pub(crate) fn until<T>(
        &mut self,
        ready: impl Fn(u32, &str) -> Option<T>,
        limit: Duration,
    ) -> Result<T, ToolsError> {
        /// Short beside the start of a program, long beside a look at what it has printed.
        const PAUSE: Duration = Duration::from_millis(5);
        let began = Instant::now();
        loop {
            if let Some(value) = ready(self.processes[0].held.id(), &self.said()) {
                return Ok(value);
            }
            let process = &self.processes[0];
            if process.has_ended(PAUSE)? {
                let program = process.program.clone();
                return Err(ToolsError::Gone { program, said: tail(&self.said()) });
            }
            if began.elapsed() > limit {
                return Err(self.late(0, "did not get ready", limit));
            }
        }
    }

    /// Waits until every process has ended well.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<(), ToolsError> {
        let began = Instant::now();
        for index in 0..self.processes.len() {
            let left = limit.saturating_sub(began.elapsed());
            if !self.processes[index].has_ended(left)? {
                return Err(self.late(index, "did not end", limit));
            }
        }
        (0..self.processes.len()).try_for_each(|index| self.collect(index))
    }

    /// Waits until every process has ended, however; returns all that they printed.
    pub(crate) fn wait_to_end(&mut self, limit: Duration) -> Result<String, ToolsError> {
        let began = Instant::now();
        for index in 0..self.processes.len() {
            let left = limit.saturating_sub(began.elapsed());
            if !self.processes[index].has_ended(left)? {
                return Err(self.late(index, "did not end", limit));
            }
            let (_, cpu_s) = self.processes[index].reap()?;
            self.cpu_s += cpu_s;
        }
        Ok(self.said())
    }

    /// Ends every process, first letting descendants that work for a peer end by themselves.
    pub(crate) fn stop(&mut self) -> Result<(), ToolsError> {
        self.watch.await_descendants(GRACE);
        for process in &mut self.processes {
            process.end()?;
        }
        for process in self.processes.iter_mut().filter(|process| !process.ended) {
            let (_, cpu_s) = process.reap()?;
            self.cpu_s += cpu_s;
        }
        Ok(())
    }

    /// What all its processes cost, which have been waited for or stopped.
    pub(crate) fn usage(mut self) -> Usage {
        Usage { cpu_s: self.cpu_s, peak_kib: self.watch.stop_kib() }
    }

    /// Reaps a process that has ended, and fails when it has failed.
    fn collect(&mut self, index: usize) -> Result<(), ToolsError> {
        let process = &mut self.processes[index];
        let (status, cpu_s) = process.reap()?;
        self.cpu_s += cpu_s;
        if status.success() {
            return Ok(());
        }
        let program = process.program.clone();
        Err(ToolsError::Failed { program, status, said: tail(&self.said()) })
    }

    fn late(&self, index: usize, missed: &'static str, limit: Duration) -> ToolsError {
        let program = self.processes[index].program.clone();
        ToolsError::Late { program, missed, limit_s: limit.as_secs(), said: tail(&self.said()) }
    }

    fn said(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().filter(|process| !process.ended) {
            // It may have ended meanwhile; nobody is left to tell of anything else.
            let _ = process.signal(Signal::KILL);
            let _ = process.held.wait();
        }
    }
}

impl Process {
    fn start(route: &Route, side: Side, command: Command) -> Result<Self, ToolsError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let held = route.start(side, command)?;
        let handle = pidfd_open(pid(&held), PidfdFlags::empty());
        let handle =
            handle.map_err(|source| ToolsError::Start { program: program.clone(), source: source.into() })?;
        Ok(Self { program, held, handle, ended: false })
    }

    /// Waits up to `limit` for its end, without reaping it. An interruption is an error, unless it has ended.
    fn has_ended(&self, limit: Duration) -> Result<bool, ToolsError> {
        let interruption = interrupt::pending()?;
        let mut handles =
            [PollFd::new(&self.handle, PollFlags::IN), PollFd::new(&interruption, PollFlags::IN)];
        self.poll(&mut handles, limit)?;
        let [ended, interrupted] = handles.map(|handle| !handle.revents().is_empty());
        if interrupted && !ended { Err(ToolsError::Interrupted) } else { Ok(ended) }
    }

    fn poll(&self, handles: &mut [PollFd<'_>], limit: Duration) -> Result<(), ToolsError> {
        let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        loop {
            match poll(handles, Some(&limit)) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(source) => return Err(self.io("wait for", source.into())),
            }
        }
    }

    /// Asks it to end, and makes it end.
    fn end(&self) -> Result<(), ToolsError> {
        for signal in [Signal::TERM, Signal::KILL] {
            if self.ended || self.has_ended(Duration::ZERO)? {
                return Ok(());
            }
            self.signal(signal).map_err(|source| self.io("end", source))?;
            if self.has_ended(GRACE)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process_group(pid(&self.held), signal)?)
    }

    /// Its status and the CPU seconds of it and its waited-for descendants. The kernel keeps one sum for all
    /// children of this process, so the difference is only right because one thread reaps them one by one.
    fn reap(&mut self) -> Result<(ExitStatus, f64), ToolsError> {
        let before_s = children_cpu_s();
        let status = self.held.wait().map_err(|source| self.io("wait for", source))?;
        self.ended = true;
        Ok((status, children_cpu_s() - before_s))
    }

    fn io(&self, action: &'static str, source: io::Error) -> ToolsError {
        ToolsError::Io { action, path: self.program.clone().into(), source }
    }
}

fn pid(held: &Held) -> Pid {
    let id = held.id().try_into().ok();
    id.and_then(Pid::from_raw).expect("a running process has an id above 0 that a C int holds")
}

/// Runs a command that is no part of what is measured, and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String, ToolsError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| ToolsError::Start { program: program.clone(), source })?;
    if !output.status.success() {
        let said = tail(&String::from_utf8_lossy(&output.stderr));
        return Err(ToolsError::Failed { program, status: output.status, said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The end of what a program printed, on one line.
pub(crate) fn tail(text: &str) -> String {
    let start = text.floor_char_boundary(text.len().saturating_sub(QUOTED_BYTES));
    let line = text[start..].split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it printed nothing".into() } else { line }
}

fn children_cpu_s() -> f64 {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).expect("the arguments of getrusage are constant and right");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::{super::place::Keeping, *};

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn start(scripts: &[&str]) -> (tempfile::TempDir, End) {
        let place = tempfile::tempdir().unwrap();
        let commands = scripts.iter().map(|script| shell(script)).collect();
        let end =
            End::start(&Route::here(Keeping::Loose).unwrap(), Side::A, commands, &place.path().join("log"));
        (place, end.unwrap())
    }

    #[test]
    fn the_processes_of_an_end_are_counted_together() {
        let burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let (_place, mut end) = start(&[burn, &format!("({burn}) & wait $!")]);
        end.wait(LIMIT).unwrap();
        let usage = end.usage();
        assert!(usage.cpu_s > 0.01, "{usage:?}");
        assert!(usage.peak_kib > 500, "{usage:?}");
    }

    #[test]
    fn a_failure_names_program_status_and_last_words() {
        let (_place, mut end) = start(&["exit 0", "echo no such luck >&2; exit 7"]);
        let error = end.wait(LIMIT).unwrap_err().to_string();
        assert_eq!(error, "sh ended with exit status: 7: no such luck");
    }

    #[test]
    fn an_end_is_ready_when_it_has_said_so() {
        let (_place, mut end) = start(&["echo port 17; exec sleep 60"]);
        let port = end.until(|_, said| said.strip_prefix("port ").map(|port| port.trim().to_owned()), LIMIT);
        assert_eq!(port.unwrap(), "17");
        end.stop().unwrap();
    }

    #[test]
    fn an_end_that_dies_before_it_is_ready_fails_at_once() {
        let (_place, mut end) = start(&["echo cannot bind"]);
        let error = end.until(|_, _| None::<()>, LIMIT).unwrap_err().to_string();
        assert!(error == "sh ended before it was ready: cannot bind", "{error}");
    }

    #[test]
    fn a_dropped_end_leaves_no_process() {
        let (_place, end) = start(&["exec sleep 60"]);
        let pid = end.processes[0].held.id();
        drop(end);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn what_is_quoted_is_the_end_on_one_line() {
        assert_eq!(tail(" \n"), "it printed nothing");
        assert_eq!(tail("one\n two\r\n"), "one two");
        assert_eq!(tail(&"é".repeat(QUOTED_BYTES)).len(), QUOTED_BYTES);
    }
}
