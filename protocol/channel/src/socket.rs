//! [`Socket`]: a connected TCP socket with the options it was asked for, and what can be read back of it.

use std::{
    fs, io,
    io::IoSlice,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{AsyncRead, AsyncWrite};
use libp2p_tcp::tokio::TcpStream;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_send_buffer_size, socket_recv_buffer_size,
    socket_send_buffer_size,
};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::{
    controller::{self, ControllerError},
    gauge::Gauge,
    settings::{BufferSize, ChannelSettings, Effective},
};

/// A connected TCP socket.
pub(crate) struct Socket {
    stream: tokio::net::TcpStream,
    /// For gauges, which hold it weakly: it must be closed with the stream, or the peer would hear of no end.
    descriptor: Arc<OwnedFd>,
    asked_buffer: Option<u32>,
}

/// Why a socket does not have what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionError {
    #[error(transparent)]
    Controller(#[from] ControllerError),
    #[error("setting up the socket: {0}")]
    Socket(#[from] io::Error),
}

impl Socket {
    /// Gives a connected socket what `settings` ask for. Nothing may have been written on it.
    pub(crate) fn new(stream: TcpStream, settings: &ChannelSettings) -> Result<Self, OptionError> {
        let TcpStream(stream) = stream;
        if let Some(controller) = settings.controller {
            controller::set(&stream, controller)?;
        }
        if let Some(bytes) = settings.tcp_buffer_bytes {
            set_socket_send_buffer_size(&stream, bytes as usize).map_err(io::Error::from)?;
            set_socket_recv_buffer_size(&stream, bytes as usize).map_err(io::Error::from)?;
        }
        let descriptor = Arc::new(stream.as_fd().try_clone_to_owned()?);
        Ok(Self { stream, descriptor, asked_buffer: settings.tcp_buffer_bytes })
    }

    /// What tells of this socket while it lives.
    pub(crate) fn gauge(&self) -> Gauge {
        Gauge::tcp(Arc::downgrade(&self.descriptor), self.asked_buffer)
    }
}

/// What a TCP socket has.
pub(crate) fn effective(socket: impl AsFd, asked_buffer: Option<u32>) -> io::Result<Effective> {
    let sent = socket_send_buffer_size(&socket)?;
    let received = socket_recv_buffer_size(&socket)?;
    let buffer = |effective: usize, way: Way| BufferSize {
        asked: asked_buffer,
        effective: u32::try_from(effective).unwrap_or(u32::MAX),
        limit: limit(way, asked_buffer.is_some()),
    };
    Ok(Effective {
        controller: controller::name(&socket)?,
        send_buffer: buffer(sent, Way::Send),
        receive_buffer: buffer(received, Way::Receive),
        gso: None,
        gro: None,
    })
}

#[derive(Clone, Copy)]
enum Way {
    Send,
    Receive,
}

/// The most that Linux gives a buffer: one number where it was asked for, the last of three where the system fits it to
/// the path. See socket(7) and tcp(7).
fn limit(way: Way, asked: bool) -> Option<u32> {
    let file = match (way, asked) {
        (Way::Send, true) => "/proc/sys/net/core/wmem_max",
        (Way::Receive, true) => "/proc/sys/net/core/rmem_max",
        (Way::Send, false) => "/proc/sys/net/ipv4/tcp_wmem",
        (Way::Receive, false) => "/proc/sys/net/ipv4/tcp_rmem",
    };
    fs::read_to_string(file).ok()?.split_whitespace().next_back()?.parse().ok()
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
        read.map_ok(|()| buffer.filled().len())
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
