//! A peer that was admitted and wants all streams, threads or connections of a node: it gets its own share, and whoever
//! comes beside it is served.

use std::time::Duration;

use futures::{AsyncReadExt as _, AsyncWriteExt as _, future::join_all};
use ketch::{
    swarm::{Connection, Keypair, Stream, TransportKind::Tcp},
    trust::Ticket,
};
use ketch_protocol::{
    io::{DataForm, StreamKind},
    limits::{DATA_STREAMS, FILE_STREAMS, HELLO_TIMEOUT_S, VERSION},
    message::{Connections, Message, Policy, Propose, Secret, Selection, SessionId},
};

use tokio::time::timeout;

use crate::{
    hostile_sync::{come, place, still_serves},
    peer::{Control, PlayedReceiver, plain_offer},
    place::BOTH,
    serving::{Serving, write},
    wire::{begin, file, manifest, manifest_end, whole},
};

/// Data streams of one session that are taken at once.
const STREAMS: usize = DATA_STREAMS as usize + FILE_STREAMS;

/// What a node may take more than before, in KiB: buffers of streams, threads, an allocator's habits.
const SLACK_KIB: u64 = 40 * 1024;

/// A node without any right.
async fn stranger(serving: &Serving) -> PlayedReceiver {
    let address = serving.address.parse().unwrap();
    let ticket = Ticket::new(serving.peer.parse().unwrap(), vec![address], Secret::from_bytes([0; 16]), None);
    PlayedReceiver::dial_as(Keypair::generate_ed25519(), &ticket).await
}

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

/// Asks that a connection joins some session, and hears that it does not.
async fn join_in_vain(connection: &Connection, session: SessionId) {
    let mut stream = connection.open_stream().await.unwrap();
    StreamKind::Join(session).write(&mut stream).await.unwrap();
    // It may be reset before it is flushed.
    let _ = stream.flush().await;
    assert!(stream.read_exact(&mut [0]).await.is_err());
}

#[tokio::test]
async fn ten_thousand_connections_that_join_nothing_take_nothing() {
    for transport in BOTH {
        let serving = Serving::with(transport, "read,write").await;
        write(&serving.shared(), "kept", "x");
        let comer = come(&serving).await;
        let (_control, session) = writing(&comer, 1, "new").await;
        let before = serving.serve.peak_kib();
        let second = comer.another().await;
        for _ in 0..50 {
            join_all((0..200).map(|_| join_in_vain(&second, session))).await;
        }
        let grown = serving.serve.peak_kib() - before;
        assert!(grown < SLACK_KIB, "{transport}: {grown} KiB");
        still_serves(&serving).await;
    }
}

#[tokio::test]
async fn streams_of_one_byte_keep_nobody_out() {
    for transport in BOTH {
        // given strangers, each with all streams that it can open, on several connections
        let serving = Serving::with(transport, "read").await;
        write(&serving.shared(), "kept", "x");
        let before = serving.serve.peak_kib();
        let (mut streams, mut strangers) = (Vec::new(), Vec::new());
        for _ in 0..6 {
            let stranger = stranger(&serving).await;
            let connection = stranger.another().await;
            for connection in [&stranger.connection, &connection] {
                let opened = join_all((0..500).map(|_| async {
                    let mut stream = connection.open_stream().await.unwrap();
                    // The node may have too many of this peer already.
                    let _ = stream.write_all(&[2]).await;
                    let _ = stream.flush().await;
                    stream
                }));
                streams.push(opened.await);
            }
            strangers.push((stranger, connection));
        }

        // then another is served
        still_serves(&serving).await;
        let grown = serving.serve.peak_kib() - before;
        assert!(grown < 2 * SLACK_KIB, "{transport}: {grown} KiB");
    }
}

#[tokio::test]
async fn strangers_that_take_all_places_do_not_hold_up_a_session_that_runs() {
    for transport in BOTH {
        // given a session that writes, and strangers that have every other place and those in which one waits
        let serving = Serving::with(transport, "read,write").await;
        let comer = come(&serving).await;
        let (mut control, session) = writing(&comer, 1, "new").await;
        let (mut strangers, mut silent) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let stranger = stranger(&serving).await;
            for _ in 0..16 {
                silent.push(stranger.control().await);
            }
            strangers.push(stranger);
        }

        // when content comes, then it is stored, long before the strangers have had their time
        control.say_bytes(&manifest(0, &[file(b"a", 7)])).await;
        control.say_bytes(&manifest_end(1, 7)).await;
        let mut data = comer.stream().await;
        StreamKind::Data(session, DataForm::default()).write(&mut data).await.unwrap();
        data.write_all(&whole(0, b"content")).await.unwrap();
        data.flush().await.unwrap();
        let done = control.hear_until(|message| matches!(message, Message::Done(_)).then_some(()));
        timeout(Duration::from_secs(HELLO_TIMEOUT_S) / 2, done).await.unwrap();
    }
}

/// A node that takes no more streams, because others have filled it with silent ones, would keep what is sent on those.
#[tokio::test]
async fn what_strangers_send_is_not_kept_while_others_are_silent() {
    // given strangers that have as many streams as there is room for
    let serving = Serving::with(Tcp, "read").await;
    write(&serving.shared(), "kept", "x");
    let (mut strangers, mut silent) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let stranger = stranger(&serving).await;
        silent.extend(join_all((0..STREAMS).map(|_| stranger.stream())).await);
        strangers.push(stranger);
    }

    // when one more sends on as many as it can open
    let before = serving.serve.peak_kib();
    let sender = stranger(&serving).await;
    let full = join_all((0..500).map(|_| async {
        // It takes them, resets them or ends the connection.
        let mut stream = sender.connection.open_stream().await.ok()?;
        let _ = timeout(Duration::from_millis(500), stream.write_all(&[9; 256 * 1024])).await;
        Some(stream)
    }));
    let _full = full.await;

    // then that takes no memory, and another is served
    still_serves(&serving).await;
    let grown = serving.serve.peak_kib() - before;
    assert!(grown < SLACK_KIB, "{grown} KiB");
}
