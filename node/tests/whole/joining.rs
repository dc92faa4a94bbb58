//! Peers that a test plays, with several connections: which of them join a session, and what becomes of what one of
//! them was carrying when it is lost.

use std::collections::BTreeSet;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch::swarm::{Connection, Stream, TransportKind};
use ketch_protocol::{
    io::{DataForm, JOINED, LEFT, StreamKind, acknowledge, read_acknowledged},
    limits::RANGE_BYTES,
    manifest::EntryId,
    message::{Ask, Connections, Counts, Message, Offer, Run, SessionId, Settled, TargetView},
    record::segment::{Decoder, Item},
};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    peer::{Control, PlayedReceiver, PlayedSender},
    place::{BOTH, Place, noise, parse},
    process::PATIENCE,
    wire::{begin, block, file, manifest, manifest_end, whole},
};

fn connections(count: u32) -> Connections {
    count.try_into().unwrap()
}

/// Asks that a connection joins a session: the stream, once it was taken.
pub(crate) async fn join(connection: &Connection, session: SessionId) -> Option<Stream> {
    let mut stream = connection.open_stream().await.unwrap();
    let mut answer = [9];
    let asked = async {
        StreamKind::Join(session).write(&mut stream).await?;
        stream.flush().await?;
        stream.read_exact(&mut answer).await
    };
    let taken = timeout(PATIENCE, asked).await.unwrap().is_ok();
    taken.then(|| {
        assert_eq!(answer, [JOINED]);
        stream
    })
}

/// A session of a receiver that would have as many connections as there may be: what it was granted.
async fn session_of(receiver: &PlayedReceiver, target: TargetView) -> (Control, SessionId, Connections) {
    let mut control = receiver.control().await;
    let ask = Ask { connections: Connections::MOST, ..receiver.ask(target) };
    control.say(&Message::Ask(ask.clone())).await;
    let offer = |message| if let Message::Offer(offer) = message { Some(offer) } else { None };
    let granted = control.hear_until(offer).await.connections;
    (control, ask.session, granted)
}

#[tokio::test]
async fn a_connection_joins_a_session_of_its_own_peer_once_and_while_there_is_room() {
    for transport in BOTH {
        // given a sender that grants three connections
        let place = Place::new();
        let path = place.write("f", "content");
        let options = ["--connections", "3", "--uses", "2"];
        let (mut sender, ticket) = place.send(transport, &[&path], &options).await;
        let receiver = PlayedReceiver::dial(&parse(&ticket)).await;
        let (mut control, session, granted) = session_of(&receiver, TargetView::Occupied).await;
        assert_eq!(granted, connections(3));

        // then nothing joins but two more of the same peer, each once
        assert!(join(&receiver.connection, session).await.is_none(), "the first belongs to it already");
        let (second, third, fourth) =
            (receiver.another().await, receiver.another().await, receiver.another().await);
        assert!(join(&second, SessionId([8; 16])).await.is_none(), "there is no such session");
        let stranger = PlayedReceiver::dial(&parse(&ticket)).await;
        assert!(join(&stranger.connection, session).await.is_none(), "it is the session of another peer");
        let _second = join(&second, session).await.unwrap();
        assert!(join(&second, session).await.is_none(), "it has joined");
        let _third = join(&third, session).await.unwrap();
        assert!(join(&fourth, session).await.is_none(), "there are three");

        // and the place of one that is lost is free
        second.close().await;
        while join(&fourth, session).await.is_none() {}
        control.say(&Message::KeepAlive).await;
        drop(receiver);
        sender.event("session_ended").await;
    }
}

