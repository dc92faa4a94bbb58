//! Many streams on one ordered connection, by the `yamux` crate.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use futures::{AsyncRead, AsyncWrite};
use libp2p_core::muxing::{StreamMuxer, StreamMuxerEvent};
use yamux::{Config, Connection, ConnectionError, Mode, Stream};

use crate::settings::TcpFlow;

/// The name by which it is agreed on.
pub(crate) const PROTOCOL: &str = "/yamux/1.0.0";

/// What yamux promises every stream that there may be.
const FIRST_WINDOW_BYTES: usize = 256 * 1024;

/// Who dialed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    Dialer,
    Listener,
}

/// A multiplexed connection over `C`.
pub(crate) struct Multiplexer<C> {
    state: State<C>,
    /// Opened by the other side and not taken. The library bounds how many streams there are.
    arrived: VecDeque<Stream>,
    acceptor: Option<Waker>,
}

enum State<C> {
    /// Its bounds are not set yet.
    New(C, Role),
    Open(Box<Connection<C>>),
    /// Only while the bounds are set.
    Changing,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Multiplexer<C> {
    pub(crate) fn new(io: C, role: Role) -> Self {
        Self { state: State::New(io, role), arrived: VecDeque::new(), acceptor: None }
    }

    /// Sets the bounds, without which it does not begin.
    pub(crate) fn allowing(mut self, flow: TcpFlow) -> Self {
        self.state = match std::mem::replace(&mut self.state, State::Changing) {
            State::New(io, role) => {
                let mode = match role {
                    Role::Dialer => Mode::Client,
                    Role::Listener => Mode::Server,
                };
                State::Open(Box::new(Connection::new(io, config(flow), mode)))
            }
            other @ (State::Open(_) | State::Changing) => other,
        };
        self
    }

    fn connection(&mut self) -> io::Result<&mut Connection<C>> {
        match &mut self.state {
            State::Open(connection) => Ok(connection),
            State::New(..) | State::Changing => {
                Err(io::Error::other("the bounds of a connection are not set"))
            }
        }
    }

    fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        match self.connection()?.poll_next_inbound(context) {
            Poll::Ready(Some(stream)) => Poll::Ready(stream.map_err(failed)),
            Poll::Ready(None) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The window is lifted first, as the library checks it against the number of streams at every step.
fn config(flow: TcpFlow) -> Config {
    let promised = flow.streams * FIRST_WINDOW_BYTES;
    let windows = usize::try_from(flow.windows_bytes).unwrap_or(usize::MAX);
    let mut config = Config::default();
    config.set_max_connection_receive_window(None);
    config.set_max_num_streams(flow.streams);
    config.set_max_connection_receive_window(Some(windows.max(promised)));
    config
}

fn failed(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::Io(error) => error,
        ConnectionError::Closed => io::ErrorKind::UnexpectedEof.into(),
        other => io::Error::other(other),
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin + 'static> StreamMuxer for Multiplexer<C> {
    type Substream = Stream;
    type Error = io::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        if let Some(stream) = self.arrived.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        let arrived = self.poll_arrived(context);
        if arrived.is_pending() {
            self.acceptor = Some(context.waker().clone());
        }
        arrived
    }

    fn poll_outbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        self.connection()?.poll_new_outbound(context).map_err(failed)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection()?.poll_close(context).map_err(failed)
    }

    /// Drives the connection; what arrives meanwhile waits to be taken.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        while let Poll::Ready(stream) = self.poll_arrived(context)? {
            self.arrived.push_back(stream);
            if let Some(acceptor) = self.acceptor.take() {
                acceptor.wake();
            }
        }
        Poll::Pending
    }
}
