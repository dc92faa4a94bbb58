//! A peer that was admitted and wants all streams, threads or connections of a node: it gets its own share, and whoever
//! comes beside it is served.

use futures::AsyncWriteExt as _;
use ketch::swarm::Stream;
use ketch_protocol::{
    io::{DataForm, StreamKind},
    limits::{DATA_STREAMS, FILE_STREAMS, VERSION},
    message::{Connections, Message, Policy, Propose, Selection, SessionId},
};

use crate::{
    hostile_sync::{come, place, still_serves},
    peer::{Control, PlayedReceiver, plain_offer},
    place::BOTH,
    serving::{Serving, write},
    wire::begin,
};

/// Data streams of one session that are taken at once.
const STREAMS: usize = DATA_STREAMS as usize + FILE_STREAMS;

/// A session in which the played peer writes below `target`.
async fn writing(comer: &PlayedReceiver, number: u8, target: &str) -> (Control, SessionId) {
    let session = SessionId([number; 16]);
    let mut control = comer.control().await;
    let (selection, policy, connections) = (Selection::default(), Policy::default(), Connections::ONE);
    let place = place(target);
    let propose =
        Propose { version: VERSION, session, place, selection, policy, connections, controller: None };
    control.say(&Message::Propose(propose)).await;
    control.hear_until(|message| matches!(message, Message::Ask(_)).then_some(())).await;
    control.say(&Message::Offer(plain_offer())).await;
    (control, session)
}

/// A data stream that brings the beginning of an entry which is never listed.
async fn early(comer: &PlayedReceiver, session: SessionId) -> Stream {
    let mut stream = comer.stream().await;
    StreamKind::Data(session, DataForm::default()).write(&mut stream).await.unwrap();
    stream.write_all(&begin(1_000, 0, 10)).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

/// Each stream waits for the entry; were that a thread of all, nobody else would get one.
#[tokio::test]
async fn content_of_entries_that_are_never_listed_holds_up_nobody_else() {
    for transport in BOTH {
        let serving = Serving::with(transport, "read,write").await;
        write(&serving.shared(), "kept", "x");
        let comer = come(&serving).await;
        let (mut controls, mut streams) = (Vec::new(), Vec::new());
        for number in 0..2 {
            let (control, session) = writing(&comer, number, &format!("new{number}")).await;
            controls.push(control);
            for _ in 0..STREAMS / 2 {
                streams.push(early(&comer, session).await);
            }
        }
        still_serves(&serving).await;
    }
}
