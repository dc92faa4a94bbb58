//! Studies between two hosts: the runner on one of Lab, sshd on the other, and a path between them.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::UdpSocket,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use ketch_lab::{
    Lab, Running, Side,
    profile::Profile,
    units::{Queue, Rate},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const BENCH_FACTOR: &str = env!("CARGO_BIN_EXE_bench-factor");

/// What nothing here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Where both hosts make their trees, below a test's folder.
const SCRATCH: &str = "scratch";

/// A firewall that lets in nothing but ssh, as rented hosts have.
const FIREWALL: &str = "table inet filter {
  chain input {
    type filter hook input priority 0; policy drop;
    ct state established accept
    tcp dport 2222 accept
  }
}
";

/// A plan over the path between the hosts, with a control that needs no other host.
const PLAN: &str = "
rounds = 1
seed = 7
limit_s = 60
source = 'tmpfs'
target = 'tmpfs'
[data]
small = { shape = 'small', files = 64, bytes = 4096 }
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['tcp', 'quic']
controller = ['bbr']
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['tcp']
controller = ['bbr']
role = 'control'
link = ['loopback']
";

/// Observations of some eight seconds over 4 Mbit/s.
const LONG: &str = "
rounds = 2
seed = 7
limit_s = 100
warm_up = false
source = 'tmpfs'
target = 'tmpfs'
[data]
large = { shape = 'large', bytes = 4194304 }
[[conditions]]
data = ['large']
layout = ['bundle']
transport = ['quic']
controller = ['bbr']
";

/// Two hosts: A has the runner, and ssh reaches B as `far`.
struct Hosts {
    place: tempfile::TempDir,
    path: ketch_lab::Path,
    _sshd: Running,
}

/// Why there can be no hosts here.
fn missing() -> Option<String> {
    if let Err(error) = Lab::available() {
        return Some(error.to_string());
    }
    if !rustix::process::getuid().is_root() {
        return Some("sshd, mounts and packet filters take root".into());
    }
    let programs = ["/usr/sbin/sshd", "/usr/sbin/nft", "/usr/bin/ssh", "/usr/bin/ssh-keygen"];
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    missing.map(|program| format!("{program} is not installed"))
}

/// The hosts, joined at a rate in Mbit/s; `None`, having said why, where there can be none. `environment` is what sshd gives
/// to what it starts.
fn hosts(mbit: u64, environment: &str) -> Option<Hosts> {
    if let Some(why) = missing() {
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return None;
    }
    let path = Lab::path(Profile::even(Rate::mbit(mbit), 2_000_000, Queue::Bytes(256 * 1024))).unwrap();
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("home");
    fs::DirBuilder::new().mode(0o700).create(&home).unwrap();
    for key in ["host", "user", "stranger"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(place.path().join(key));
        assert!(command.status().unwrap().success());
    }
    let folder = place.path().display();
    let sshd = format!(
        "Port 2222\nListenAddress {}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPermitRootLogin yes\n\
         StrictModes no\nUsePAM no\nPidFile none\nSetEnv HOME={} {environment}\n",
        path.address(Side::B),
        home.display()
    );
    fs::write(place.path().join("sshd_config"), sshd).unwrap();
    fs::create_dir_all("/run/sshd").unwrap();
    let mut command = Command::new("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f"]).arg(place.path().join("sshd_config"));
    let mut sshd = path.spawn(Side::B, piped(command)).unwrap();
    let said = BufReader::new(sshd.child().stderr.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    assert!(said.any(|line| line.contains("Server listening")), "sshd does not listen");
    // What it says later goes nowhere, and must not stop it.
    thread::spawn(move || said.for_each(drop));
    let hosts = Hosts { place, path, _sshd: sshd };
    hosts.configure(2222, "user");
    fs::create_dir(hosts.scratch()).unwrap();
    Some(hosts)
}

