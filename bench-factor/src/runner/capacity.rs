//! What a path carries while nothing else uses it: some plain TCP connections of our own fill it, and the host where it ends
//! counts what arrives.
//!
//! That host's IP counts, and not who reads the connections: they read in order, so that what a second brings them can be
//! more than has crossed the path in that second, as soon as one lost packet comes again.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};

use super::sampler::protocol_counters;
use crate::tools::{
    error::ToolsError,
    place::{Route, SERVER},
};

/// As the buffers of one connection may be shorter than a long path holds.
const CONNECTIONS: usize = 8;

/// Until then the connections find out what they may send: at a round trip of 141 ms and 1 Gbit/s, eight doublings, and as
/// many round trips again for what they lose by going too far.
const SETTLED: Duration = Duration::from_secs(3);

/// How long is counted, after that.
const COUNTED: Duration = Duration::from_secs(1);

/// What is under way afterwards has arrived by then, if no queue is longer than the paths of the study have it.
const DRAINED: Duration = Duration::from_millis(500);

/// How often a thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A path over which nobody can be reached by then carries nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Loss says nothing of capacity to this one. Where the system does not have it, its own controller does.
const CONTROLLER: &str = "bbr";

/// Bytes of one write or read.
const BLOCK_BYTES: usize = 64 * 1024;

/// Megabits a second of IP packets that arrive, from the source's host to the target's; `None` between ends on one host,
/// which are joined by no path. It leaves nothing under way.
pub(super) fn mbit_s(route: &Route) -> Result<Option<f64>, ToolsError> {
    if route.is_one_host() {
        return Ok(None);
    }
    let listener = route.listen_tcp(SERVER)?;
    let address = listener.local_addr().map_err(ToolsError::capacity)?;
    let dial = || route.dial_tcp(SERVER.other(), address, PATIENCE);
    let near = thread::scope(|scope| {
        let dialing: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(dial)).collect();
        let dialed = dialing
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        dialed.collect::<Result<Vec<_>, _>>()
    })?;
    let counters = route.packet_counters(SERVER.other())?;
    measure(&listener, near, &counters, SETTLED, COUNTED).map(Some).map_err(ToolsError::capacity)
}

/// The same over connections that were dialed to `listener` from the host of `counters`.
fn measure(
    listener: &TcpListener,
    near: Vec<TcpStream>,
    counters: &File,
    settled: Duration,
    counted: Duration,
) -> io::Result<f64> {
    let far = near.iter().map(|_| accept(listener)).collect::<io::Result<Vec<_>>>()?;
    let stop = AtomicBool::new(false);
    let rate = thread::scope(|scope| {
        for stream in far {
            scope.spawn(|| send(stream, &stop));
        }
        for stream in near {
            scope.spawn(|| receive(stream, &stop));
        }
        thread::sleep(settled);
        let rate = arriving_mbit_s(counters, counted);
        stop.store(true, Ordering::Relaxed);
        rate
    });
    thread::sleep(DRAINED);
    rate
}

/// What arrives at the host of `counters` from now on for a while.
fn arriving_mbit_s(counters: &File, counted: Duration) -> io::Result<f64> {
    let (before, began) = (arrived_bytes(counters)?, Instant::now());
    thread::sleep(counted);
    let (after, took) = (arrived_bytes(counters)?, began.elapsed());
    Ok(after.saturating_sub(before) as f64 * 8.0 / 1e6 / took.as_secs_f64())
}

/// Bytes of all IP packets that came to the host of `counters`, an open `/proc/net/netstat`.
fn arrived_bytes(counters: &File) -> io::Result<u64> {
    let counted = protocol_counters(counters)?.get("IpExt.InOctets").copied();
    counted.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the kernel does not count IP packets"))
}

/// The next connection, which is cut when it is dropped: one that ended well would leave the system what it learned of the
/// path, for those that are observed.
fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    // See the constant.
    let _ = set_tcp_congestion(&stream, CONTROLLER);
    stream.set_write_timeout(Some(LOOK))?;
    Ok(stream)
}

fn send(mut stream: TcpStream, stop: &AtomicBool) {
    let block = vec![0; BLOCK_BYTES];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            // What does not arrive is not counted.
            Err(_) => return,
        }
    }
}

/// Reads, so that more may come.
fn receive(mut stream: TcpStream, stop: &AtomicBool) {
    let mut block = vec![0; BLOCK_BYTES];
    if stream.set_read_timeout(Some(LOOK)).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut block) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            Err(_) => return,
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::tools::place::Keeping;

    fn own_counters() -> File {
        Route::here(Keeping::Loose).unwrap().packet_counters(SERVER).unwrap()
    }

    #[test]
    fn what_arrives_is_counted_and_no_connection_stays() {
        // given connections over loopback
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near: Vec<_> =
            (0..2).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let kept = near[0].try_clone().unwrap();
        // when they are measured
        let counted = Duration::from_millis(200);
        let rate = measure(&listener, near, &own_counters(), Duration::ZERO, counted).unwrap();
        // then something came, and the sender has cut them: one that ended well would still know its peer
        assert!(rate > 1.0, "{rate} Mbit/s");
        assert_eq!(kept.peer_addr().unwrap_err().kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn a_host_counts_what_comes_to_it() {
        // given an open table of counters
        let counters = own_counters();
        let before = arrived_bytes(&counters).unwrap();
        // when a datagram has come
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.send_to(&[0; 1_000], far.local_addr().unwrap()).unwrap();
        far.recv_from(&mut [0; 1_000]).unwrap();
        // then it is counted with its headers
        assert!(arrived_bytes(&counters).unwrap() >= before + 1_028);
    }
}
