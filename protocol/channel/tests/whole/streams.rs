//! Streams on a whole channel: TCP, TLS and the multiplexer together.

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_channel::ChannelSettings;

use crate::pair::pair;

#[tokio::test]
async fn content_crosses_a_channel_as_it_was() {
    let (dialed, mut accepted) = pair(&ChannelSettings::default(), &ChannelSettings::default()).await;
    let sent: Vec<u8> = (0..3_000_000_u32).map(|index| (index / 251) as u8).collect();
    let mut sending = dialed.open().await.unwrap();
    let send = async {
        sending.write_all(&sent).await.unwrap();
        sending.close().await.unwrap();
    };
    let receive = async {
        let mut received = Vec::new();
        accepted.accept().await.unwrap().read_to_end(&mut received).await.unwrap();
        received
    };
    let ((), received) = futures::join!(send, receive);
    assert!(received == sent);
}

#[tokio::test]
async fn a_connection_that_is_cut_ends_on_the_other_side() {
    let (dialed, accepted) = pair(&ChannelSettings::default(), &ChannelSettings::default()).await;
    dialed.cut().await;
    let error = accepted.ended().await.to_string();
    assert!(error.contains("connection"), "{error}");
}
