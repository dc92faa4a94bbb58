//! Two peers behind routers, with a public relay, over the round trip from Germany to the US.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use ketch_fixtures::{
    digest::{Options, digest},
    tree::Shape,
};
use ketch_lab::{Internet, Running, nat::Uplink, path::Options as PathOptions, profile::Profile};

fn lab_is_there() -> bool {
    let available = ketch_lab::Lab::available();
    if let Err(error) = &available {
        // The harness shows this with --nocapture, and CI counts these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
    }
    available.is_ok()
}