/// Else each time would begin data streams anew, and those of before would go on.
#[tokio::test]
async fn a_connection_that_left_its_session_does_not_join_it_again() {
    for transport in BOTH {
        let place = Place::new();
        let path = place.write("f", "content");
        let (_sender, ticket) = place.send(transport, &[&path], &[]).await;
        let receiver = PlayedReceiver::dial(&parse(&ticket)).await;
        let (mut control, session, _) = session_of(&receiver, TargetView::Occupied).await;

        // when it says that it leaves, then it has joined for the last time
        let second = receiver.another().await;
        let mut joined = join(&second, session).await.unwrap();
        joined.write_all(&[LEFT]).await.unwrap();
        joined.close().await.unwrap();
        // It is heard when the other side lets go of the stream.
        let _ = timeout(PATIENCE, joined.read(&mut [0])).await.unwrap();
        for _ in 0..3 {
            assert!(join(&second, session).await.is_none(), "{transport}");
        }

        // when it leaves without a word, then it is closed
        let third = receiver.another().await;
        drop(join(&third, session).await.unwrap());
        timeout(PATIENCE, third.closed()).await.unwrap();

        // and the session goes on
        let fourth = receiver.another().await;
        assert!(join(&fourth, session).await.is_some());
        control.say(&Message::KeepAlive).await;
    }
}

/// Reads a data stream to its end, and says which ranges came whole.
async fn read_ranges(mut stream: Stream, ranges: mpsc::UnboundedSender<u64>) {
    let (mut decoder, mut bytes, mut range) = (Decoder::default(), vec![0; 64 * 1024], 0);
    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
        let mut left = &bytes[..length];
        while let Some(item) = decoder.next_item(&mut left).unwrap() {
            if let Item::Begin { span, .. } = item {
                range = span.index();
            } else if let Item::End(_) = item {
                // The test may have seen enough.
                let _ = ranges.send(range);
            }
        }
    }
}

#[tokio::test]
async fn what_a_lost_connection_was_carrying_is_sent_on_another() {
    for transport in BOTH {
        // given a large file, and a receiver that leaves everything unread
        let count = 32;
        let place = Place::new();
        let path = place.write("large", noise((count * RANGE_BYTES) as usize, 3));
        let (sender, ticket) = place.send(transport, &[&path], &[]).await;
        let mut receiver = PlayedReceiver::dial(&parse(&ticket)).await;
        let (mut control, session, _) = session_of(&receiver, TargetView::Empty).await;
        let second = receiver.another().await;
        let _joined = join(&second, session).await.unwrap();

        // when content has come on a connection, and that is lost
        let (ranges, mut seen) = mpsc::unbounded_channel();
        let mut first = Vec::new();
        loop {
            let (connection, mut stream) = receiver.inbound.next().await.unwrap();
            let is_spare = connection.is_same(&second);
            let form = DataForm { compressed: false, acknowledged: is_spare };
            assert_eq!(StreamKind::read(&mut stream).await.unwrap(), StreamKind::Data(session, form));
            if is_spare {
                stream.read_exact(&mut [0; 1000]).await.unwrap();
                break;
            }
            first.push(stream);
        }
        second.close().await;
        first.into_iter().for_each(|stream| drop(tokio::spawn(read_ranges(stream, ranges.clone()))));
        let mut inbound = receiver.inbound;
        tokio::spawn(async move {
            while let Some((_, mut stream)) = inbound.next().await {
                if StreamKind::read(&mut stream).await.is_ok() {
                    tokio::spawn(read_ranges(stream, ranges.clone()));
                }
            }
        });

        // then all of it comes on the other
        let mut whole = BTreeSet::new();
        while whole.len() < count as usize {
            whole.insert(timeout(PATIENCE, seen.recv()).await.unwrap().unwrap());
        }
        let created = vec![Run { first: 0, count: 1 }];
        control.say(&Message::Settled(Settled { created, ..Settled::default() })).await;
        control.say(&Message::Done(Counts { listed: 1, sent: 1, ..Counts::default() })).await;
        control.hear_until(|message| matches!(message, Message::Farewell).then_some(())).await;
        let done = sender.end().await.expect(0).event("done");
        assert_eq!(done["connections"]["lost"], 1, "{done}");
    }
}

