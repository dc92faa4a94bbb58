//! Compressed data streams between whole nodes.

use futures::AsyncReadExt as _;
use ketch::swarm::TransportKind::Tcp;
use ketch_protocol::{
    io::{DataForm, StreamKind},
    message::{Compression, Message, TargetView},
    record::{
        compressed::Decompressor,
        segment::{Decoder, Item},
    },
};
use tokio::time::timeout;

use crate::{
    peer::PlayedReceiver,
    place::{Place, parse},
    process::PATIENCE,
};

#[tokio::test]
async fn content_crosses_compressed_when_that_is_asked_for() {
    let place = Place::new();
    let text = "a line of a text\n".repeat(20_000);
    let path = place.write("text", &text);
    let (_sender, ticket) = place.send(Tcp, &[&path], &[]).await;
    let mut receiver = PlayedReceiver::dial(&parse(&ticket)).await;
    let mut control = receiver.control().await;
    let mut ask = receiver.ask(TargetView::Empty);
    ask.selection.compression = Compression::Zstd;
    let session = ask.session;
    control.say(&Message::Ask(ask)).await;

    let (_, mut stream) = timeout(PATIENCE, receiver.inbound.next()).await.unwrap().unwrap();
    assert_eq!(
        StreamKind::read(&mut stream).await.unwrap(),
        StreamKind::Data(session, DataForm { compressed: true, acknowledged: false })
    );
    let (mut decompressor, mut decoder) = (Decompressor::new().unwrap(), Decoder::default());
    let (mut content, mut crossed, mut ended) = (Vec::new(), 0, false);
    let mut buffer = vec![0; 4096];
    while !ended {
        let length = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(length > 0, "it ended after {} bytes of content", content.len());
        crossed += length;
        let mut input = &buffer[..length];
        while let Some(mut bytes) = decompressor.next_bytes(&mut input).unwrap() {
            while let Some(item) = decoder.next_item(&mut bytes).unwrap() {
                match item {
                    Item::Begin { .. } => {}
                    Item::Data(data) => content.extend_from_slice(data),
                    Item::End(_) => ended = true,
                    Item::Piece { .. }
                    | Item::Hole(_)
                    | Item::Recipe { .. }
                    | Item::List { .. }
                    | Item::Part(_)
                    | Item::ListEnd
                    | Item::Aborted { .. }
                    | Item::Digest { .. } => panic!("{item:?} came"),
                }
            }
        }
    }
    assert!(content == text.as_bytes());
    assert!(crossed * 20 < text.len(), "{crossed} bytes crossed");
}
