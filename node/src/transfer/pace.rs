//! [`Pace`]: how fast the content of a session may cross, where a limit was asked for.
//!
//! One bucket of tokens, a token a byte, for all data streams of a session: it fills at the rate, and a stream
//! that finds it empty waits. The side that sends writes no faster; the side that receives reads no faster, and
//! what the peer sends meanwhile waits in the windows of its streams.

use std::{
    io,
    num::NonZeroU64,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep};

use super::lock;

/// What may cross at once is what the rate gives in a tenth of a second: short enough that others on the path
/// do not notice, long enough that waiting costs nothing.
const BURSTS_PER_S: u64 = 10;

/// At least so much crosses at once, however low the rate: less would be spent on the headers of packets.
const LEAST_BURST_BYTES: u64 = 1_024;

/// Most bytes a second, for all data streams of a session together. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Option<Arc<Limit>>);

#[derive(Debug)]
struct Limit {
    began: Instant,
    bucket: Mutex<Bucket>,
}

impl Pace {
    /// No more than `rate` bytes a second; no limit without one.
    pub(super) fn new(rate: Option<NonZeroU64>) -> Self {
        let limit = |rate| Arc::new(Limit { began: Instant::now(), bucket: Mutex::new(Bucket::new(rate)) });
        Self(rate.map(limit))
    }

    /// A stream at this pace.
    pub(super) fn of<S>(&self, stream: S) -> Paced<S> {
        Paced { stream, pace: self.clone(), waiting: None }
    }
}

