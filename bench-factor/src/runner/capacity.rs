//! What a path carries while nothing else uses it: bytes over some plain TCP connections of our own, counted where they
//! arrive.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};

use crate::tools::{
    error::ToolsError,
    place::{Route, SERVER},
};

/// As the buffers of one connection may be shorter than a long path holds.
const CONNECTIONS: usize = 8;

/// Until then the connections find out what they may send: at a round trip of 141 ms and 1 Gbit/s, eight doublings. What they
/// lose by going too far is sent again by then too, and what had waited behind it is read.
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

/// Megabits a second of content, from the source's host to the target's; `None` between ends on one host, which are joined
/// by no path. It leaves nothing under way.
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
    measure(&listener, near, SETTLED, COUNTED).map(Some).map_err(ToolsError::capacity)
}

/// The same over connections that were dialed to `listener`.
fn measure(
    listener: &TcpListener,
    near: Vec<TcpStream>,
    settled: Duration,
    counted: Duration,
) -> io::Result<f64> {
    let far = near.iter().map(|_| accept(listener)).collect::<io::Result<Vec<_>>>()?;
    let (arrived, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let rate = thread::scope(|scope| {
        for stream in far {
            scope.spawn(|| send(stream, &stop));
        }
        for stream in near {
            scope.spawn(|| receive(stream, &arrived, &stop));
        }
        thread::sleep(settled);
        let (before, began) = (arrived.load(Ordering::Relaxed), Instant::now());
        thread::sleep(counted);
        let (bytes, took) = (arrived.load(Ordering::Relaxed) - before, began.elapsed());
        stop.store(true, Ordering::Relaxed);
        bytes as f64 * 8.0 / 1e6 / took.as_secs_f64()
    });
    thread::sleep(DRAINED);
    Ok(rate)
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

fn receive(mut stream: TcpStream, arrived: &AtomicU64, stop: &AtomicBool) {
    let mut block = vec![0; BLOCK_BYTES];
    if stream.set_read_timeout(Some(LOOK)).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut block) {
            Ok(0) => return,
            Ok(bytes) => {
                arrived.fetch_add(bytes as u64, Ordering::Relaxed);
            }
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
    use super::*;

    #[test]
    fn what_arrives_is_counted_and_no_connection_stays() {
        // given connections over loopback
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near: Vec<_> =
            (0..2).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
        let kept = near[0].try_clone().unwrap();
        // when they are measured
        let rate = measure(&listener, near, Duration::ZERO, Duration::from_millis(200)).unwrap();
        // then something came, and the sender has cut them: one that ended well would still know its peer
        assert!(rate > 1.0, "{rate} Mbit/s");
        assert_eq!(kept.peer_addr().unwrap_err().kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn what_does_not_send_has_no_capacity() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rate = measure(&listener, vec![], Duration::ZERO, Duration::from_millis(10)).unwrap();
        assert_eq!(rate, 0.0);
    }
}
