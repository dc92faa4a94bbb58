//! The tree to copy, written anew for each observation: a tool that leaves something in its source, or
//! finds what another has left there, would not copy the same tree as the others.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ketch_fixtures::tree::Summary;

use super::{
    adapter::{self, TREE},
    error::{ToolsError, io_error},
    installed,
    plan::Work,
    process::run,
    target::{FileSystem, Target},
};

/// Length of a source image beyond its content and a block an entry: the journal and other structures of the
/// file system. It is sent too, so it is as small as `mkfs.ext4` takes for the trees here.
const IMAGE_SLACK_BYTES: u64 = 64 * 1024 * 1024;

/// A source tree on disk.
#[derive(Debug)]
pub(crate) struct Source {
    /// The tree, as a folder.
    pub(crate) tree: PathBuf,
    /// What the tool is given: the tree or the image.
    pub(crate) given: PathBuf,
    /// What is in it.
    pub(crate) summary: Summary,
    /// The file system that holds it, which must outlive it.
    held: Target,
}

impl Source {
    /// Writes `work` below `scratch`, in the form that a tool reads.
    pub(crate) fn make(
        form: adapter::Source,
        work: Work,
        seed: u64,
        scratch: &Path,
    ) -> Result<Self, ToolsError> {
        let file_system = match form {
            adapter::Source::Folder | adapter::Source::Image => FileSystem::Folder,
            adapter::Source::Subvolume => FileSystem::Btrfs,
        };
        let held = file_system.make(scratch, "source")?;
        let tree = held.root().join(TREE);
        if form == adapter::Source::Subvolume {
            run(Command::new("btrfs").args(["--quiet", "subvolume", "create"]).arg(&tree))?;
        }
        let summary = work.shape().write(seed, &tree)?;
        let given = match form {
            adapter::Source::Folder => tree.clone(),
            adapter::Source::Subvolume => read_only(&tree)?,
            adapter::Source::Image => image(&tree, &summary)?,
        };
        Ok(Self { tree, given, summary, held })
    }

    /// Removes it.
    pub(crate) fn close(self) -> Result<(), ToolsError> {
        self.held.close()
    }
}

/// Btrfs sends nothing that could change meanwhile.
fn read_only(subvolume: &Path) -> Result<PathBuf, ToolsError> {
    run(Command::new("btrfs").args(["property", "set"]).arg(subvolume).args(["ro", "true"]))?;
    run(Command::new("btrfs").args(["filesystem", "sync"]).arg(subvolume))?;
    Ok(subvolume.to_owned())
}

/// An ext4 image beside `tree` that holds its content.
fn image(tree: &Path, summary: &Summary) -> Result<PathBuf, ToolsError> {
    /// The block size, which the last block of each file rounds up to.
    const BLOCK_BYTES: u64 = 4_096;
    let image = tree.with_extension("image");
    let entries = summary.files + summary.directories + summary.symlinks;
    let length = summary.bytes + entries * BLOCK_BYTES + IMAGE_SLACK_BYTES;
    let file = fs::File::create_new(&image).and_then(|file| file.set_len(length));
    file.map_err(io_error("make the image", &image))?;
    let inodes = (entries + 1_024).to_string();
    let mut make = Command::new(installed::program("mkfs.ext4"));
    run(make.args(["-q", "-F", "-N", &inodes, "-d"]).args([tree, &image]))?;
    Ok(image)
}
