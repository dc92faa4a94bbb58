//! Meeting places beyond this process: [`AtRelays`] and [`OnLan`].

use std::time::Duration;

use futures::future::{BoxFuture, ready};
use tokio::{task::JoinSet, time::sleep};

use super::meeting::{Found, Meeting, MeetingError, Present, unseen};
use crate::{
    swarm::{MeetingName, Node, RendezvousError},
    trust::code::Nameplate,
};

/// Time after which a relay that did not keep a number any longer is asked again.
const RENEW_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// The rendezvous points of the relays that a node knows. They hear the number of a code and who waits under it.
pub struct AtRelays(Node);

impl AtRelays {
    /// The relays of this node; nothing where it knows none.
    pub fn of(node: &Node) -> Option<Self> {
        node.knows_relays().then(|| Self(node.clone()))
    }
}

impl Meeting for AtRelays {
    fn announce(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Box<dyn Present>, MeetingError>> {
        Box::pin(async move {
            let (node, name) = (&self.0, name_of(nameplate));
            let time = node.register(&name).await.map_err(unavailable)?;
            // Only after the own registration: of two who come at once, each sees the other one or is seen.
            let found = node.discover(&name).await;
            let is_taken = found.iter().flatten().any(|found| found.peer != node.peer());
            if is_taken || found.is_err() {
                node.unregister(&name).await;
            }
            match found {
                Err(error) => Err(unavailable(error)),
                Ok(_) if is_taken => Err(MeetingError::Taken(nameplate)),
                Ok(_) => Ok(Box::new(Registered::keep(node.clone(), name, time)) as Box<dyn Present>),
            }
        })
    }

    fn find(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Vec<Found>, MeetingError>> {
        Box::pin(async move { self.0.discover(&name_of(nameplate)).await.map_err(unavailable) })
    }
}

/// Of a code, its number alone.
fn name_of(nameplate: Nameplate) -> MeetingName {
    MeetingName::new(format!("ketch/code/{nameplate}")).expect("eleven characters and some digits are a name")
}

fn unavailable(error: RendezvousError) -> MeetingError {
    MeetingError::Unavailable {
        place: "finding each other by the number of the code".into(),
        cause: error.to_string(),
    }
}

/// A registration that is renewed until it is dropped.
struct Registered {
    node: Node,
    name: MeetingName,
    renewing: JoinSet<()>,
}

impl Registered {
    fn keep(node: Node, name: MeetingName, time: Duration) -> Self {
        let mut renewing = JoinSet::new();
        renewing.spawn(renew(node.clone(), name.clone(), time));
        Self { node, name, renewing }
    }
}

impl Present for Registered {
    fn withdraw(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        self.renewing.abort_all();
        Box::pin(async move { self.node.unregister(&self.name).await })
    }
}

/// Registers anew when half of the time has passed.
async fn renew(node: Node, name: MeetingName, time: Duration) {
    let mut wait = time / 2;
    loop {
        sleep(wait).await;
        wait = match node.register(&name).await {
            Ok(time) => time / 2,
            Err(error) => {
                tracing::warn!(%error, "the code may not be found any longer; trying again");
                RENEW_AFTER_FAILURE
            }
        };
    }
}

/// The LAN, where every peer is somebody who may wait under a number: a guest asks each of them.
pub struct OnLan(Node);

impl OnLan {
    /// The LAN of this node; nothing where it takes no part in it.
    pub fn of(node: &Node) -> Option<Self> {
        node.is_on_lan().then(|| Self(node.clone()))
    }
}

impl Meeting for OnLan {
    /// A node on the LAN is found there anyway.
    fn announce(&self, _: Nameplate) -> BoxFuture<'_, Result<Box<dyn Present>, MeetingError>> {
        Box::pin(ready(Ok(unseen())))
    }

    fn find(&self, _: Nameplate) -> BoxFuture<'_, Result<Vec<Found>, MeetingError>> {
        Box::pin(async { Ok(self.0.neighbours().await) })
    }
}
