//! Names the build: one hash of everything that this program is made from. Both ends of an observation must
//! have the same.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// What this program is made from, relative to the root of the workspace.
const SOURCES: [&str; 16] = [
    "Cargo.toml",
    "Cargo.lock",
    "protocol/Cargo.toml",
    "protocol/src",
    "protocol/channel/Cargo.toml",
    "protocol/channel/src",
    "fixtures/Cargo.toml",
    "fixtures/src",
    "fixtures/lab",
    "bench-factor/Cargo.toml",
    "bench-factor/build.rs",
    "bench-factor/src",
    "bench-factor/replica/Cargo.toml",
    "bench-factor/replica/Cargo.lock",
    "bench-factor/replica/src",
    "bench-factor/replica/channel",
];

/// How it is made from that. The name of a compiler says its version only to who asks it, so the workspace's
/// `rust-version` stands for it.
const SETTINGS: [&str; 5] = ["CARGO_PKG_NAME", "TARGET", "PROFILE", "OPT_LEVEL", "DEBUG"];

fn main() -> io::Result<()> {
    let root = root()?;
    let mut hash = Sha256::new();
    // The replica has the same sources and another channel.
    for setting in SETTINGS {
        hash.update(env::var(setting).unwrap_or_default());
        hash.update([0]);
    }
    for source in SOURCES {
        writeln_to_cargo(&format!("rerun-if-changed={}", root.join(source).display()))?;
        add(&mut hash, &root, Path::new(source))?;
    }
    writeln_to_cargo(&format!("rustc-env=BENCH_FACTOR_BUILD={:x}", hash.finalize()))
}

/// The nearest folder above the package that has all sources.
fn root() -> io::Result<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let root = package.ancestors().find(|folder| folder.join("protocol/src").is_dir());
    root.map(Path::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Adds a file, or all files below a folder in the order of their names.
fn add(hash: &mut Sha256, root: &Path, path: &Path) -> io::Result<()> {
    let place = root.join(path);
    if place.is_dir() {
        let mut names =
            fs::read_dir(&place)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        return names.iter().try_for_each(|name| add(hash, root, &path.join(name)));
    }
    let content = fs::read(&place).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("reading {}, a part of the build's name: {error}", place.display()),
        )
    })?;
    hash.update(path.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update((content.len() as u64).to_be_bytes());
    hash.update(content);
    Ok(())
}

fn writeln_to_cargo(instruction: &str) -> io::Result<()> {
    use io::Write as _;
    writeln!(io::stdout(), "cargo::{instruction}")
}
