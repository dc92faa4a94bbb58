//! What streams carry, and how they end.

use std::io;

use futures::{AsyncReadExt, AsyncWriteExt};

use crate::ends::{Stack, content, pair, receive, send};

const STACKS: [(Stack, Stack); 3] =
    [(Stack::Own, Stack::Own), (Stack::Own, Stack::Stock), (Stack::Stock, Stack::Own)];

#[tokio::test]
async fn streams_of_either_side_carry_both_directions() {
    let (asked, answered) = (content(3 * 1024 * 1024), content(1024 * 1024 + 1));
    for (dialer, listener) in STACKS {
        let (_dialer, _listener, mut connected) = pair(dialer, listener).await;
        for dialer_opens in [true, false] {
            let (opener, other) = match dialer_opens {
                true => (&mut connected.dialer, &mut connected.listener),
                false => (&mut connected.listener, &mut connected.dialer),
            };
            let near = async {
                let mut stream = opener.open().await;
                send(&mut stream, &asked).await;
                receive(&mut stream).await
            };
            let far = async {
                let mut stream = other.accept().await.unwrap();
                let question = receive(&mut stream).await;
                send(&mut stream, &answered).await;
                (question, stream)
            };
            let (answer, (question, _stream)) = futures::join!(near, far);
            assert!(question == asked && answer == answered, "{dialer:?} {listener:?} {dialer_opens}");
        }
    }
}

#[tokio::test]
async fn many_streams_live_at_once() {
    let (_dialer, _listener, mut connected) = pair(Stack::Own, Stack::Own).await;
    let mut opened = Vec::new();
    for number in 0..500u32 {
        let mut stream = connected.dialer.open().await;
        send(&mut stream, &number.to_le_bytes()).await;
        opened.push(stream);
    }
    for number in 0..500u32 {
        let mut stream = connected.listener.accept().await.unwrap();
        assert_eq!(receive(&mut stream).await, number.to_le_bytes());
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_unfinished_is_never_taken_for_whole() {
    for listener in [Stack::Own, Stack::Stock] {
        let (_dialer, _listener, mut connected) = pair(Stack::Own, listener).await;
        let mut near = connected.dialer.open().await;
        near.write_all(b"half of it").await.unwrap();
        let mut far = connected.listener.accept().await.unwrap();
        let mut first = [0; 10];
        far.read_exact(&mut first).await.unwrap();
        drop(near);
        let error = far.read(&mut first).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_after_its_end_arrives_whole() {
    let (_dialer, _listener, mut connected) = pair(Stack::Own, Stack::Own).await;
    let bytes = content(500_000);
    let mut near = connected.dialer.open().await;
    send(&mut near, &bytes).await;
    drop(near);
    let mut far = connected.listener.accept().await.unwrap();
    assert_eq!(receive(&mut far).await, bytes);
}

#[tokio::test]
async fn closing_twice_is_closing_once() {
    let (_dialer, _listener, mut connected) = pair(Stack::Own, Stack::Own).await;
    let mut near = connected.dialer.open().await;
    send(&mut near, b"all of it").await;
    near.close().await.unwrap();
    assert_eq!(near.write(b"more").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
}

#[tokio::test]
async fn a_writer_learns_that_nobody_reads_any_more() {
    let (_dialer, _listener, mut connected) = pair(Stack::Own, Stack::Own).await;
    let mut near = connected.dialer.open().await;
    near.write_all(b"some").await.unwrap();
    drop(connected.listener.accept().await.unwrap());
    let block = content(64 * 1024);
    let error = loop {
        if let Err(error) = near.write_all(&block).await {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test]
async fn once_closed_the_peer_has_been_told() {
    for (dialer, listener) in STACKS {
        let (_dialer, _listener, mut connected) = pair(dialer, listener).await;
        connected.dialer.close().await;
        let error = connected.listener.accept().await.unwrap_err();
        if listener == Stack::Own {
            assert_eq!(error.to_string(), "connection closed by the peer");
        }
    }
}
