//! [`Socket`]: a connected TCP socket with the options it was asked for, and what can be read back of it.

use std::{
    io,
    io::IoSlice,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{AsyncRead, AsyncWrite};
use libp2p_tcp::tokio::TcpStream;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::{
    buffer::{self, Way, limit_of_asked, limit_of_fitted, read_back},
    controller::{self, ControllerError},
    gauge::Gauge,
    settings::{ChannelSettings, Effective},
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
            buffer::ask(&stream, bytes)?;
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
pub(crate) fn effective(socket: impl AsFd + Copy, asked_buffer: Option<u32>) -> io::Result<Effective> {
    let buffer = |way| {
        let limit = if asked_buffer.is_some() { limit_of_asked(way) } else { limit_of_fitted(way) };
        read_back(socket, way, asked_buffer, limit)
    };
    Ok(Effective {
        controller: controller::name(socket)?,
        send_buffer: buffer(Way::Send)?,
        receive_buffer: buffer(Way::Receive)?,
        gso: None,
        gro: None,
    })
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
