//! Names the build: one hash of everything that this program is made from. Both ends of an observation must
//! have the same.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// What this program is made from, relative to the root of the workspace.
const SOURCES: [&str; 22] = [
    "Cargo.toml",
    "Cargo.lock",
    "protocol/Cargo.toml",
    "protocol/src",
    "protocol/simulation/Cargo.toml",
    "protocol/simulation/src",
    "protocol/channel/Cargo.toml",
    "protocol/channel/src",
    "fixtures/Cargo.toml",
    "fixtures/src",
    "fixtures/lab",
    "bench-factor/Cargo.toml",
    "bench-factor/build.rs",
    "bench-factor/src",
    "docs/benchmarks/method.md",
    "bench-factor/replica/Cargo.toml",
    "bench-factor/replica/Cargo.lock",
    "bench-factor/replica/src",
    "bench-factor/replica/channel",
    "bench-factor/quinn/Cargo.toml",
    "bench-factor/quinn/Cargo.lock",
    "bench-factor/quinn/channel",
];

/// What is needed beside that to build, to test and to understand it.
const BESIDE: [&str; 6] = [
    "bench-factor/plans/study",
    "docs/benchmarks/cell.md",
    "docs/benchmarks/observation.md",
    "docs/benchmarks/report.md",
    "docs/benchmarks/tools.md",
    "node/Cargo.toml",
];

/// Which program it is (the replica has the same sources and another channel), and how it is made. A compiler says its
/// version only to who asks it, so the workspace's `rust-version` stands for it.
const SETTINGS: [&str; 5] = ["CARGO_PKG_NAME", "TARGET", "PROFILE", "OPT_LEVEL", "DEBUG"];

fn main() -> io::Result<()> {
    let root = root()?;
    let mut hash = Sha256::new();
    let mut paths = Vec::new();
    for setting in SETTINGS {
        hash.update(env::var(setting).unwrap_or_default());
        hash.update([0]);
    }
    for source in SOURCES {
        tell_cargo(&format!("rerun-if-changed={}", root.join(source).display()))?;
        for path in files(&root, Path::new(source))? {
            let content = read(&root, &path)?;
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update([0]);
            hash.update((content.len() as u64).to_be_bytes());
            hash.update(&content);
            paths.push(path);
        }
    }
    embed(&root, paths)?;
    tell_cargo(&format!("rustc-env=BENCH_FACTOR_LOCK={}", lock()?.display()))?;
    tell_cargo(&format!("rustc-env=BENCH_FACTOR_BUILD={:x}", hash.finalize()))
}

/// The lock file of the package's workspace.
fn lock() -> io::Result<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let lock = package.ancestors().map(|folder| folder.join("Cargo.lock")).find(|place| place.is_file());
    lock.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The nearest folder above the package that has all sources.
fn root() -> io::Result<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let root = package.ancestors().find(|folder| folder.join("protocol/src").is_dir());
    root.map(Path::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A file, or all files below a folder in the order of their names.
fn files(root: &Path, path: &Path) -> io::Result<Vec<PathBuf>> {
    let place = root.join(path);
    if !place.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut names =
        fs::read_dir(&place)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    let below = names.iter().map(|name| files(root, &path.join(name)));
    Ok(below.collect::<io::Result<Vec<_>>>()?.concat())
}

fn read(root: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let place = root.join(path);
    fs::read(&place).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("reading {}, a part of the build's name: {error}", place.display()),
        )
    })
}

/// Writes the list of all sources with their content, from which the study's runner makes an archive.
fn embed(root: &Path, mut paths: Vec<PathBuf>) -> io::Result<()> {
    for beside in BESIDE {
        tell_cargo(&format!("rerun-if-changed={}", root.join(beside).display()))?;
        paths.extend(files(root, Path::new(beside))?);
    }
    let one = |path: &PathBuf| format!("({path:?}, include_bytes!({:?}).as_slice()),\n", root.join(path));
    let list: String = paths.iter().map(one).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("sources.rs"), format!("[\n{list}]\n"))
}

fn tell_cargo(instruction: &str) -> io::Result<()> {
    writeln!(io::stdout(), "cargo::{instruction}")
}
