//! Directory handles kept open for the next file beside the last one, shared by threads and bounded.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};

/// Most handles kept. Files come in the order of the tree, so even a few serve nearly every file; several
/// threads work in different directories, and a deep tree climbs back up.
const KEPT: usize = 64;

/// Of the descriptors a process may open, the part that kept handles may take: the rest is for sockets and
/// for the files themselves.
const DESCRIPTOR_SHARE: u64 = 8;

/// How often and how long to wait for other threads to close files when no descriptor is free: 2 s together.
const ROOM_ATTEMPTS: usize = 100;
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// The most recently used directory handles by path.
#[derive(Debug)]
pub(super) struct Handles<T> {
    /// Latest first.
    kept: Mutex<Kept<T>>,
    limit: usize,
}

type Kept<T> = Vec<(Box<[u8]>, Arc<T>)>;

impl<T> Handles<T> {
    /// Keeps as many as this process can spare.
    pub(super) fn new() -> Self {
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let spared = usize::try_from(allowed / DESCRIPTOR_SHARE).unwrap_or(KEPT);
        Self { kept: Mutex::default(), limit: spared.clamp(1, KEPT) }
    }

    /// The handle of the directory at `path`; `open` is called when it is not kept.
    pub(super) fn directory(
        &self,
        path: &[u8],
        open: impl FnMut() -> Result<T, Errno>,
    ) -> Result<Arc<T>, Errno> {
        if let Some(handle) = self.find(path) {
            return Ok(handle);
        }
        let handle = Arc::new(self.with_room(open)?);
        let mut kept = self.lock();
        kept.truncate(self.limit - 1);
        kept.insert(0, (path.into(), Arc::clone(&handle)));
        Ok(handle)
    }

    /// Calls `attempt` again, without kept handles and after a wait, while the process or the system has no
    /// free descriptor: that is never the fault of the file. Not to be nested, or the waits multiply.
    pub(super) fn with_room<R>(&self, mut attempt: impl FnMut() -> Result<R, Errno>) -> Result<R, Errno> {
        for waited in 0..ROOM_ATTEMPTS {
            match attempt() {
                Err(Errno::MFILE | Errno::NFILE) => self.lock().clear(),
                done => return done,
            }
            if waited > 0 {
                thread::sleep(ROOM_WAIT);
            }
        }
        attempt()
    }

    fn find(&self, path: &[u8]) -> Option<Arc<T>> {
        let mut kept = self.lock();
        let index = kept.iter().position(|(held, _)| &**held == path)?;
        kept[..=index].rotate_right(1);
        Some(Arc::clone(&kept[0].1))
    }

    /// The list is whole between any two statements, so a thread that panicked left it usable.
    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_handle_is_opened_once() {
        let handles = Handles::new();
        let mut opened = 0;
        for _ in 0..3 {
            handles
                .directory(b"a", || {
                    opened += 1;
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(opened, 1);
    }

    #[test]
    fn kept_handles_are_bounded_and_the_latest_stay() {
        let handles = Handles::new();
        for index in 0..1_000_u32 {
            handles.directory(&index.to_le_bytes(), || Ok(index)).unwrap();
            handles.directory(b"used again and again", || Ok(0)).unwrap();
        }
        assert!(handles.lock().len() <= KEPT);
        assert!(handles.find(b"used again and again").is_some());
        assert!(handles.find(&0_u32.to_le_bytes()).is_none());
    }

    #[test]
    fn a_lack_of_descriptors_drops_kept_handles_and_is_tried_again() {
        let handles = Handles::new();
        handles.directory(b"a", || Ok(())).unwrap();
        let mut refusals = 1;
        let result = handles.with_room(|| {
            if refusals == 0 {
                return Ok(());
            }
            refusals -= 1;
            Err(Errno::MFILE)
        });
        assert_eq!(result, Ok(()));
        assert!(handles.find(b"a").is_none());
    }
}
