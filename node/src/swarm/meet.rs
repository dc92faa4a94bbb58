//! Connections to relays: one to each is enough, whatever it is for.

use std::time::Duration;

use futures::{FutureExt, StreamExt, future::select_ok, stream::FuturesUnordered};
use libp2p::{Multiaddr, PeerId};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    address::split_peer,
    connection::Connection,
    dial::{Attempt, AttemptError, DialError},
    limits::DIAL_ADDRESSES,
    resolve::resolve,
    task::Command,
};

/// The connection to a relay, the one there is or a new one at whichever address answers first.
pub(super) async fn meet(
    commands: &mpsc::Sender<Command>,
    relay: PeerId,
    addresses: &[Multiaddr],
    limit: Duration,
) -> Result<Connection, DialError> {
    if addresses.is_empty() {
        return Err(DialError::NoAddress(relay));
    }
    let attempt = |address: &Multiaddr| {
        let address = address.clone();
        async move {
            let met = timeout(limit, meet_at(commands, relay, &address)).await;
            let cause = match met {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(cause)) => cause,
                Err(_) => AttemptError::Silence(limit),
            };
            Err(Attempt { address, cause })
        }
    };
    let mut running = addresses.iter().take(DIAL_ADDRESSES).map(attempt).collect::<FuturesUnordered<_>>();
    let mut attempts = Vec::new();
    while let Some(finished) = running.next().await {
        match finished {
            Ok(connection) => return Ok(connection),
            Err(failed) => attempts.push(failed),
        }
    }
    Err(DialError::Unreachable { peer: relay, attempts })
}

/// The connection to a relay, the one there is or a new one at this address.
pub(super) async fn meet_at(
    commands: &mpsc::Sender<Command>,
    relay: PeerId,
    address: &Multiaddr,
) -> Result<Connection, AttemptError> {
    let bare = match split_peer(address.clone()) {
        Some((named, bare)) if named == relay => bare,
        Some((named, _)) => return Err(AttemptError::OtherPeer(named)),
        None => address.clone(),
    };
    let resolved = resolve(bare, relay).await?;
    let (met, _) =
        select_ok(resolved.into_iter().map(|address| ask(commands, relay, address).boxed())).await?;
    Ok(met)
}

async fn ask(
    commands: &mpsc::Sender<Command>,
    relay: PeerId,
    address: Multiaddr,
) -> Result<Connection, AttemptError> {
    let (reply, met) = oneshot::channel();
    let command = Command::Meet { relay, address, reply };
    commands.send(command).await.map_err(|_| AttemptError::Stopped)?;
    met.await.map_err(|_| AttemptError::Stopped)?
}
