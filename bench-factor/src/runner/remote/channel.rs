//! The control channel: one `ssh` for a whole run, whose far end is the agent. It carries requests and replies before and after
//! an observation, and nothing that is timed. A line without content every [`HEARTBEAT`] tells the agent that somebody is
//! still there.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde::{Serialize, de::DeserializeOwned};

use super::error::RemoteError;
use crate::tools::{error::ToolsError, interrupt, process::tail};

/// Between two signs of life: a few dozen bytes, which take nothing from what is measured.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Longest line: the samples of an observation of 900 s have some hundred bytes for each of 450 moments.
const LINE_BYTES: usize = 4 * 1024 * 1024;

/// How long `ssh` and the agent may take to end when the channel is closed: the agent ends processes and unmounts.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// A running `ssh`.
#[derive(Debug)]
pub(super) struct Channel {
    host: String,
    child: Child,
    stdin: Option<Arc<Mutex<ChildStdin>>>,
    stdout: ChildStdout,
    /// What has come and is not heard yet.
    read: Vec<u8>,
    /// What `ssh`, and the agent through it, print as errors.
    errors: File,
    heartbeat: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Channel {
    /// Starts `ssh`, a command that is complete.
    pub(super) fn start(host: &str, mut ssh: Command) -> Result<Self, RemoteError> {
        let error = |source| RemoteError::Ssh { host: host.to_owned(), source };
        let errors = tempfile::tempfile().map_err(error)?;
        // Ctrl-C at the terminal is for this process alone, which ends the other one in its own time.
        ssh.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        ssh.stderr(errors.try_clone().map_err(error)?);
        let mut child = ssh.spawn().map_err(error)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(error(io::ErrorKind::BrokenPipe.into()));
        };
        let stdin = Some(Arc::new(Mutex::new(stdin)));
        let host = host.to_owned();
        Ok(Self { host, child, stdin, stdout, read: vec![], errors, heartbeat: None })
    }

