//! `ketch` as a process: what it prints, as it prints it, and how it ends.

use std::{ffi::OsStr, path::Path, process::Stdio, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};

/// Far above what anything here takes; it only keeps a failed test from hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running `ketch`, killed when it is dropped.
pub(crate) struct Ketch {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    seen: Vec<String>,
    stderr: Arc<Mutex<String>>,
    stderr_ended: JoinHandle<()>,
}

/// How a `ketch` ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` when a signal killed it.
    pub(crate) code: Option<i32>,
    /// Lines of its standard output.
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: String,
}

/// A command that runs `ketch` with this state folder.
pub(crate) fn ketch(state: &Path, arguments: &[&dyn AsRef<OsStr>]) -> Command {
    with_arguments(Command::new(env!("CARGO_BIN_EXE_ketch")), state, arguments)
}

/// Arguments and surroundings of `ketch` for a command that ends in its name.
pub(crate) fn with_arguments(mut command: Command, state: &Path, arguments: &[&dyn AsRef<OsStr>]) -> Command {
    command.arg("--state").arg(state).args(arguments.iter().map(|argument| argument.as_ref()));
    command.env_remove("KETCH_STATE").env_remove("KETCH_LOG");
    command
}

impl Ketch {
    /// Starts it with nothing on its standard input.
    pub(crate) fn start(command: Command) -> Self {
        Self::spawn(command, Stdio::null())
    }

    /// Starts it with a text on its standard input.
    pub(crate) async fn start_with_input(command: Command, input: &str) -> Self {
        let mut started = Self::spawn(command, Stdio::piped());
        let mut stdin = started.child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        started
    }

    fn spawn(mut command: Command, stdin: Stdio) -> Self {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stderr = Arc::<Mutex<String>>::default();
        let lines = read_lines(child.stdout.take().unwrap());
        let stderr_ended = tokio::spawn(collect(child.stderr.take().unwrap(), Arc::clone(&stderr)));
        Self { child, lines, seen: Vec::new(), stderr, stderr_ended }
    }

    /// Waits for an event of `--json` and gives it back.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        self.event_where(name, |_| true).await
    }

    /// Waits for an event that fits.
    pub(crate) async fn event_where(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.line(name).await;
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == name && fits(&event) {
                return event;
            }
        }
    }

    /// Waits for the next line of its standard output.
    pub(crate) async fn line(&mut self, awaited: &str) -> String {
        match timeout(PATIENCE, self.lines.recv()).await {
            Ok(Some(line)) => {
                self.seen.push(line.clone());
                line
            }
            Ok(None) => panic!("it ended before \"{awaited}\": {}", self.output().await),
            Err(_) => panic!("\"{awaited}\" did not come: {}", self.output().await),
        }
    }

    /// The most memory it has had so far, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Bytes that it has read so far, whatever from.
    pub(crate) fn read_bytes(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id().unwrap())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    }

    /// Waits for its end, and says how many bytes it has read in all.
    pub(crate) async fn end_counting(self) -> (Ended, u64) {
        let pid = Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        // Until somebody asks how it ended, the system keeps its account.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let ended = tokio::task::spawn_blocking(move || waitid(WaitId::Pid(pid), options).unwrap());
        if timeout(PATIENCE, ended).await.is_err() {
            panic!("it did not end: {}", self.output().await);
        }
        let read = self.read_bytes();
        (self.end().await, read)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().await.unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn end(self) -> Ended {
        self.end_within(PATIENCE).await
    }

    /// Waits for its end, which must come in time.
    pub(crate) async fn end_within(mut self, limit: Duration) -> Ended {
        let Ok(status) = timeout(limit, self.child.wait()).await else {
            panic!("it did not end within {limit:?}: {}", self.output().await);
        };
        let code = status.unwrap().code();
        self.stderr_ended.await.unwrap();
        let mut stdout = self.seen;
        while let Some(line) = self.lines.recv().await {
            stdout.push(line);
        }
        let stderr = self.stderr.lock().await.clone();
        Ended { code, stdout, stderr }
    }

    async fn output(&self) -> String {
        format!("stdout {:#?}, stderr {}", self.seen, self.stderr.lock().await)
    }
}

impl Ended {
    /// All events of `--json` with this name.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let events = self.stdout.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == name).collect()
    }

    /// Whether it was a node that serves shares.
    pub(crate) fn is_server(&self) -> bool {
        !self.events("serving").is_empty()
    }

    /// The one event with this name.
    pub(crate) fn event(&self, name: &str) -> Value {
        let mut events = self.events(name);
        assert_eq!(events.len(), 1, "events \"{name}\" of {self:#?}");
        events.remove(0)
    }

    /// The paths of its problems, each with the cause.
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut problems: Vec<_> = self
            .events("problem")
            .iter()
            .map(|event| (text(&event["path"]), text(&event["cause"])))
            .collect();
        problems.sort();
        problems
    }

    /// Fails the test with everything that was printed unless the exit code is this one.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

fn read_lines(stdout: impl AsyncRead + Send + Unpin + 'static) -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut reader = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = reader.next_line().await {
            // A test that has what it wanted reads no further.
            let _ = sender.send(line);
        }
    });
    lines
}

async fn collect(mut stderr: impl AsyncRead + Unpin, text: Arc<Mutex<String>>) {
    let mut bytes = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut bytes).await {
        text.lock().await.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
}
