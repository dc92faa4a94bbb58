//! What peers ask of a rendezvous point: to keep their addresses under a name, and to show those under one.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::AsyncWriteExt;
use libp2p::{
    PeerId,
    core::{PeerRecord, SignedEnvelope},
    swarm::Stream,
};
use tokio::time::timeout;

use super::{
    services::{Caller, Shared},
    wire::{self, Discover, Discovered, Register, Registered, Rendezvous, RendezvousKind, RendezvousStatus},
};
use crate::{
    relay::{
        BoardError,
        board::{RECORD_BYTES, SHOWN},
    },
    swarm::limits::RELAY_REQUEST_TIMEOUT,
};

/// Longest request, in bytes: a record, a name and room.
const REQUEST_BYTES: usize = RECORD_BYTES + 1_024;

/// Serves one request.
pub(super) async fn serve(shared: Arc<Shared>, caller: Caller, mut stream: Stream) {
    let served = async {
        let request = wire::read::<Rendezvous>(&mut stream, REQUEST_BYTES).await?;
        let answer = answer(&shared, &caller, request)?;
        if let Some(answer) = answer {
            wire::write(&mut stream, &answer).await?;
        }
        stream.close().await
    };
    let served = timeout(RELAY_REQUEST_TIMEOUT, served).await;
    if let Err(error) = served.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        tracing::debug!(peer = %caller.peer, %error, "a request to the rendezvous point failed");
    }
}

/// The answer, if there is to be one.
fn answer(shared: &Shared, caller: &Caller, request: Rendezvous) -> io::Result<Option<Rendezvous>> {
    let Rendezvous { kind, register, unregister, discover, .. } = request;
    let missing = || wire::broken("a request without its content");
    match kind.map(RendezvousKind::try_from) {
        Some(Ok(RendezvousKind::Register)) => {
            let registered = registered(take(shared, caller, register.ok_or_else(missing)?));
            let kind = Some(RendezvousKind::Registered.into());
            Ok(Some(Rendezvous { kind, registered: Some(registered), ..Rendezvous::default() }))
        }
        Some(Ok(RendezvousKind::Unregister)) => {
            let name = unregister.and_then(|unregister| unregister.name).unwrap_or_default();
            shared.board().withdraw(&name, &caller.peer);
            Ok(None)
        }
        Some(Ok(RendezvousKind::Discover)) => {
            let discovered = show(shared, discover.ok_or_else(missing)?);
            let kind = Some(RendezvousKind::Discovered.into());
            Ok(Some(Rendezvous { kind, discovered: Some(discovered), ..Rendezvous::default() }))
        }
        Some(Ok(RendezvousKind::Registered | RendezvousKind::Discovered) | Err(_)) | None => {
            Err(wire::broken("what came is no request"))
        }
    }
}

/// Takes a record, if the peer itself has signed it.
fn take(shared: &Shared, caller: &Caller, register: Register) -> Result<Duration, RendezvousStatus> {
    let record = register.record.unwrap_or_default();
    match signer(&record) {
        None => return Err(RendezvousStatus::InvalidRecord),
        Some(signer) if signer != caller.peer => return Err(RendezvousStatus::NotAuthorized),
        Some(_) => {}
    }
    let (name, time) = (register.name.unwrap_or_default(), register.time_s.map(Duration::from_secs));
    let owner = (caller.peer, caller.origin);
    shared.board().post(&name, owner, record, time, Instant::now()).map_err(status)
}

/// Whoever signed a record of its own addresses, in the form of rust-libp2p or in that of the others.
fn signer(record: &[u8]) -> Option<PeerId> {
    let envelope = SignedEnvelope::from_protobuf_encoding(record).ok()?;
    let read = PeerRecord::from_signed_envelope(envelope.clone());
    let read = read.or_else(|_| PeerRecord::from_signed_envelope_interop(envelope));
    read.ok().map(|record| record.peer_id())
}

fn registered(taken: Result<Duration, RendezvousStatus>) -> Registered {
    let (status, time_s) = match taken {
        Ok(time) => (RendezvousStatus::Ok, Some(time.as_secs())),
        Err(status) => (status, None),
    };
    Registered { status: Some(status.into()), text: None, time_s }
}

/// The cookie is the number of the newest record that was seen, and the name. One of another name sees everything.
fn show(shared: &Shared, asked: Discover) -> Discovered {
    let name = asked.name.unwrap_or_default();
    let cookie = asked.cookie.as_deref().and_then(|cookie| cookie.split_first_chunk::<8>());
    let after =
        cookie.filter(|(_, named)| *named == name.as_bytes()).map(|(number, _)| u64::from_be_bytes(*number));
    let most =
        asked.most.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0).unwrap_or(SHOWN);
    let seen = shared.board().look(&name, after.unwrap_or_default(), most, Instant::now());
    let (found, number) = match seen {
        Ok(seen) => seen,
        Err(error) => return Discovered { status: Some(status(error).into()), ..Discovered::default() },
    };
    let shown = found.into_iter().map(|posted| Register {
        name: Some(name.clone()),
        record: Some(posted.record),
        time_s: Some(posted.left.as_secs()),
    });
    Discovered {
        found: shown.collect(),
        cookie: Some([&number.to_be_bytes()[..], name.as_bytes()].concat()),
        status: Some(RendezvousStatus::Ok.into()),
        text: None,
    }
}

fn status(error: BoardError) -> RendezvousStatus {
    match error {
        BoardError::Name => RendezvousStatus::InvalidName,
        BoardError::Record => RendezvousStatus::InvalidRecord,
        BoardError::Time => RendezvousStatus::InvalidTime,
        BoardError::Full => RendezvousStatus::Unavailable,
    }
}