fn piped(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Hosts {
    fn folder(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn scratch(&self) -> PathBuf {
        self.folder(SCRATCH)
    }

    /// Says how ssh reaches `far`.
    fn configure(&self, port: u16, key: &str) {
        let folder = self.place.path().display();
        let text = format!(
            "Host far\n  HostName {}\n  Port {port}\n  User root\n  IdentityFile {folder}/{key}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking no\n  LogLevel ERROR\n",
            self.path.address(Side::B)
        );
        fs::write(self.folder("ssh_config"), text).unwrap();
    }

    /// Puts the program where it would be brought, so that it need not cross.
    fn bring(&self) {
        let output = Command::new("sha256sum").arg(BENCH_FACTOR).output().unwrap();
        let sum = String::from_utf8(output.stdout).unwrap();
        let folder = self.folder("home/.cache/bench-factor");
        fs::create_dir_all(&folder).unwrap();
        let name = format!("bench-factor-{}", sum.split(' ').next().unwrap());
        fs::copy(BENCH_FACTOR, folder.join(name)).unwrap();
    }

    fn study(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BENCH_FACTOR);
        command.args(["study", "--remote", "far", "--ssh-config"]).arg(self.folder("ssh_config"));
        command.arg("--out").arg(self.folder("run")).arg("--scratch").arg(self.scratch());
        command.args(arguments);
        piped(command)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.path.run(Side::A, self.study(arguments)).unwrap()
    }

    fn write_plan(&self, text: &str) -> String {
        let path = self.folder("plan.toml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The packet filter of B.
    fn rules(&self) -> String {
        let mut command = Command::new("/usr/sbin/nft");
        command.args(["list", "ruleset"]);
        said(&self.path.run(Side::B, command).unwrap()).0
    }

    fn set_rules(&self, text: &str) {
        let path = self.folder("rules");
        fs::write(&path, text).unwrap();
        let mut command = Command::new("/usr/sbin/nft");
        command.arg("-f").arg(path);
        assert!(self.path.run(Side::B, command).unwrap().status.success());
    }

    fn rows(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder("run/observations.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Whether a host that sends from `from` gets an answer from the echo of B.
    fn is_answered(&self, from: Side) -> bool {
        let ask = || {
            let socket = UdpSocket::bind((self.path.address(from), 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let ask = |_| {
                socket.send_to(b"12345678", (self.path.address(Side::B), 32_944)).unwrap();
                socket.recv(&mut [0; 8]).is_ok()
            };
            (0..5).any(ask)
        };
        self.path.enter(from, ask).unwrap()
    }

    /// Processes whose command has `word` in it.
    fn processes(&self, word: &str) -> Vec<i32> {
        let found = proc_folders().filter(|folder| read(&folder.join("cmdline")).contains(word));
        found.filter_map(|folder| folder.file_name()?.to_str()?.parse().ok()).collect()
    }

    /// Starts a run of two long observations; returns when the second one is under way.
    fn reach_second(&self) -> Running {
        let study = self.study(&["--plan", &self.write_plan(LONG)]);
        let mut running = self.path.spawn(Side::A, study).unwrap();
        let second = self.folder("run/samples/002-001-large-bundle-quic-bbr-1.jsonl");
        let has_ended = |running: &mut Running| running.child().try_wait().unwrap().is_some();
        until("there is a second observation", || second.exists() || has_ended(&mut running));
        running
    }

    /// Sends a signal to the process of the run on A that is called `name`.
    fn signal(&self, name: &str, signal: Signal) {
        let of_run = self.processes(self.folder("ssh_config").to_str().unwrap());
        let is_called = |id: &&i32| read(Path::new(&format!("/proc/{id}/comm"))).trim_end() == name;
        let id = *of_run.iter().find(is_called).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// What is left on B of a run.
    fn left(&self) -> Vec<String> {
        let home = self.folder("home").to_str().unwrap().to_owned();
        let scratch = self.scratch().to_str().unwrap().to_owned();
        let processes = self.processes(&home).into_iter().map(|id| format!("process {id}"));
        let mounts = proc_folders().filter(|folder| read(&folder.join("mountinfo")).contains(&scratch));
        let files = fs::read_dir(self.scratch()).unwrap().map(|entry| entry.unwrap().path());
        let rules = self.rules();
        let rules = rules.lines().filter(|line| line.contains("bench")).map(str::to_owned);
        let paths = mounts.chain(files).map(|path| path.display().to_string());
        processes.chain(paths).chain(rules).collect()
    }
}

fn proc_folders() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path())
}

/// What a file of a process says, which may have ended.
fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_plan_runs_between_two_hosts_and_leaves_nothing() {
    let Some(hosts) = hosts(1_000, "") else { return };
    // given a host behind a firewall
    hosts.set_rules(FIREWALL);
    let before = hosts.rules();
    // when a study runs between it and another one
    let output = hosts.run(&["--plan", &hosts.write_plan(PLAN)]);
    assert!(output.status.success(), "{:?}", said(&output));
    // then its rows are as those of any other
    let rows = hosts.rows();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row["outcome"]["kind"], "complete", "{row}");
        assert_eq!((&row["files"], &row["useful_bytes"]), (&64.into(), &(64 * 4096).into()));
        assert!(row["samplers"]["sender"]["udp_receive_errors"].is_u64(), "{row}");
        assert!(row["samplers"]["round_trip"]["median_ms"].is_f64(), "{row}");
        assert_eq!(row["settings"][0]["got"], "bbr", "{row}");
        assert!(row["made_of"]["sender_kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    }
    let paths: Vec<_> = rows.iter().map(|row| row["factors"]["path"].as_str().unwrap()).collect();
    assert_eq!(paths.iter().filter(|path| **path == "to far").count(), 2, "{paths:?}");
    let log =
        fs::read_dir(hosts.folder("run/logs")).unwrap().map(|entry| entry.unwrap().path().join("source.log"));
    assert!(log.map(|log| read(&log)).all(|log| log.contains("sent: ")));
    // and the remote host is as before
    assert_eq!(hosts.rules(), before);
    assert_eq!(hosts.left(), Vec::<String>::new());
    // and there is a report
    let report = Command::new(BENCH_FACTOR).arg("report").arg(hosts.folder("run")).output().unwrap();
    assert!(report.status.success(), "{:?}", said(&report));
}

#[test]
fn a_cut_control_channel_loses_one_observation_and_leaves_nothing() {
    let Some(hosts) = hosts(4, "") else { return };
    hosts.bring();
    hosts.set_rules(FIREWALL);
    // given the second observation, which is under way
    let running = hosts.reach_second();
    // then the port is open to the one peer
    assert!(hosts.rules().contains("ip saddr 10.77.0.1"), "{}", hosts.rules());
    assert!(hosts.is_answered(Side::A) && !hosts.is_answered(Side::B));
    // when the control channel is cut
    hosts.signal("ssh", Signal::KILL);
    // then the run ends with the reason
    let output = running.output().unwrap();
    let (_, error) = said(&output);
    assert!(!output.status.success());
    assert!(error.contains("the control channel to far was lost while"), "{error}");
    assert!(error.contains("--resume goes on"), "{error}");
    // and the remote host tidies up by itself
    until("nothing is left there", || hosts.left().is_empty());
    assert_eq!(hosts.rows().len(), 1);
    let first = hosts.rows().remove(0);
    // when it goes on
    let output = hosts.run(&["--resume"]);
    assert!(output.status.success(), "{:?}", said(&output));
    // then one observation was made again
    assert_eq!(hosts.rows().len(), 2);
    assert_eq!(hosts.rows()[0], first);
    assert_eq!(hosts.rows()[1]["outcome"]["kind"], "complete");
    assert_eq!(hosts.left(), Vec::<String>::new());
}

#[test]
fn a_run_that_is_killed_leaves_nothing_on_the_remote_host_and_goes_on() {
    let Some(hosts) = hosts(4, "") else { return };
    hosts.bring();
    let running = hosts.reach_second();
    // when the run itself is killed
    hosts.signal("bench-factor", Signal::KILL);
    assert!(!running.output().unwrap().status.success());
    // then nothing but its own folder on this host is left
    until("nothing is left there", || {
        hosts.left().iter().all(|left| left.contains("/scratch/run-") && !left.ends_with("-remote"))
    });
    assert_eq!(hosts.rows().len(), 1);
    // and it goes on
    let output = hosts.run(&["--resume"]);
    assert!(output.status.success(), "{:?}", said(&output));
    assert_eq!(hosts.rows().len(), 2);
    assert_eq!(hosts.left(), Vec::<String>::new());
}

#[test]
fn a_run_that_is_interrupted_has_tidied_up_at_both_ends_when_it_ends() {
    let Some(hosts) = hosts(4, "") else { return };
    hosts.bring();
    let running = hosts.reach_second();
    // when somebody wants it to end
    hosts.signal("bench-factor", Signal::INT);
    // then it waits for the remote host
    let (_, error) = said(&running.output().unwrap());
    assert_eq!(error, "error: interrupted\n");
    assert_eq!(hosts.left(), Vec::<String>::new());
    assert_eq!(hosts.rows().len(), 1);
}

#[test]
#[ignore = "takes the minute after which silence counts, at either end"]
fn a_path_that_falls_silent_ends_both_sides() {
    let Some(hosts) = hosts(4, "") else { return };
    hosts.bring();
    let mut running = hosts.path.spawn(Side::A, hosts.study(&["--plan", &hosts.write_plan(LONG)])).unwrap();
    let second = hosts.folder("run/samples/002-001-large-bundle-quic-bbr-1.jsonl");
    until("there is a second observation", || {
        second.exists() || running.child().try_wait().unwrap().is_some()
    });
    // when nothing crosses any more
    hosts.path.cut();
    // then the run ends, and the remote host tidies up without a word from it
    let (_, error) = said(&running.output().unwrap());
    assert!(error.contains("the control channel to far was lost while"), "{error}");
    until("nothing is left there", || hosts.left().is_empty());
    assert_eq!(hosts.rows().len(), 1);
    // and it goes on when the path is back
    hosts.path.heal();
    let output = hosts.run(&["--resume"]);
    assert!(output.status.success(), "{:?}", said(&output));
    assert_eq!(hosts.rows().len(), 2);
}

#[test]
fn an_agent_that_hears_nothing_tidies_up() {
    let Some(hosts) = hosts(1_000, "") else { return };
    let program = hosts.folder("home/bench-factor");
    fs::copy(BENCH_FACTOR, &program).unwrap();
    // given an agent that has begun, with rules of one that was killed before it
    hosts.set_rules("table inet filter { chain input { type filter hook input priority 0; policy accept;\nudp dport 1 accept comment \"bench-factor\"\n}\n}\n");
    let mut command = Command::new(&program);
    command.args(["host", "--silence", "2"]);
    let mut command = piped(command);
    command.stdin(Stdio::piped());
    let mut agent = hosts.path.spawn(Side::B, command).unwrap();
    let mut stdin = agent.child().stdin.take().unwrap();
    let scratch = hosts.scratch().join("run");
    let begin = format!(
        r#"{{"ask":"begin","scratch":{scratch:?},"source":"tmpfs","seed":7,"data":{{"d":{{"shape":"small","files":2,"bytes":3}}}},"peer":"10.77.0.1"}}"#
    );
    let serve = format!(
        r#"{{"ask":"serve","program":{:?},"data":"d","load_threads":1}}"#,
        program.file_name().unwrap()
    );
    writeln!(stdin, "{begin}\n{serve}").unwrap();
    let stdout = BufReader::new(agent.child().stdout.take().unwrap());
    let replies: Vec<Value> =
        stdout.lines().take(3).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(replies[1]["content"]["d"], serde_json::json!([2, 6]), "{replies:?}");
    assert_eq!(replies[2]["is"], "serving", "{replies:?}");
    assert!(!hosts.rules().contains("udp dport 1 "), "rules of an earlier agent are removed");
    // when nothing more is said, and the channel stays open
    let mut error = String::new();
    agent.child().stderr.take().unwrap().read_to_string(&mut error).unwrap();
    // then it ends, and nothing is left
    assert!(!agent.wait().unwrap().success());
    assert_eq!(error, "error: nothing was heard for 2 s\n");
    assert_eq!(hosts.left(), Vec::<String>::new());
    drop(stdin);
}

#[test]
fn hosts_that_cannot_be_reached_or_used_are_told_of() {
    let Some(hosts) = hosts(1_000, "") else { return };
    let plan = hosts.write_plan(PLAN);
    let error = |arguments: &[&str]| {
        let output = hosts.run(arguments);
        assert!(!output.status.success());
        said(&output).1
    };
    // given nobody who listens
    hosts.configure(2223, "user");
    let refused = error(&["--plan", &plan]);
    assert!(refused.contains("cannot start the agent on far: ssh: connect to host"), "{refused}");
    assert!(refused.contains("Connection refused"), "{refused}");
    // given a key that is not let in
    hosts.configure(2222, "stranger");
    let denied = error(&["--resume"]);
    assert!(
        denied.contains("cannot start the agent on far") && denied.contains("Permission denied"),
        "{denied}"
    );
}

#[test]
fn a_program_that_the_remote_host_lacks_is_named() {
    let Some(hosts) = hosts(1_000, "PATH=/run/sshd-of-a-test") else { return };
    let folder = Path::new("/run/sshd-of-a-test");
    fs::create_dir_all(folder).unwrap();
    for name in ["sh", "head", "mkdir", "chmod", "mv"] {
        let link = folder.join(name);
        let _ = fs::remove_file(&link);
        symlink(Path::new("/bin").join(name), &link).unwrap();
    }
    let output = hosts.run(&["--plan", &hosts.write_plan(PLAN)]);
    fs::remove_dir_all(folder).unwrap();
    let (_, error) = said(&output);
    assert_eq!(error, "error: far lacks the program sha256sum\n");
}

fn study(arguments: &[&str]) -> (bool, String, String) {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(BENCH_FACTOR);
    command.arg("study").args(arguments).current_dir(place.path());
    let output = command.output().unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing is made");
    let (text, error) = said(&output);
    (output.status.success(), text, error)
}

#[test]
fn a_dry_run_prints_every_command_of_both_hosts() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/plans/study/seed-quick.toml");
    let (is_done, text, error) = study(&["--plan", plan, "--dry-run", "--remote", "root@192.0.2.7"]);
    assert!(is_done, "{error}");
    assert_eq!(text.matches("control channel: ssh -o BatchMode=yes").count(), 1);
    assert_eq!(text.matches("root@192.0.2.7 exec sh -c ").count(), 1);
    for word in
        ["sha256sum --check", "/bench-factor-", "host'", "dport { 32943, 32944 } drop", "insert rule FAMILY"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("round ")).count(), 2 + 2 * 22);
    let there = "  source: ${XDG_CACHE_HOME:-$HOME/.cache}/bench-factor/bench-factor-";
    // All but the two controls over loopback.
    assert_eq!(text.lines().filter(|line| line.starts_with(there)).count(), 2 + 2 * 20);
    assert_eq!(text.lines().filter(|line| line.starts_with("  target: ")).count(), 2 + 2 * 22);
}

#[test]
fn a_plan_with_paths_of_its_own_is_refused() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/plans/study/connections.toml");
    let (is_done, _, error) = study(&["--plan", plan, "--dry-run", "--remote", "far"]);
    assert!(!is_done && error.contains("and --remote has a path already"), "{error}");
}

/// The commands of a document that are this program's, as they stand in its blocks for a shell.
fn commands(document: &str) -> Vec<String> {
    let blocks = document.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines);
    lines.filter_map(|line| line.strip_prefix("target/release/bench-factor ")).map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_guide_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let guide = fs::read_to_string(root.join("docs/guides/de-us.md")).unwrap();
    let commands = commands(&guide);
    assert_eq!(commands.len(), 8, "{commands:?}");
    for command in commands {
        // What would begin is shown only; of the others the arguments are read.
        let harmless = if command.contains("--plan") { "--dry-run" } else { "--help" };
        let line = format!("exec \"$0\" {} {harmless}", command.replace(" --dry-run", ""));
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line, BENCH_FACTOR]).current_dir(root).output().unwrap();
        assert!(output.status.success(), "{command}: {:?}", said(&output));
    }
}

#[test]
fn what_the_guide_quotes_is_what_is_said() {
    let guide = include_str!("../../docs/guides/de-us.md");
    let sources = [
        include_str!("../src/runner/remote.rs"),
        include_str!("../src/runner/remote/error.rs"),
        include_str!("../src/runner/remote/agent.rs"),
        include_str!("../src/runner/stage.rs"),
    ];
    for quoted in [
        "cannot start the agent on ",
        " lacks the program ",
        "the data port of ",
        " is as it was",
        "the control channel to ",
        "another run is at this host",
        " is not installed",
    ] {
        assert!(guide.contains(quoted), "the guide lacks {quoted:?}");
        assert!(sources.iter().any(|source| source.contains(quoted)), "nothing says {quoted:?}");
    }
}
