//! [`Heard`]: when a peer was last heard.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How often it is looked whether a silence is over.
const LOOK: Duration = Duration::from_millis(50);

/// When something last came in on a connection. Clones share it.
#[derive(Debug, Clone)]
pub struct Heard {
    began: Instant,
    /// Since then, in milliseconds.
    last_ms: Arc<AtomicU64>,
}

impl Default for Heard {
    /// Something was heard just now.
    fn default() -> Self {
        Self { began: Instant::now(), last_ms: Arc::default() }
    }
}

impl Heard {
    /// Something came in.
    pub(crate) fn note(&self) {
        self.last_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    /// How long nothing has come in.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed)))
    }

    /// Resolves when nothing has come in for so long.
    pub async fn silent_for(&self, limit: Duration) {
        while let Some(left) = limit.checked_sub(self.silence()).filter(|left| !left.is_zero()) {
            sleep(left).await;
        }
    }

    /// Resolves when something comes in.
    pub async fn again(&self) {
        let before = self.last_ms.load(Ordering::Relaxed);
        while self.last_ms.load(Ordering::Relaxed) == before {
            sleep(LOOK).await;
        }
    }

    fn elapsed_ms(&self) -> u64 {
        // Half a billion years fit.
        self.began.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silence_begins_anew_with_each_word() {
        let heard = Heard::default();
        advance(Duration::from_secs(2)).await;
        assert_eq!(heard.silence(), Duration::from_secs(2));
        heard.clone().note();
        assert_eq!(heard.silence(), Duration::ZERO);
        let before = Instant::now();
        heard.silent_for(Duration::from_secs(3)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_word_learns_of_it() {
        let heard = Heard::default();
        let speaks = async {
            sleep(Duration::from_secs(7)).await;
            heard.note();
        };
        let before = Instant::now();
        tokio::join!(heard.again(), speaks);
        assert_eq!(before.elapsed().as_secs(), 7);
    }
}
