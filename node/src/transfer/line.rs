//! The control stream of a session.

use std::{io, time::Duration};

use futures::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
    io::{ReadHalf, WriteHalf},
};
use ketch_protocol::{
    io::{MessageReader, NoMessage},
    message::{Message, encode},
    session::{Ending, SessionError},
};
use tokio::time::timeout;

/// Bytes waiting beyond which the manifest pauses. What else is said is bounded by the entries announced.
const FULL_BYTES: usize = 256 * 1024;

/// How long the end of a session may wait for the other side to take the last words.
const LAST_WORDS: Duration = Duration::from_millis(800);

/// How long one may wait whose connection was lost: what follows it is more urgent.
const NO_WORDS: Duration = Duration::from_millis(50);

/// Reads and writes control messages. Writing never keeps anyone waiting, so two sides that speak at once
/// can't block each other.
#[derive(Debug)]
pub(super) struct Line<S> {
    reader: MessageReader<ReadHalf<S>>,
    writer: WriteHalf<S>,
    outbox: Outbox,
}

/// Messages that were said and that the stream has not taken.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    written: usize,
}

/// How a session leaves its control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// The other side knows that it is over, or has gone.
    AtOnce,
    /// The other side must still hear why.
    WhenHeard,
    /// The other side can't be told.
    Unheard,
}

impl Leave {
    /// How a session that ended with this error leaves.
    pub(super) fn of(error: &SessionError) -> Self {
        match error {
            SessionError::Lost { .. } => Self::Unheard,
            SessionError::Refused(_) => Self::AtOnce,
            SessionError::Stopped(_) | SessionError::Violation(_) | SessionError::Timeout { .. } => {
                Self::WhenHeard
            }
        }
    }

    /// How long each step of it may take.
    pub(super) fn limit(self) -> Duration {
        match self {
            Self::AtOnce | Self::WhenHeard => LAST_WORDS,
            Self::Unheard => NO_WORDS,
        }
    }
}

/// Whether the other side must still hear of an ending.
pub(super) fn leave(ending: &Ending) -> Leave {
    match ending {
        Ending::Complete(_) => Leave::AtOnce,
        Ending::Failed(error) => Leave::of(error),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    pub(super) fn new(stream: S) -> Self {
        let (reader, writer) = stream.split();
        Self { reader: MessageReader::new(reader), writer, outbox: Outbox::default() }
    }

    pub(super) fn say(&mut self, message: &Message) {
        self.outbox.bytes.extend_from_slice(&encode(message));
    }

    /// Whether more manifest should wait.
    pub(super) fn is_full(&self) -> bool {
        self.outbox.bytes.len() - self.outbox.written >= FULL_BYTES
    }

    /// The next message; sends what was said meanwhile. Dropped at any time, it loses nothing.
    pub(super) async fn next(&mut self) -> Result<Message, NoMessage> {
        loop {
            let speaking = !self.outbox.bytes.is_empty();
            tokio::select! {
                biased;
                message = self.reader.next() => return message,
                sent = self.outbox.drive(&mut self.writer), if speaking => {
                    sent.map_err(|error| NoMessage::Lost(error.to_string()))?;
                }
            }
        }
    }

    /// Sends what is left and ends this side of the stream, within a bounded time.
    pub(super) async fn leave(mut self, leave: Leave) {
        let last_words = async {
            self.outbox.drive(&mut self.writer).await?;
            self.writer.close().await?;
            if leave == Leave::WhenHeard {
                // A connection that is closed at once may lose what it carried last; the other side closes
                // when it has heard.
                while self.reader.next().await.is_ok() {}
            }
            io::Result::Ok(())
        };
        // The session has ended either way.
        let _ = timeout(leave.limit(), last_words).await;
    }
}

impl Outbox {
    /// Writes until everything has gone out. Dropped at any time, it goes on where it was.
    async fn drive(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while self.written < self.bytes.len() {
            match stream.write(&self.bytes[self.written..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => self.written += written,
            }
        }
        stream.flush().await?;
        self.bytes.clear();
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::compat::TokioAsyncReadCompatExt as _;

    use super::*;

    #[tokio::test]
    async fn two_sides_that_speak_at_once_do_not_block_each_other() {
        let (left, right) = tokio::io::duplex(64);
        let (left, right) = (Line::new(left.compat()), Line::new(right.compat()));
        let speak_and_hear = async |mut line: Line<_>| {
            for _ in 0..1000 {
                line.say(&Message::KeepAlive);
            }
            for _ in 0..1000 {
                line.next().await.unwrap();
            }
            // The other side may not have taken all of it yet.
            line.leave(Leave::AtOnce).await;
        };
        tokio::join!(speak_and_hear(left), speak_and_hear(right));
    }

    #[tokio::test]
    async fn last_words_are_heard_and_silence_ends_the_wait() {
        let (left, right) = tokio::io::duplex(64);
        let (mut left, mut right) = (Line::new(left.compat()), Line::new(right.compat()));
        left.say(&Message::Farewell);
        let heard = async {
            let farewell = right.next().await;
            let end = right.next().await;
            (farewell, end)
        };
        let ((), (farewell, end)) = tokio::join!(left.leave(Leave::AtOnce), heard);
        assert!(matches!((farewell, end), (Ok(Message::Farewell), Err(NoMessage::Lost(_)))));
        right.leave(Leave::WhenHeard).await;
    }
}
