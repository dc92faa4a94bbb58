//! The peak memory of a process and all its descendants, sampled while they run.
//!
//! `ru_maxrss` will not do: it begins with the resident set of whoever started the process, as the kernel
//! keeps the larger of the two over `exec`. `VmHWM` belongs to the program alone, but is gone once the
//! process has ended, so it is read again and again.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Between two samples. What a process takes less than this long before it ends can be missed.
const PAUSE: Duration = Duration::from_millis(10);

/// A running look-out over some processes.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    roots: Vec<u32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Watch {
    /// Watches the processes `roots` with all their descendants.
    pub(crate) fn start(roots: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (roots, stop) = (roots.clone(), Arc::clone(&stop));
            thread::spawn(move || sample(&roots, &stop))
        };
        Self { roots, stop, thread: Some(thread) }
    }

    /// Waits until no program that a root stands for has a child left, for `limit` at most.
    pub(crate) fn await_descendants(&self, limit: Duration) {
        let began = Instant::now();
        while self.roots.iter().any(|&root| programs(root).count() > 1) && began.elapsed() < limit {
            thread::sleep(PAUSE);
        }
    }

    /// Stops, and returns the sum over all processes ever seen of each one's largest resident set, in KiB.
    /// Pages that processes share are counted for each of them.
    pub(crate) fn stop_kib(&mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(0, |thread| thread.join().unwrap_or(0))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop_kib();
    }
}

fn sample(roots: &[u32], stop: &AtomicBool) -> u64 {
    let mut peaks_kib = BTreeMap::new();
    loop {
        for process in roots.iter().flat_map(|&root| programs(root)) {
            if let Some(now_kib) = peak_kib(process) {
                let peak_kib = peaks_kib.entry(process).or_insert(0);
                *peak_kib = now_kib.max(*peak_kib);
            }
        }
        if stop.load(Ordering::Relaxed) {
            return peaks_kib.values().sum();
        }
        thread::sleep(PAUSE);
    }
}

/// The members of a family that run another program than this one. Those that run this one have not become
/// theirs yet, or guard it; either way their memory says nothing about it.
fn programs(root: u32) -> impl Iterator<Item = u32> {
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    let own = program("self");
    family(root).into_iter().filter(move |process| program(&process.to_string()) != own)
}

/// A process and its descendants.
fn family(root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&process) = family.get(next) {
        family.extend(children(process));
        next += 1;
    }
    family
}

/// The children of every thread of a process; none where it is gone.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn peak_kib(process: u32) -> Option<u64> {
    peak_of_status_kib(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

/// A process that has ended and was not waited for has a status without this line.
fn peak_of_status_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_the_status() {
        let status = "Name:\tsh\nVmPeak:\t  9000 kB\nVmHWM:\t    1752 kB\nVmRSS:\t    1000 kB\n";
        assert_eq!(peak_of_status_kib(status), Some(1_752));
        assert_eq!(peak_of_status_kib("Name:\tsh\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn a_process_that_is_gone_has_no_children_and_no_peak() {
        // No kernel gives an id above 2^22.
        assert_eq!(family(u32::MAX), [u32::MAX]);
        assert_eq!(peak_kib(u32::MAX), None);
    }
}
