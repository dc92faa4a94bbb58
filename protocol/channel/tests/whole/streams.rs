//! Streams on a whole channel: TCP, TLS and the multiplexer together.

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_channel::{ChannelSettings, TcpFlow};

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

#[tokio::test]
async fn more_streams_are_open_at_once_where_both_sides_allow_it() {
    // given two sides that allow more than connections do by themselves
    let streams = TcpFlow::default().streams + 200;
    let tcp_flow = TcpFlow { streams, unanswered_streams: streams, ..TcpFlow::default() };
    let allowing = ChannelSettings { tcp_flow, ..ChannelSettings::default() };
    let (dialed, mut accepted) = pair(&allowing, &allowing).await;
    // when so many are opened, none of which is closed
    let mut held = Vec::new();
    for _ in 0..streams {
        let mut stream = dialed.open().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        held.push(stream);
    }
    // then each of them arrives
    for _ in 0..streams {
        let mut stream = accepted.accept().await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        held.push(stream);
    }
}
