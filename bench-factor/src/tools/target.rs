//! A place to copy to, made anew for each run: create-and-delete cycles on a used file system slow it down
//! by up to a factor of thirty, and what an earlier run left must not help or hinder a later one.

use std::{
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    error::{ToolsError, io_error},
    installed,
    process::run,
};

/// What a target is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileSystem {
    /// An ext4 image behind a loop device.
    Ext4,
    /// An XFS image behind a loop device.
    Xfs,
    /// A Btrfs image behind a loop device.
    Btrfs,
    /// A tmpfs of its own.
    Tmpfs,
    /// An empty folder beneath the scratch folder; the only one that needs no root.
    Folder,
}

/// Length of an image. It is sparse and costs what is written to it. Btrfs is twice as slow in one of 2 GiB,
/// because it waits on space reservation.
const IMAGE_BYTES: u64 = 20 * 1024 * 1024 * 1024;

/// Inodes of an ext4 image: enough for a million files with their folders. They are fixed when it is made.
const EXT4_INODES: &str = "1200000";

/// How often, and how long apart, an unmount is tried while a process that has just been ended still holds
/// the file system.
const UNMOUNT_TRIES: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);

/// A mounted file system, or a folder, that is empty at first and gone when dropped. Call
/// [`close`](Self::close) to learn whether it could be removed.
#[derive(Debug)]
pub(crate) struct Target {
    mount: PathBuf,
    image: Option<PathBuf>,
    mounted: bool,
}

impl FileSystem {
    /// The programs that make it, besides `mount` and `umount`.
    pub(crate) fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["mkfs.ext4"],
            Self::Xfs => &["mkfs.xfs"],
            Self::Btrfs => &["mkfs.btrfs"],
            Self::Tmpfs | Self::Folder => &[],
        }
    }

    /// Whether making it takes root.
    pub(crate) fn needs_root(self) -> bool {
        self != Self::Folder
    }

    /// Makes one at `scratch/name`, its image beside it.
    pub(crate) fn make(self, scratch: &Path, name: &str) -> Result<Target, ToolsError> {
        self.make_of(IMAGE_BYTES, scratch, name)
    }

    /// Makes one whose image, where it has one, is so long.
    pub(crate) fn make_of(self, image_bytes: u64, scratch: &Path, name: &str) -> Result<Target, ToolsError> {
        let mount = scratch.join(name);
        fs::create_dir(&mount).map_err(io_error("make the folder", &mount))?;
        let image = self.image_command().map(|command| (command, scratch.join(format!("{name}.image"))));
        // From here on, an early return removes what was made.
        let mut target =
            Target { mount, image: image.as_ref().map(|(_, path)| path.clone()), mounted: false };
        if let Some((mut make, path)) = image {
            let made = File::create_new(&path).and_then(|file| file.set_len(image_bytes));
            made.map_err(io_error("make the image", &path))?;
            run(make.arg(&path))?;
            run(Command::new("mount").args(["-o", "loop"]).args([&path, &target.mount]))?;
            target.mounted = true;
        } else if self == Self::Tmpfs {
            run(Command::new("mount").args(["-t", "tmpfs", "ketch-tools"]).arg(&target.mount))?;
            target.mounted = true;
        }
        Ok(target)
    }

    /// What makes the file system in an image whose path follows as the last argument.
    fn image_command(self) -> Option<Command> {
        let (program, arguments): (_, &[&str]) = match self {
            // What `lazy` leaves for later would be done by the kernel while the clock runs.
            Self::Ext4 => (
                "mkfs.ext4",
                &["-q", "-F", "-N", EXT4_INODES, "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            ),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
            Self::Tmpfs | Self::Folder => return None,
        };
        let mut command = Command::new(installed::program(program));
        command.args(arguments);
        Some(command)
    }
}

impl Target {
    /// Its root.
    pub(crate) fn root(&self) -> &Path {
        &self.mount
    }

    /// Lets nothing be written to it any more, where it is mounted.
    pub(crate) fn make_read_only(&self) -> Result<(), ToolsError> {
        match self.mounted {
            true => run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.mount)).map(drop),
            false => Ok(()),
        }
    }

    /// Unmounts and removes it.
    pub(crate) fn close(mut self) -> Result<(), ToolsError> {
        self.remove()
    }

    fn remove(&mut self) -> Result<(), ToolsError> {
        if self.mounted {
            self.unmount()?;
            self.mounted = false;
        }
        if self.mount.exists() {
            ketch_fixtures::tree::remove(&self.mount)?;
        }
        match self.image.take() {
            Some(image) => fs::remove_file(&image).map_err(io_error("remove the image", &image)),
            None => Ok(()),
        }
    }

    /// Unmounts it with all that was mounted below it.
    fn unmount(&self) -> Result<(), ToolsError> {
        let unmount = || run(Command::new("umount").arg("--recursive").arg(&self.mount)).map(drop);
        for _ in 1..UNMOUNT_TRIES {
            if unmount().is_ok() {
                return Ok(());
            }
            thread::sleep(UNMOUNT_PAUSE);
        }
        unmount()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // A failure here comes after another one, which is what gets reported.
        let _ = self.remove();
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
            Self::Folder => "folder",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_empty_and_gone_afterwards_with_what_was_put_in_it() {
        let scratch = tempfile::tempdir().unwrap();
        let target = FileSystem::Folder.make(scratch.path(), "target").unwrap();
        let root = target.root().to_owned();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        fs::write(root.join("file"), "").unwrap();
        drop(target);
        assert!(!root.exists());
    }

    #[test]
    fn a_place_that_is_taken_is_refused_and_kept() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("target")).unwrap();
        let error = FileSystem::Folder.make(scratch.path(), "target").unwrap_err();
        assert!(error.to_string().starts_with("cannot make the folder"), "{error}");
        assert!(scratch.path().join("target").exists());
    }
}
