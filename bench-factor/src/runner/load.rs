//! Processors kept busy beside a transfer, where a condition asks for that.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// Threads that compute until this is dropped.
#[derive(Debug)]
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(threads: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || compute(&stop))
        };
        let threads = (0..threads).map(start).collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has computed nothing that anybody wants.
            let _ = thread.join();
        }
    }
}

fn compute(stop: &AtomicBool) {
    let mut value = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