#[tokio::test]
async fn more_acknowledged_than_was_sent_ends_the_session() {
    let place = Place::new();
    let path = place.write("large", noise(20 << 20, 4));
    let (mut sender, ticket) = place.send(TransportKind::Tcp, &[&path], &["--uses", "2"]).await;
    let mut receiver = PlayedReceiver::dial(&parse(&ticket)).await;
    let (_control, session, _) = session_of(&receiver, TargetView::Empty).await;
    let second = receiver.another().await;
    let _joined = join(&second, session).await.unwrap();
    let mut kept = Vec::new();
    loop {
        let (connection, mut stream) = receiver.inbound.next().await.unwrap();
        if connection.is_same(&second) {
            acknowledge(&mut stream, 1_000).await.unwrap();
            kept.push(stream);
            break;
        }
        kept.push(stream);
    }
    let ended = sender.event("session_ended").await;
    assert!(ended["error"].as_str().unwrap().contains("acknowledged more than was sent"), "{ended}");
}

/// A receiver that was granted two connections: the second, which it made, with the stream that keeps it.
async fn met_on_two(place: &Place, transport: TransportKind) -> (PlayedSender, Connection, Stream) {
    let mut sender = PlayedSender::meet(place, transport, &["--connections", "2"]).await;
    assert_eq!(sender.ask.connections, connections(2));
    let offer =
        Offer { version: 1, estimate: None, connections: connections(2), congestion: None, disk: None };
    sender.control.say(&Message::Offer(offer)).await;
    sender.control.say_bytes(&manifest(0, &[file(b"a", 7), file(b"b", 6)])).await;
    sender.control.say_bytes(&manifest_end(2, 13)).await;
    let (second, mut joined) = timeout(PATIENCE, sender.next_stream()).await.unwrap();
    assert_eq!(StreamKind::read(&mut joined).await.unwrap(), StreamKind::Join(sender.ask.session));
    joined.write_all(&[JOINED]).await.unwrap();
    joined.flush().await.unwrap();
    (sender, second, joined)
}

async fn acknowledged_stream(connection: &Connection, session: SessionId, bytes: &[u8]) -> Stream {
    let mut stream = connection.open_stream().await.unwrap();
    let form = DataForm { compressed: false, acknowledged: true };
    StreamKind::Data(session, form).write(&mut stream).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

#[tokio::test]
async fn half_a_file_of_a_lost_connection_is_forgotten() {
    for transport in BOTH {
        // given a receiver that has one file, and half of another, from its second connection
        let place = Place::new();
        let (mut sender, second, _joined) = met_on_two(&place, transport).await;
        let session = sender.ask.session;
        let half = [begin(1, 0, 6), block(b"hal")].concat();
        let bytes = [whole(0, b"content"), half].concat();
        let mut stream = acknowledged_stream(&second, session, &bytes).await;
        assert_eq!(read_acknowledged(&mut stream).await.unwrap(), Some(1));

        // when that is lost, and both come again on the first
        second.close().await;
        let again = [whole(0, b"content"), whole(1, b"halves")].concat();
        // One that is dropped is reset, which would end the session.
        let mut data = vec![sender.data(&again).await];

        // then each is stored once
        let mut settled = BTreeSet::new();
        while settled.len() < 2 {
            let said = |message| {
                if let Message::Settled(said) = message {
                    return Some(Ok(said.created));
                }
                if let Message::Want(want) = message { Some(Err(want.content)) } else { None }
            };
            match sender.control.hear_until(said).await {
                Ok(runs) => settled.extend(runs.iter().flat_map(|run| run.numbers()).map(EntryId)),
                // It was still busy with the half when the whole came.
                Err(wanted) => {
                    assert_eq!(wanted, [Run { first: 1, count: 1 }]);
                    data.push(sender.data(&whole(1, b"halves")).await);
                }
            }
        }
        let ended = sender.farewell().await.expect(0);
        assert_eq!(ended.event("done")["connections"]["lost"], 1);
        assert_eq!(std::fs::read(place.target().join("a")).unwrap(), b"content");
        assert_eq!(std::fs::read(place.target().join("b")).unwrap(), b"halves");
    }
}