/// A stream whose bytes cross at a pace.
#[derive(Debug)]
pub(super) struct Paced<S> {
    stream: S,
    pace: Pace,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// Does something that takes at most `wanted` bytes with as many as may cross now, and counts what it took.
    fn poll_some(
        &mut self,
        context: &mut Context<'_>,
        wanted: usize,
        mut act: impl FnMut(&mut S, &mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Some(limit) = self.pace.0.clone() else { return act(&mut self.stream, context, wanted) };
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            let taken = lock(&limit.bucket).take(wanted as u64, limit.began.elapsed());
            match taken {
                Ok(granted) => {
                    let acted = act(&mut self.stream, context, granted as usize);
                    let used = match &acted {
                        Poll::Ready(Ok(used)) => *used as u64,
                        Poll::Ready(Err(_)) | Poll::Pending => 0,
                    };
                    lock(&limit.bucket).give_back(granted.saturating_sub(used));
                    return acted;
                }
                Err(wait) => self.waiting = Some(Box::pin(sleep(wait))),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let wanted = buffer.len();
        self.poll_some(context, wanted, |stream, context, granted| {
            Pin::new(stream).poll_read(context, &mut buffer[..granted])
        })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_some(context, bytes.len(), |stream, context, granted| {
            Pin::new(stream).poll_write(context, &bytes[..granted])
        })
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}

/// Tokens, each of a byte that may cross; `now` is the time since it was made.
#[derive(Debug)]
struct Bucket {
    rate: NonZeroU64,
    /// Tokens that it holds at the most.
    burst: u64,
    tokens: u64,
    /// Up to when it was filled.
    filled: Duration,
}

impl Bucket {
    fn new(rate: NonZeroU64) -> Self {
        let burst = (rate.get() / BURSTS_PER_S).max(LEAST_BURST_BYTES);
        Self { rate, burst, tokens: burst, filled: Duration::ZERO }
    }

    /// Takes at most `wanted` tokens; how long to wait where there are none. One is never waited for alone: it
    /// is better to wake up for a burst, or for all that is wanted.
    fn take(&mut self, wanted: u64, now: Duration) -> Result<u64, Duration> {
        self.fill(now);
        let least = wanted.min(self.burst);
        if self.tokens > 0 || least == 0 {
            let granted = wanted.min(self.tokens);
            self.tokens -= granted;
            return Ok(granted);
        }
        let nanoseconds = u128::from(least) * 1_000_000_000 / u128::from(self.rate.get()) + 1;
        Err(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// Takes back tokens that were not used.
    fn give_back(&mut self, unused: u64) {
        self.tokens = (self.tokens + unused).min(self.burst);
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled).as_nanos();
        let due = passed.saturating_mul(u128::from(self.rate.get())) / 1_000_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        self.tokens = self.tokens.saturating_add(due).min(self.burst);
        if due > 0 {
            // To the last whole token, so that asking often loses none.
            let nanoseconds = u128::from(due) * 1_000_000_000 / u128::from(self.rate.get());
            self.filled += Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{AsyncReadExt as _, AsyncWriteExt as _, io::Cursor};

    use super::*;

    const RATE: u64 = 100_000;

    fn rate(rate: u64) -> NonZeroU64 {
        NonZeroU64::new(rate).unwrap()
    }

    /// Bytes that cross within `time` for somebody who always wants `wanted`.
    fn crossed(bucket: &mut Bucket, wanted: u64, time: Duration) -> u64 {
        let (mut now, mut crossed) = (Duration::ZERO, 0);
        while now < time {
            match bucket.take(wanted, now) {
                Ok(granted) => crossed += granted,
                Err(wait) => now += wait,
            }
        }
        crossed
    }

    #[test]
    fn what_crosses_is_the_rate_and_one_burst() {
        for (bytes_per_s, wanted) in
            [(RATE, 1), (RATE, 777), (RATE, 1 << 20), (3, 1 << 20), (1 << 40, 1 << 40)]
        {
            let mut bucket = Bucket::new(rate(bytes_per_s));
            let burst = bucket.burst;
            let crossed = crossed(&mut bucket, wanted, Duration::from_secs(10));
            let due = 10 * bytes_per_s;
            assert!(
                (due..=due + 2 * burst).contains(&(crossed + burst)),
                "{bytes_per_s} {wanted}: {crossed}"
            );
        }
    }

    #[test]
    fn who_asks_often_gets_no_less() {
        let mut bucket = Bucket::new(rate(1_000));
        bucket.take(u64::MAX, Duration::ZERO).unwrap();
        // 300 times 100 us are 30 tokens.
        (1..=300).for_each(|step| bucket.fill(Duration::from_micros(100 * step)));
        assert_eq!(bucket.tokens, 30);
    }

    #[test]
    fn what_was_not_used_is_there_for_others_and_no_more_than_a_burst_ever_is() {
        let mut bucket = Bucket::new(rate(RATE));
        assert_eq!(bucket.take(u64::MAX, Duration::ZERO), Ok(10_000));
        assert!(bucket.take(1, Duration::ZERO).is_err());
        bucket.give_back(4_000);
        assert_eq!(bucket.take(5_000, Duration::ZERO), Ok(4_000));
        assert_eq!(bucket.take(u64::MAX, Duration::from_secs(u32::MAX.into())), Ok(10_000));
        assert_eq!(bucket.take(0, Duration::from_secs(u32::MAX.into())), Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn streams_share_the_rate_whichever_way_they_carry() {
        let pace = Pace::new(Some(rate(RATE)));
        let began = Instant::now();
        let write = async {
            pace.of(Cursor::new(vec![0; 200_000])).write_all(&[1; 200_000]).await.unwrap();
        };
        let read = async {
            let mut read = Vec::new();
            pace.of(Cursor::new(vec![1; 300_000])).read_to_end(&mut read).await.unwrap();
            assert_eq!(read, [1; 300_000]);
        };
        tokio::join!(write, read);
        // 500,000 bytes, of which the first burst of 10,000 waits for nothing.
        let elapsed = began.elapsed().as_secs_f64();
        assert!((4.85..5.5).contains(&elapsed), "{elapsed}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_waits() {
        let began = Instant::now();
        let mut read = Vec::new();
        Pace::default().of(Cursor::new(vec![1; 1 << 20])).read_to_end(&mut read).await.unwrap();
        assert_eq!((read.len(), began.elapsed()), (1 << 20, Duration::ZERO));
    }
}
