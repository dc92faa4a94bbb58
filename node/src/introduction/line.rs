//! Messages of an introduction on a stream, one after the other.

use std::io;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_protocol::introduction::{LENGTH_BYTES, Message, MessageError, Refusal, decode, encode, length};

use crate::swarm::Stream;

/// The stream of one introduction.
pub(super) struct Line(Stream);

/// Why a message could not be said or heard.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The connection or the stream broke, or the peer ended it.
    #[error("waiting for its {awaited}: {cause}")]
    Broken {
        /// What was awaited.
        awaited: &'static str,
        /// What came instead.
        cause: String,
    },
    /// The peer does not speak the protocol.
    #[error("it waits for nobody")]
    NotWaiting,
    /// Another message came.
    #[error("its {came} came where a {awaited} was due")]
    Order {
        /// What was awaited.
        awaited: &'static str,
        /// What came instead.
        came: &'static str,
    },
    /// The bytes are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer has ended it, and says why.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Line {
    pub(super) fn new(stream: Stream) -> Self {
        Self(stream)
    }

    pub(super) async fn say(&mut self, message: &Message) -> Result<(), LineError> {
        let said = async {
            self.0.write_all(&encode(message)).await?;
            self.0.flush().await
        };
        said.await.map_err(broken("attention"))
    }

    /// The next message, if it is the one that `pick` takes.
    pub(super) async fn hear<T>(
        &mut self,
        awaited: &'static str,
        pick: impl FnOnce(Message) -> Result<T, Message>,
    ) -> Result<T, LineError> {
        let mut number = [0; LENGTH_BYTES];
        self.0.read_exact(&mut number).await.map_err(broken(awaited))?;
        let mut body = vec![0; length(number)?];
        self.0.read_exact(&mut body).await.map_err(broken(awaited))?;
        match pick(decode(&body)?) {
            Ok(picked) => Ok(picked),
            Err(Message::Refuse(refusal)) => Err(refusal.into()),
            Err(other) => Err(LineError::Order { awaited, came: other.name() }),
        }
    }

    /// Says the last message and ends the stream.
    pub(super) async fn leave(mut self, message: &Message) -> Result<(), LineError> {
        self.say(message).await?;
        self.0.close().await.map_err(broken("end"))
    }
}

fn broken(awaited: &'static str) -> impl FnOnce(io::Error) -> LineError {
    move |error| {
        if error.kind() == io::ErrorKind::Unsupported {
            return LineError::NotWaiting;
        }
        let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
        let cause = if is_end { "it ended the stream".into() } else { error.to_string() };
        LineError::Broken { awaited, cause }
    }
}
