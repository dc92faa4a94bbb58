//! A flow of the kernel's TCP.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ketch_channel::{Controller, PathStatistics};
use ketch_lab::{Path, Side};
use rustix::net::sockopt;

use crate::linux::Failure;

const BLOCK_BYTES: usize = 64 * 1024;

/// How often a side that waits looks whether the time is up.
const PATIENCE: Duration = Duration::from_millis(50);

/// Its packets are not counted: what a system call accepted says nothing of them.
pub(crate) fn run(
    path: &Path,
    controller: Controller,
    until: Instant,
    arrived: &AtomicU64,
) -> Result<PathStatistics, Failure> {
    let address = SocketAddr::new(path.address(Side::B), 0);
    let listener = path.enter(Side::B, || TcpListener::bind(address))??;
    let address = listener.local_addr()?;
    let sender = path.enter(Side::A, || TcpStream::connect(address))??;
    sockopt::set_tcp_congestion(&sender, controller.name())?;
    let (receiver, _) = listener.accept()?;
    sender.set_write_timeout(Some(PATIENCE))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(sender, until));
        receive(receiver, until, arrived)?;
        sending.join().map_err(|_| "the sender panicked")?
    })?;
    Ok(PathStatistics::default())
}

fn send(mut sender: TcpStream, until: Instant) -> Result<(), Failure> {
    let block = vec![7; BLOCK_BYTES];
    while Instant::now() < until {
        check(sender.write(&block))?;
    }
    Ok(())
}

fn receive(mut receiver: TcpStream, until: Instant, arrived: &AtomicU64) -> Result<(), Failure> {
    let mut block = vec![0; BLOCK_BYTES];
    while Instant::now() < until {
        arrived.fetch_add(check(receiver.read(&mut block))? as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Nothing moved where the time to wait was over.
fn check(moved: std::io::Result<usize>) -> Result<usize, Failure> {
    match moved {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
        Err(error) => Err(error.into()),
        Ok(bytes) => Ok(bytes),
    }
}
