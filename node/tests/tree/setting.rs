//! Surroundings that a test needs and other tests must not share: another user, mounts, few descriptors.
//! The test runs itself again in a process of its own and judges by its exit code.

use std::{
    env, fs,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use ketch::tree::{Durability, Handling, HeldDirectory, Options, Plan, Target, Trouble};
use ketch_protocol::{
    manifest::{Entry, EntryKind, Timestamp},
    message::Fate,
    path::EntryPath,
    problem::Problem,
};

const WITHIN: &str = "KETCH_TEST_WITHIN";

/// Any user without rights.
const NOBODY: u32 = 65_534;

/// Runs `body` as a user to whom permissions apply.
pub(crate) fn as_plain_user(test: &str, body: fn(&Path)) {
    run(test, body, |folder| {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = again(test);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    });
}

/// Runs `body` where it may mount what it likes.
pub(crate) fn with_own_mounts(test: &str, body: fn(&Path)) {
    let probe = Command::new("unshare").args(["-rm", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skip("no mount namespace can be made here");
    }
    run(test, body, |_| {
        let inner = again(test);
        let mut command = Command::new("unshare");
        command.arg("-rm").arg(inner.get_program()).args(inner.get_args());
        command
    });
}

/// Runs `body` with a file system that the script `make` makes in the file `$1` and mounts at `$2`.
pub(crate) fn on_image(test: &str, make: &str, body: fn(&Path)) {
    let mount = |folder: &Path, then: &str| {
        let mut command = Command::new("unshare");
        let script = format!("{make}; shift 2; {then}");
        command.args(["-m", "sh", "-ec", &script, "sh"]).arg(folder.join("image")).arg(folder);
        command
    };
    if env::var_os(WITHIN).is_none() {
        let probe = tempfile::tempdir().unwrap();
        let mounted = mount(probe.path(), "true").output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            return skip(format_args!("no file system can be had here by {make}"));
        }
    }
    run(test, body, |folder| {
        let inner = again(test);
        let mut command = mount(folder, "exec \"$@\"");
        command.arg(inner.get_program()).args(inner.get_args());
        command
    });
}

/// Runs `body` in a process of its own.
pub(crate) fn alone(test: &str, body: fn(&Path)) {
    run(test, body, |_| again(test));
}

pub(crate) fn skip(reason: impl std::fmt::Display) {
    // Written past the harness, which would hide it: CI counts these lines.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

fn run(test: &str, body: fn(&Path), command: impl FnOnce(&Path) -> Command) {
    if let Some(folder) = env::var_os(WITHIN) {
        return body(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    match command(folder.path()).env(WITHIN, folder.path()).output() {
        Ok(output) => {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{test} failed in its own setting:\n{out}{err}");
            assert!(out.contains("1 passed"), "no test is named {test}");
        }
        Err(error) => skip(error),
    }
}

fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command
}

pub(crate) fn mount_tmpfs(at: &Path, options: &str) {
    fs::create_dir_all(at).unwrap();
    let status = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
    assert!(status.unwrap().success());
}

pub(crate) fn path(text: &str) -> EntryPath {
    EntryPath::parse(text.as_bytes()).unwrap()
}

pub(crate) const MTIME: Timestamp = Timestamp { seconds: 1_000_000_000, nanoseconds: 123_456_789 };

pub(crate) fn file(text: &str, size: u64) -> Entry {
    Entry::new(path(text), EntryKind::File { size }, 0o640, MTIME)
}

pub(crate) fn directory(text: &str) -> Entry {
    Entry::new(path(text), EntryKind::Directory, 0o750, MTIME)
}

pub(crate) fn link(text: &str, target: &str) -> Entry {
    let kind = EntryKind::Symlink { target: target.as_bytes().into() };
    Entry::new(path(text), kind, 0, MTIME)
}

pub(crate) const CAREFUL: Options =
    Options { handling: Handling::receiving(false), durability: Durability::Session };
pub(crate) const OVERWRITING: Options =
    Options { handling: Handling::receiving(true), durability: Durability::File };

pub(crate) const NEW: Plan = Plan::Content;
pub(crate) const CREATED: Plan = Plan::Settled(Fate::Created);
pub(crate) const UPDATED: Plan = Plan::Settled(Fate::Updated);
pub(crate) const DESCRIBED: Plan = Plan::Settled(Fate::Described);
pub(crate) const KEPT: Plan = Plan::Settled(Fate::Kept);

pub(crate) fn open(folder: &Path, options: Options) -> Target {
    Target::open(folder, options).unwrap()
}

pub(crate) fn held(folder: &Path) -> HeldDirectory {
    HeldDirectory::open(folder).unwrap()
}

/// Everything in a folder but `.` and `..`.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|found| found.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn mtime(path: &Path) -> Timestamp {
    let metadata = fs::symlink_metadata(path).unwrap();
    Timestamp { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec().try_into().unwrap() }
}

pub(crate) fn store(target: &Target, entry: &Entry, content: &[u8]) -> Result<Fate, Trouble> {
    let mut new = target.create(entry)?;
    new.write(content)?;
    new.commit()
}

pub(crate) fn problem<T: std::fmt::Debug>(result: Result<T, Trouble>) -> Problem {
    match result {
        Err(Trouble::Problem(problem)) => problem,
        other => panic!("a problem was expected, not {other:?}"),
    }
}

/// What a session finds when it lists its target.
pub(crate) fn listed(root: &Path, text: &str) -> Entry {
    let at = root.join(text);
    let metadata = fs::symlink_metadata(&at).unwrap();
    let kind = if metadata.is_dir() {
        EntryKind::Directory
    } else if metadata.is_symlink() {
        EntryKind::Symlink { target: fs::read_link(&at).unwrap().as_os_str().as_bytes().into() }
    } else {
        EntryKind::File { size: metadata.len() }
    };
    Entry::new(path(text), kind, mode(&at), mtime(&at))
}
