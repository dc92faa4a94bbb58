//! The buffers that the system keeps for a socket.

use std::{fs, io, os::fd::AsFd};

use rustix::{io::Errno, net::sockopt};

use crate::settings::BufferSize;

/// Which of the two buffers of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// What was written and not acknowledged, or not sent.
    Send,
    /// What came and was not read.
    Receive,
}

/// Asks for both buffers, each as near to so many bytes as the system allows: a privileged process may go beyond its
/// limit, any other one gets what the limit leaves.
pub(crate) fn ask(socket: impl AsFd + Copy, bytes: u32) -> io::Result<()> {
    for way in [Way::Send, Way::Receive] {
        if force(socket, way, bytes).is_err() {
            match way {
                Way::Send => sockopt::set_socket_send_buffer_size(socket, bytes as usize)?,
                Way::Receive => sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?,
            }
        }
    }
    Ok(())
}

/// What a socket has. The most that the system gives it is that of `limit`.
pub(crate) fn read_back(
    socket: impl AsFd,
    way: Way,
    asked: Option<u32>,
    limit: Option<u32>,
) -> io::Result<BufferSize> {
    let effective = match way {
        Way::Send => sockopt::socket_send_buffer_size(socket)?,
        Way::Receive => sockopt::socket_recv_buffer_size(socket)?,
    };
    Ok(BufferSize { asked, effective: u32::try_from(effective).unwrap_or(u32::MAX), limit })
}

/// The most that Linux gives to whoever asks, see socket(7); `None` where that is not known.
pub(crate) fn limit_of_asked(way: Way) -> Option<u32> {
    last_number(match way {
        Way::Send => "/proc/sys/net/core/wmem_max",
        Way::Receive => "/proc/sys/net/core/rmem_max",
    })
}

/// The most to which Linux fits the buffers of a TCP socket that asked for nothing: the last of three numbers, see
/// tcp(7).
pub(crate) fn limit_of_fitted(way: Way) -> Option<u32> {
    last_number(match way {
        Way::Send => "/proc/sys/net/ipv4/tcp_wmem",
        Way::Receive => "/proc/sys/net/ipv4/tcp_rmem",
    })
}

fn last_number(file: &str) -> Option<u32> {
    fs::read_to_string(file).ok()?.split_whitespace().next_back()?.parse().ok()
}

#[cfg(target_os = "linux")]
fn force(socket: impl AsFd, way: Way, bytes: u32) -> Result<(), Errno> {
    match way {
        Way::Send => sockopt::set_socket_send_buffer_size_force(socket, bytes as usize),
        Way::Receive => sockopt::set_socket_recv_buffer_size_force(socket, bytes as usize),
    }
}

#[cfg(not(target_os = "linux"))]
fn force(_: impl AsFd, _: Way, _: u32) -> Result<(), Errno> {
    Err(Errno::PERM)
}
