//! What the kernel knows of a TCP connection's path, asked through sock_diag(7): `TCP_INFO` itself has no safe wrapper,
//! and this tells the same structure.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, getpeername, getsockname, netlink, recv,
    send, socket_with, sockopt::socket_cookie,
};

use crate::{limits::DIAGNOSIS_BYTES, settings::PathStatistics};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;

/// Length of `nlmsghdr`, of `inet_diag_msg` behind it, and of an attribute without its value.
const HEADER_BYTES: usize = 16;
const MESSAGE_BYTES: usize = 72;
const ATTRIBUTE_BYTES: usize = 4;

/// The attribute that holds `tcp_info`, and the bit that asks for it.
const INET_DIAG_INFO: u16 = 2;
const INFO_BIT: u8 = 1 << (INET_DIAG_INFO - 1);

const IPPROTO_TCP: u8 = 6;
const EVERY_STATE: u32 = u32::MAX;

/// What the kernel says of a connected TCP socket of the calling thread's network.
pub(crate) fn path_statistics(socket: impl AsFd) -> io::Result<PathStatistics> {
    let local = SocketAddr::try_from(getsockname(&socket)?)?;
    let remote = SocketAddr::try_from(getpeername(&socket)?.ok_or(io::ErrorKind::NotConnected)?)?;
    let request = request(local, remote, socket_cookie(&socket)?);
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &request, SendFlags::empty())?;
    let mut answer = [0; DIAGNOSIS_BYTES];
    let (_, bytes) = recv(&kernel, &mut answer[..], RecvFlags::empty())?;
    let answer = &answer[..bytes.min(DIAGNOSIS_BYTES)];
    info(answer).map(statistics)
}

/// A request for one socket: `nlmsghdr`, then `inet_diag_req_v2`.
fn request(local: SocketAddr, remote: SocketAddr, cookie: u64) -> Vec<u8> {
    let family: u8 = if local.is_ipv4() { 2 } else { 10 };
    let mut body = vec![family, IPPROTO_TCP, INFO_BIT, 0];
    body.extend(EVERY_STATE.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    body.extend(octets(local.ip()));
    body.extend(octets(remote.ip()));
    let zone = if let SocketAddr::V6(remote) = remote { remote.scope_id() } else { 0 };
    body.extend(zone.to_ne_bytes());
    // The lower half first, whatever the order of bytes.
    body.extend((cookie as u32).to_ne_bytes());
    body.extend(((cookie >> 32) as u32).to_ne_bytes());
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port: the only request of its socket needs neither.
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            octets
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// The `tcp_info` in an answer.
fn info(answer: &[u8]) -> io::Result<&[u8]> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    match u16_at(answer, 4) {
        Some(SOCK_DIAG_BY_FAMILY) => {}
        Some(NLMSG_ERROR) => {
            let number = u32_at(answer, HEADER_BYTES).ok_or_else(malformed)? as i32;
            return Err(io::Error::from_raw_os_error(-number));
        }
        Some(_) | None => return Err(malformed()),
    }
    let mut attributes = answer.get(HEADER_BYTES + MESSAGE_BYTES..).ok_or_else(malformed)?;
    while let (Some(bytes), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let bytes = usize::from(bytes);
        let value = attributes.get(ATTRIBUTE_BYTES..bytes).ok_or_else(malformed)?;
        if kind == INET_DIAG_INFO {
            return Ok(value);
        }
        attributes = attributes.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    Err(malformed())
}

/// Offsets are those of `struct tcp_info` in `linux/tcp.h`, to which kernels only append.
fn statistics(info: &[u8]) -> PathStatistics {
    let (segment_bytes, window_segments) = (u32_at(info, 16), u32_at(info, 80));
    let window_bytes = segment_bytes.zip(window_segments);
    PathStatistics {
        rtt: u32_at(info, 68).map(|micros| Duration::from_micros(micros.into())),
        window_bytes: window_bytes.map(|(bytes, count)| u64::from(bytes) * u64::from(count)),
        lost_packets: u32_at(info, 100).map(Into::into),
        sent_packets: u32_at(info, 156).map(Into::into),
        rate_bytes_per_s: info.get(160..168).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes),
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..offset + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[tokio::test]
    async fn the_kernel_tells_of_a_connection_in_either_family() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // given a connection over which something went
            let Ok(listener) = TcpListener::bind(address).await else { continue };
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let mut far = listener.accept().await.unwrap().0;
            near.write_all(b"x").await.unwrap();
            far.read_exact(&mut [0]).await.unwrap();
            // when the kernel is asked
            let statistics = path_statistics(&near).unwrap();
            // then it knows the path
            assert!(statistics.rtt > Some(Duration::ZERO), "{statistics:?}");
            assert!(statistics.window_bytes > Some(1_000), "{statistics:?}");
            assert_eq!(statistics.sent_packets, Some(1), "{statistics:?}");
            assert_eq!(statistics.lost_packets, Some(0), "{statistics:?}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_anywhere_is_no_answer() {
        let mut answer = vec![0; HEADER_BYTES + MESSAGE_BYTES];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer.extend([8_u16.to_ne_bytes(), INET_DIAG_INFO.to_ne_bytes()].concat());
        answer.extend([1, 2, 3, 4]);
        assert_eq!(info(&answer).unwrap(), [1, 2, 3, 4]);
        for length in 0..answer.len() {
            assert!(info(&answer[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_refusal_of_the_kernel_is_an_error() {
        let mut answer = vec![0; HEADER_BYTES];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer.extend((-1_i32).to_ne_bytes());
        assert_eq!(info(&answer).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn an_older_kernel_tells_less() {
        let statistics = statistics(&[0; 104]);
        assert_eq!(statistics.rtt, Some(Duration::ZERO));
        assert_eq!((statistics.sent_packets, statistics.rate_bytes_per_s), (None, None));
    }
}
