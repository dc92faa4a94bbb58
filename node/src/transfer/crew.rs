//! [`Crew`]: the few threads that move the blocks of a session.
//!
//! What is to be done waits in a queue, and a thread empties that before it sleeps. So where many streams have a little
//! to do each, neither they nor the runtime wake a thread for each of it, and no more threads want a processor than
//! there are.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
    thread::available_parallelism,
};

use tokio::sync::oneshot;

use super::lock;

/// Threads of a session that read and write files at the same time. Each keeps a processor busy; at least two, so that
/// one goes on while the disk keeps the other. A stream whose content is early keeps its thread until the entry is planned:
/// were there one for each, a session could take all threads of the process.
pub(super) fn file_threads() -> usize {
    available_parallelism().map_or(2, usize::from).clamp(2, 4)
}

/// Shared by the data streams of a session. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Crew(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most_threads: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
}

type Job = Box<dyn FnOnce() + Send>;

impl Default for Crew {
    fn default() -> Self {
        Self::new(file_threads())
    }
}

impl Crew {
    fn new(most_threads: usize) -> Self {
        Self(Arc::new(Shared { most_threads, state: Mutex::default() }))
    }

    /// Runs work that may block, behind what was handed in before. A panic there goes on here.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = oneshot::channel();
        self.hand_in(Box::new(move || {
            // Whoever asked for it may have gone.
            let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
        }));
        match told.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            // Only a runtime that is shutting down drops work; nobody waits for it then.
            Err(_dropped) => std::future::pending().await,
        }
    }

    fn hand_in(&self, job: Job) {
        let mut state = lock(&self.0.state);
        state.waiting.push_back(job);
        if state.threads < self.0.most_threads {
            state.threads += 1;
            let shared = Arc::clone(&self.0);
            tokio::task::spawn_blocking(move || shared.work());
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, threads } = self;
        f.debug_struct("State").field("waiting", &waiting.len()).field("threads", threads).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn all_work_is_done_by_no_more_threads_than_there_may_be() {
        let crew = Crew::new(2);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = (0..100).map(|number| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            crew.run(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                number
            })
        });
        assert!(join_all(work).await.into_iter().eq(0..100));
        assert!(most.load(Ordering::SeqCst) <= 2);
        assert_eq!(lock(&crew.0.state).waiting.len(), 0);
    }

    #[tokio::test]
    async fn one_goes_on_while_another_waits() {
        let crew = Crew::new(2);
        let meeting = Arc::new(Barrier::new(2));
        let meet = |meeting: Arc<Barrier>| crew.run(move || meeting.wait().is_leader());
        let (first, second) = futures::join!(meet(Arc::clone(&meeting)), meet(meeting));
        assert_ne!(first, second);
    }

    #[tokio::test]
    async fn a_panic_goes_on_where_the_work_was_asked_for_and_ends_no_thread() {
        let crew = Crew::new(1);
        let asked = crew.clone();
        let panicked = tokio::spawn(async move { asked.run(|| panic!("as asked for")).await }).await;
        assert!(panicked.unwrap_err().is_panic());
        assert_eq!(crew.run(|| 7).await, 7);
    }
}
