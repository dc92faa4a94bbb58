//! What peers ask of a relay: a reservation, or a circuit to another peer.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, future::try_join};
use libp2p::{PeerId, swarm::Stream};
use tokio::time::timeout;

use super::{
    services::{Caller, Shared},
    wire::{self, Granted, Hop, HopKind, Limit, Peer, RELAY_BYTES, Status, Stop, StopKind},
};
use crate::{
    relay::{Allowance, CircuitNumber, Cut, Refusal},
    swarm::limits::{CARRIED_BYTES, RELAY_REQUEST_TIMEOUT, RELAY_STREAM_TIMEOUT},
};

/// Serves one request, and a circuit as long as it lasts.
pub(super) async fn serve(shared: Arc<Shared>, caller: Caller, mut stream: Stream) {
    let peer = caller.peer;
    let read = timeout(RELAY_REQUEST_TIMEOUT, wire::read::<Hop>(&mut stream, RELAY_BYTES)).await;
    let served = match read {
        Ok(Ok(request)) => answer(&shared, caller, request, stream).await,
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            refuse(&mut stream, Status::MalformedMessage).await
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a request to the relay failed");
    }
}

async fn answer(shared: &Shared, caller: Caller, request: Hop, mut stream: Stream) -> io::Result<()> {
    match HopKind::try_from(request.kind) {
        Ok(HopKind::Reserve) => reserve(shared, caller, stream).await,
        Ok(HopKind::Connect) => {
            let to = request.peer.and_then(|peer| PeerId::from_bytes(&peer.id).ok());
            match to {
                Some(to) => connect(shared, &caller, to, stream).await,
                None => refuse(&mut stream, Status::MalformedMessage).await,
            }
        }
        Ok(HopKind::Status) | Err(_) => refuse(&mut stream, Status::UnexpectedMessage).await,
    }
}

async fn reserve(shared: &Shared, caller: Caller, mut stream: Stream) -> io::Result<()> {
    let granted = shared.ledger().reserve(caller.peer, caller.origin, Instant::now());
    let (time, allowance) = match granted {
        Ok(granted) => granted,
        Err(refusal) => return refuse(&mut stream, status(refusal)).await,
    };
    shared.route(caller.peer, caller.link, time);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let granted = Granted {
        expire: (since_1970 + time).as_secs(),
        addresses: shared.addresses().iter().map(|address| address.to_vec()).collect(),
    };
    let answer = Hop { reservation: Some(granted), limit: limit(allowance), ..said(Status::Ok) };
    wire::write(&mut stream, &answer).await?;
    stream.close().await
}

async fn connect(shared: &Shared, caller: &Caller, to: PeerId, mut stream: Stream) -> io::Result<()> {
    let opened = shared.ledger().open(caller.peer, to, Instant::now());
    let (number, allowance) = match opened {
        Ok(opened) => opened,
        Err(refusal) => return refuse(&mut stream, status(refusal)).await,
    };
    let circuit = Circuit { shared, number };
    let Some(other) = offer(shared, caller.peer, to, allowance).await else {
        shared.ledger().refused(Refusal::NotTaken);
        return refuse(&mut stream, status(Refusal::NotTaken)).await;
    };
    shared.ledger().taken();
    wire::write(&mut stream, &Hop { limit: limit(allowance), ..said(Status::Ok) }).await?;
    tracing::debug!(from = %caller.peer, %to, "a circuit is open");
    circuit.carry(stream, other, allowance.time).await
}

/// Offers a circuit to its other end; `None` where that does not take it.
async fn offer(shared: &Shared, from: PeerId, to: PeerId, allowance: Allowance) -> Option<Stream> {
    let link = shared.route_to(&to)?;
    let mut stream = timeout(RELAY_STREAM_TIMEOUT, link.open()).await.ok()??;
    let peer = Peer { id: from.to_bytes(), addresses: Vec::new() };
    let offer =
        Stop { kind: StopKind::Connect.into(), peer: Some(peer), limit: limit(allowance), status: None };
    let asked = async {
        wire::write(&mut stream, &offer).await?;
        wire::read::<Stop>(&mut stream, RELAY_BYTES).await
    };
    let answer = timeout(RELAY_REQUEST_TIMEOUT, asked).await.ok()?.ok()?;
    let is_taken = answer.kind == i32::from(StopKind::Status) && answer.status == Some(Status::Ok.into());
    is_taken.then_some(stream)
}

/// An open circuit, closed when this is dropped.
struct Circuit<'a> {
    shared: &'a Shared,
    number: CircuitNumber,
}

impl Drop for Circuit<'_> {
    fn drop(&mut self) {
        self.shared.ledger().close(self.number);
    }
}

impl Circuit<'_> {
    /// Carries bytes both ways until both ends have said all, or it is cut: its streams are then dropped before they
    /// are closed, so that the peers see an error and no end.
    async fn carry(&self, one: Stream, other: Stream, time: Option<Duration>) -> io::Result<()> {
        let ((one_in, one_out), (other_in, other_out)) = (one.split(), other.split());
        let both = try_join(self.pump(one_in, other_out), self.pump(other_in, one_out));
        let carried = match time {
            Some(time) => timeout(time, both).await,
            None => Ok(both.await),
        };
        match carried {
            Ok(done) => done.map(|((), ())| ()),
            Err(_) => Err(told(self.shared.ledger().cut(Cut::Time))),
        }
    }

    async fn pump(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CARRIED_BYTES];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return to.close().await;
            }
            self.shared.ledger().carry(self.number, read as u64, Instant::now()).map_err(told)?;
            to.write_all(&buffer[..read]).await?;
            to.flush().await?;
        }
    }
}

fn told(cut: Cut) -> io::Error {
    io::Error::other(match cut {
        Cut::Bytes => "the circuit has carried as many bytes as it may",
        Cut::Time => "the circuit has lasted as long as it may",
        Cut::TrafficOfPeer => "as much was carried for one of the peers in this hour as is allowed",
        Cut::Traffic => "as much was carried in this hour as is allowed",
    })
}

async fn refuse(stream: &mut Stream, status: Status) -> io::Result<()> {
    wire::write(stream, &said(status)).await?;
    stream.close().await
}

fn said(status: Status) -> Hop {
    Hop { kind: HopKind::Status.into(), status: Some(status.into()), ..Hop::default() }
}

fn status(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Reservations
        | Refusal::ReservationsOfAddress
        | Refusal::Circuits
        | Refusal::CircuitsOfPeer
        | Refusal::TrafficOfPeer
        | Refusal::Traffic => Status::ResourceLimitExceeded,
        Refusal::NoReservation => Status::NoReservation,
        Refusal::NotTaken => Status::ConnectionFailed,
    }
}

/// Nothing at all where there is no limit.
fn limit(allowance: Allowance) -> Option<Limit> {
    let duration = allowance.time.map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX));
    (allowance != Allowance::default()).then_some(Limit { duration, data: allowance.bytes })
}
