//! What one end of an observation asked for and got: its connections, its sockets, and what it took of the processor.

use std::{
    collections::BTreeSet,
    fs, io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

use ketch_channel::{Effective, Gauge, PathStatistics};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::{
    net::{
        AddressFamily, SocketType, getpeername, getsockname,
        sockopt::{
            socket_domain, socket_recv_buffer_size, socket_send_buffer_size, socket_type, tcp_congestion,
        },
    },
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};
use serde::{Deserialize, Serialize};

use super::{condition::Condition, error::Trouble, reading::Sent};

/// What one end says of an observation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Processor seconds in the program itself, from the request to the end of the acknowledgements.
    pub(crate) cpu_user_s: f64,
    /// Processor seconds in the kernel on its behalf.
    pub(crate) cpu_system_s: f64,
    /// In the order of their numbers.
    pub(crate) connections: Vec<ConnectionAccount>,
    /// Every internet socket that the process has open.
    pub(crate) sockets: Vec<SocketAccount>,
}

/// One data connection, read back before it was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConnectionAccount {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// The congestion controller that it has.
    pub(crate) controller: String,
    pub(crate) send_buffer: Buffer,
    pub(crate) receive_buffer: Buffer,
    pub(crate) gso: Option<bool>,
    pub(crate) gro: Option<bool>,
    pub(crate) rtt_ms: Option<f64>,
    pub(crate) window_bytes: Option<u64>,
    pub(crate) sent_packets: Option<u64>,
    pub(crate) lost_packets: Option<u64>,
}

/// The length of one buffer of a socket, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Buffer {
    pub(crate) asked: Option<u32>,
    pub(crate) effective: u32,
    pub(crate) limit: Option<u32>,
}

/// One socket of the process, read from its own descriptor, whatever port it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketAccount {
    /// `tcp` or `udp`.
    pub(crate) kind: String,
    pub(crate) local: Option<SocketAddr>,
    /// `None` of a socket that listens or is not connected.
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) send_buffer_bytes: usize,
    pub(crate) receive_buffer_bytes: usize,
    /// Of TCP.
    pub(crate) controller: Option<String>,
}

impl ConnectionAccount {
    /// Reads a living connection back. Another controller than the one that was asked for is a failure.
    pub(super) fn read(gauge: &Gauge, asked: Condition, sent: Sent) -> Result<Self, Trouble> {
        let (Condition { controller: asked, transport, .. }, Sent { files, bytes }) = (asked, sent);
        let lost = |error: io::Error| Trouble::lost("reading a connection back", &error);
        let Effective { controller, send_buffer, receive_buffer, gso, gro } =
            gauge.effective().map_err(lost)?;
        if controller != asked.name_of_channel(transport) {
            let text = format!("the controller {asked} was set, and a connection has {controller}");
            return Err(Trouble::Failed(text));
        }
        let PathStatistics { rtt, window_bytes, lost_packets, sent_packets, rate_bytes_per_s: _ } =
            gauge.statistics().map_err(lost)?;
        Ok(Self {
            files,
            bytes,
            controller: asked.name().into(),
            send_buffer: send_buffer.into(),
            receive_buffer: receive_buffer.into(),
            gso,
            gro,
            rtt_ms: rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            window_bytes,
            sent_packets,
            lost_packets,
        })
    }
}

impl From<ketch_channel::BufferSize> for Buffer {
    fn from(size: ketch_channel::BufferSize) -> Self {
        let ketch_channel::BufferSize { asked, effective, limit } = size;
        Self { asked, effective, limit }
    }
}

/// Processor seconds of this process so far, all its threads together.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessorTime {
    user_s: f64,
    system_s: f64,
}

impl ProcessorTime {
    pub(super) fn now() -> Self {
        let usage =
            getrusage(UsageWho::RUSAGE_SELF).expect("the arguments of getrusage are constant and right");
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Self { user_s: seconds(usage.user_time()), system_s: seconds(usage.system_time()) }
    }

    /// What this end took since then, and what it has.
    pub(super) fn account(self, connections: Vec<ConnectionAccount>) -> Result<Account, Trouble> {
        let Self { user_s, system_s } = Self::now();
        let sockets =
            own_sockets().map_err(|error| Trouble::failed("reading the own sockets back", &error))?;
        Ok(Account {
            cpu_user_s: user_s - self.user_s,
            cpu_system_s: system_s - self.system_s,
            connections,
            sockets,
        })
    }
}

/// Every internet socket of this process, each once.
fn own_sockets() -> io::Result<Vec<SocketAccount>> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let mut seen = BTreeSet::new();
    let mut sockets = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // A descriptor may be closed while the folder is read.
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let is_socket = link.as_os_str().as_encoded_bytes().starts_with(b"socket:");
        let Some(number) = number.filter(|_| is_socket && seen.insert(link)) else { continue };
        let Ok(socket) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        // Its number may belong to a file by now.
        sockets.extend(describe(&socket).ok().flatten());
    }
    sockets.sort_by_key(|socket: &SocketAccount| (socket.kind.clone(), socket.local, socket.remote));
    Ok(sockets)
}

/// `None` for a socket of another family.
fn describe(socket: &OwnedFd) -> io::Result<Option<SocketAccount>> {
    let socket = socket.as_fd();
    let family = socket_domain(socket)?;
    if family != AddressFamily::INET && family != AddressFamily::INET6 {
        return Ok(None);
    }
    let is_tcp = socket_type(socket)? == SocketType::STREAM;
    let remote = getpeername(socket).ok().flatten();
    Ok(Some(SocketAccount {
        kind: if is_tcp { "tcp" } else { "udp" }.into(),
        local: SocketAddr::try_from(getsockname(socket)?).ok(),
        remote: remote.and_then(|remote| SocketAddr::try_from(remote).ok()),
        send_buffer_bytes: socket_send_buffer_size(socket)?,
        receive_buffer_bytes: socket_recv_buffer_size(socket)?,
        controller: if is_tcp { tcp_congestion(socket).ok() } else { None },
    }))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_socket_with_an_ephemeral_port_is_found_with_its_buffers() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let twin = socket.try_clone().unwrap();
        let own = own_sockets().unwrap();
        let found: Vec<_> =
            own.iter().filter(|found| found.local == Some(socket.local_addr().unwrap())).collect();
        assert_eq!(found.len(), 1, "two descriptors are one socket: {found:?}");
        assert_eq!((found[0].kind.as_str(), found[0].remote), ("udp", None));
        assert_eq!(found[0].receive_buffer_bytes, socket_recv_buffer_size(&twin).unwrap());
    }
}
