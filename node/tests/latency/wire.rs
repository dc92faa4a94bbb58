//! A stream in memory that takes its time: what is written can be read half a round trip later, all that has come by
//! then at once, and it holds no more than so much.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use futures::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

/// What one direction of a stream holds: the largest window of a data stream of `ketch-channel`.
const STREAM_BYTES: usize = 1024 * 1024;

/// One end of a stream.
pub(crate) struct End {
    incoming: Pipe,
    outgoing: Pipe,
    one_way: Duration,
    /// Until the next bytes can be read.
    arrival: Option<Pin<Box<Sleep>>>,
    closed: bool,
}

/// One direction.
type Pipe = Arc<Mutex<State>>;

#[derive(Default)]
struct State {
    under_way: VecDeque<(Instant, Word)>,
    held_bytes: usize,
    reader_left: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

enum Word {
    Bytes(Vec<u8>),
    Close,
    Reset,
}

impl End {
    /// Both ends of a new stream.
    pub(crate) fn pair(one_way: Duration) -> [Self; 2] {
        let (there, back) = (Pipe::default(), Pipe::default());
        let end = |incoming, outgoing| Self { incoming, outgoing, one_way, arrival: None, closed: false };
        [end(Arc::clone(&back), Arc::clone(&there)), end(there, back)]
    }

    fn say(&self, word: Word) {
        let mut state = lock(&self.outgoing);
        state.under_way.push_back((Instant::now() + self.one_way, word));
        wake(&mut state.reader);
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            if let Some(arrival) = &mut this.arrival {
                ready!(arrival.as_mut().poll(context));
                this.arrival = None;
            }
            let mut state = lock(&this.incoming);
            match state.under_way.front() {
                None => {
                    state.reader = Some(context.waker().clone());
                    return Poll::Pending;
                }
                Some((at, _)) if *at > Instant::now() => this.arrival = Some(Box::pin(sleep_until(*at))),
                Some(_) => return Poll::Ready(state.take(buffer)),
            }
        }
    }
}

impl State {
    /// Takes what has come by now, as far as it fits.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (now, mut taken) = (Instant::now(), 0);
        while taken < buffer.len()
            && let Some((at, word)) = self.under_way.front_mut()
            && *at <= now
        {
            match word {
                Word::Bytes(bytes) => {
                    let count = bytes.len().min(buffer.len() - taken);
                    buffer[taken..taken + count].copy_from_slice(&bytes[..count]);
                    bytes.drain(..count);
                    taken += count;
                    if bytes.is_empty() {
                        self.under_way.pop_front();
                    }
                }
                Word::Reset if taken == 0 => return Err(io::ErrorKind::ConnectionReset.into()),
                Word::Close | Word::Reset => break,
            }
        }
        self.held_bytes -= taken;
        wake(&mut self.writer);
        Ok(taken)
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.outgoing);
        if state.reader_left || self.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(STREAM_BYTES - state.held_bytes);
        if count == 0 && !bytes.is_empty() {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.held_bytes += count;
        drop(state);
        self.say(Word::Bytes(bytes[..count].to_vec()));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            self.closed = true;
            self.say(Word::Close);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.closed {
            self.say(Word::Reset);
        }
        let mut state = lock(&self.incoming);
        state.reader_left = true;
        wake(&mut state.writer);
    }
}

fn wake(waiting: &mut Option<Waker>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

fn lock(pipe: &Pipe) -> MutexGuard<'_, State> {
    pipe.lock().unwrap()
}