    /// Begins to give signs of life. Before the agent runs they would be taken for something else.
    pub(super) fn keep_alive(&mut self) {
        let Some(stdin) = self.stdin.clone() else { return };
        let (stop, stopped) = mpsc::channel();
        let beat = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(HEARTBEAT) {
                let mut stdin = lock(&stdin);
                if stdin.write_all(b"\n").and_then(|()| stdin.flush()).is_err() {
                    // Whoever listens next is told.
                    return;
                }
            }
        };
        self.heartbeat = Some((stop, thread::spawn(beat)));
    }

    /// Sends one line.
    pub(super) fn say(&mut self, doing: &'static str, message: &impl Serialize) -> Result<(), RemoteError> {
        let mut line = serde_json::to_vec(message).expect("messages have only text as keys");
        line.push(b'\n');
        self.write(doing, |stdin| stdin.write_all(&line))
    }

    /// Lets `write` write to the far end.
    pub(super) fn write(
        &mut self,
        doing: &'static str,
        write: impl FnOnce(&mut ChildStdin) -> io::Result<()>,
    ) -> Result<(), RemoteError> {
        let written = self.stdin.as_ref().is_some_and(|stdin| {
            let mut stdin = lock(stdin);
            write(&mut stdin).and_then(|()| stdin.flush()).is_ok()
        });
        if written { Ok(()) } else { Err(self.lost(doing)) }
    }

    /// Waits for a line and takes it as a message.
    pub(super) fn hear<T: DeserializeOwned>(
        &mut self,
        doing: &'static str,
        limit: Duration,
    ) -> Result<T, RemoteError> {
        let line = self.hear_line(doing, limit)?;
        serde_json::from_str(&line).map_err(|_| self.senseless(doing, &line))
    }

    /// Waits for a line, which it returns without its end.
    pub(super) fn hear_line(&mut self, doing: &'static str, limit: Duration) -> Result<String, RemoteError> {
        let began = Instant::now();
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).trim_end().to_owned());
            }
            if self.read.len() > LINE_BYTES {
                return Err(self.senseless(doing, "a line without an end"));
            }
            let left = limit.saturating_sub(began.elapsed());
            if !self.wait(left)? {
                let host = self.host.clone();
                return Err(RemoteError::Late { host, doing, limit_s: limit.as_secs() });
            }
            self.take(doing)?;
        }
    }

    /// Fails where the channel has ended, or something came that nobody asked for.
    pub(super) fn check(&mut self, doing: &'static str) -> Result<(), RemoteError> {
        if !self.wait(Duration::ZERO)? {
            return Ok(());
        }
        self.take(doing)?;
        let said = String::from_utf8_lossy(&self.read).into_owned();
        Err(self.senseless(doing, &said))
    }

    /// An answer that makes no sense.
    pub(super) fn senseless(&self, doing: &'static str, said: &str) -> RemoteError {
        RemoteError::Senseless { host: self.host.clone(), doing, said: said.to_owned() }
    }

    /// The channel has ended.
    pub(super) fn lost(&mut self, doing: &'static str) -> RemoteError {
        let said = self.last_words();
        RemoteError::Lost { host: self.host.clone(), doing, said }
    }

    /// The end of what `ssh` printed, once it has ended.
    pub(super) fn last_words(&mut self) -> String {
        self.close();
        let mut said = Vec::new();
        let read = self.errors.rewind().and_then(|()| self.errors.read_to_end(&mut said));
        match read {
            Ok(0) => "ssh has ended without a word".into(),
            Ok(_) => tail(&String::from_utf8_lossy(&said)),
            Err(error) => format!("what ssh printed cannot be read: {error}"),
        }
    }

    /// Waits for something to read; whether there is.
    fn wait(&self, limit: Duration) -> Result<bool, RemoteError> {
        let interruption = interrupt::pending()?;
        let mut waited =
            [PollFd::new(&self.stdout, PollFlags::IN), PollFd::new(&interruption, PollFlags::IN)];
        wait_for(&mut waited, limit);
        let [readable, interrupted] = waited.map(|waited| !waited.revents().is_empty());
        if interrupted { Err(ToolsError::Interrupted.into()) } else { Ok(readable) }
    }

    fn take(&mut self, doing: &'static str) -> Result<(), RemoteError> {
        let mut block = [0; 64 * 1024];
        match self.stdout.read(&mut block) {
            Ok(0) | Err(_) => Err(self.lost(doing)),
            Ok(length) => {
                self.read.extend_from_slice(&block[..length]);
                Ok(())
            }
        }
    }

    /// Closes the channel, upon which the agent tidies up and ends; waits for that. Once is enough.
    fn close(&mut self) {
        if let Some((stop, heartbeat)) = self.heartbeat.take() {
            drop(stop);
            // It has nothing to say.
            let _ = heartbeat.join();
        }
        if self.stdin.take().is_none() {
            return;
        }
        self.await_end();
        // It has ended, or does not want to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end of `ssh`, which comes when the agent has tidied up. An interruption does not shorten that.
    fn await_end(&mut self) {
        let id = self.child.id().try_into().ok().and_then(Pid::from_raw);
        let Some(Ok(ended)) = id.map(|id| pidfd_open(id, PidfdFlags::empty())) else { return };
        let began = Instant::now();
        let mut is_open = true;
        while let Some(left) = LEAVE_LIMIT.checked_sub(began.elapsed()) {
            // What is still said is not heard, but must not stop anybody.
            let mut waited = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&self.stdout, PollFlags::IN)];
            wait_for(&mut waited[..if is_open { 2 } else { 1 }], left);
            let [has_ended, has_said] = waited.map(|waited| !waited.revents().is_empty());
            if has_ended {
                return;
            }
            if has_said {
                is_open = matches!(self.stdout.read(&mut [0; 4096]), Ok(1..));
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

/// A signal that interrupts this looks like time that is over; those that are sent to this process are held back.
fn wait_for(waited: &mut [PollFd<'_>], limit: Duration) {
    let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    let _ = poll(waited, Some(&limit));
}

fn lock(stdin: &Mutex<ChildStdin>) -> MutexGuard<'_, ChildStdin> {
    // A line is written whole or the channel is lost, whoever panicked.
    stdin.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn channel(script: &str) -> Channel {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        Channel::start("host", shell).unwrap()
    }

    #[test]
    fn lines_are_heard_one_by_one() {
        let mut channel = channel("echo one; printf two; read x; echo \" $x\"");
        assert_eq!(channel.hear_line("testing", LIMIT).unwrap(), "one");
        channel.say("testing", &"three").unwrap();
        assert_eq!(channel.hear_line("testing", LIMIT).unwrap(), "two \"three\"");
    }

    #[test]
    fn a_lost_channel_quotes_what_was_said_last() {
        let mut channel = channel("echo no such luck >&2; exit 255");
        let error = channel.hear_line("testing", LIMIT).unwrap_err().to_string();
        assert!(
            error.starts_with("the control channel to host was lost while testing: no such luck"),
            "{error}"
        );
    }

    #[test]
    fn silence_is_no_answer_and_a_check_is_content_with_it() {
        let mut channel = channel("read x; echo unasked");
        channel.check("testing").unwrap();
        let error = channel.hear_line("testing", Duration::from_millis(1)).unwrap_err().to_string();
        assert_eq!(error, "host did not answer within 0 s while testing");
        // when it speaks unasked
        channel.say("testing", &1).unwrap();
        assert!(channel.wait(LIMIT).unwrap());
        let error = channel.check("testing").unwrap_err().to_string();
        assert_eq!(error, "host answers unasked while testing");
    }

    #[test]
    fn a_line_that_is_no_message_is_quoted() {
        let mut channel = channel("echo Welcome");
        let error = channel.hear::<u32>("testing", LIMIT).unwrap_err().to_string();
        assert_eq!(error, "host answers Welcome while testing");
    }
}
