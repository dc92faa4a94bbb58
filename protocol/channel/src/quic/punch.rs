//! Punching a hole: packets towards a peer that make the routers on our side let its own packets in.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use tokio::time::sleep;

use crate::limits::PUNCH_PAUSE;

/// Bytes of such a packet, as many as other implementations send. They mean nothing.
const PACKET_BYTES: usize = 64;

/// Sends packets to `remote` until it is dropped, or the system refuses them for good.
pub(super) async fn punch(socket: Arc<UdpSocket>, remote: SocketAddr) -> io::Error {
    loop {
        let packet: [u8; PACKET_BYTES] = std::array::from_fn(|_| fastrand::u8(..));
        match socket.send_to(&packet, remote) {
            Ok(_) => {}
            // The next one will do.
            Err(error) if passes(&error) => {}
            Err(error) => return error,
        }
        sleep(pause()).await;
    }
}

/// An answer of a router to an earlier packet, or a full buffer.
fn passes(error: &io::Error) -> bool {
    [
        io::ErrorKind::WouldBlock,
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::Interrupted,
    ]
    .contains(&error.kind())
}

/// Random, so that two routers which drop at the same beat do not stay in step.
fn pause() -> Duration {
    let most = PUNCH_PAUSE.as_millis() as u64;
    Duration::from_millis(fastrand::u64(most / 20..=most))
}
