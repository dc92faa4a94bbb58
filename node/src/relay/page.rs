//! The one page that a relay shows over HTTP/1.1: its counts, at `/metrics`. It is for the machine that gathers them, not
//! for the public, so it speaks as little as that takes.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::limits::{PAGE_CONNECTIONS, PAGE_REQUEST_BYTES, PAGE_TIME};

/// Pause after the system refused a connection, for want of file handles most likely.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows what `counts` returns to whoever asks, until it is dropped.
pub async fn serve(listener: TcpListener, counts: impl Fn() -> String + Send + Sync + 'static) {
    let (counts, room) = (Arc::new(counts), Arc::new(Semaphore::new(PAGE_CONNECTIONS)));
    loop {
        // The semaphore is never closed; others wait in the listener's queue.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "a connection for the counts was refused");
                sleep(PAUSE).await;
                continue;
            }
        };
        let counts = counts.clone();
        tokio::spawn(async move {
            // Whoever says or takes nothing is dropped; there is nobody to tell.
            let _ = timeout(PAGE_TIME, show(socket, &*counts)).await;
            drop(place);
        });
    }
}

async fn show(mut socket: TcpStream, counts: &(impl Fn() -> String + Sync)) -> io::Result<()> {
    let mut request = Vec::new();
    while !is_whole(&request) && request.len() < PAGE_REQUEST_BYTES {
        if socket.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let (status, body) = match asked(&request) {
        Asked::Counts => ("200 OK", counts()),
        Asked::Other => ("404 Not Found", "the counts are at /metrics\n".into()),
        Asked::Nonsense => ("400 Bad Request", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body.as_bytes()).await?;
    socket.shutdown().await
}

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Counts,
    Other,
    Nonsense,
}

fn asked(request: &[u8]) -> Asked {
    if !is_whole(request) {
        return Asked::Nonsense;
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next(), words.next()) {
        (Some(b"GET"), Some(path), Some(b"HTTP/1.1" | b"HTTP/1.0")) => {
            let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
            if path == b"/metrics" { Asked::Counts } else { Asked::Other }
        }
        _ => Asked::Nonsense,
    }
}

/// Whether the head of a request has its end.
fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_at_one_path_and_only_to_be_got() {
        for (request, meant) in [
            ("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", Asked::Counts),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Asked::Counts),
            ("GET / HTTP/1.1\r\n\r\n", Asked::Other),
            ("POST /metrics HTTP/1.1\r\n\r\n", Asked::Nonsense),
            ("GET /metrics HTTP/1.1\r\n", Asked::Nonsense),
            ("GET /metrics\r\n\r\n", Asked::Nonsense),
            ("", Asked::Nonsense),
        ] {
            assert_eq!(asked(request.as_bytes()), meant, "{request:?}");
        }
    }

    #[tokio::test]
    async fn whoever_asks_is_told_and_whoever_says_nonsense_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, || "a 1\n".into()));
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 200 OK"),
            ("x".repeat(PAGE_REQUEST_BYTES), "HTTP/1.1 400"),
        ] {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(status), "{answer}");
            assert_eq!(answer.ends_with("\r\n\r\na 1\n"), status.contains("200"));
        }
        serving.abort();
    }
}
