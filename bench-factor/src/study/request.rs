//! What is said on the one stream of a data connection that the target opens.
//!
//! | who | what |
//! |---|---|
//! | target | the request: 16 bytes that name the observation, 1 byte that numbers the connection |
//! | source | the end, behind all its content: files and bytes that it sent on this connection, two u64 |
//! | target | its completion: files that it closed and bytes that it wrote, two u64 |
//! | source | the acknowledgement: 1 byte, 1, and the end of the stream |
//!
//! Numbers are in network byte order.

use std::io;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p_core::muxing::SubstreamBox;

use super::{
    connection::{Arrivals, Opener},
    control::CellId,
    error::Trouble,
    reading::Sent,
};

const ACKNOWLEDGED: u8 = 1;

/// Target: asks for content on a connection.
pub(super) async fn request(opener: &Opener, cell: CellId, number: u8) -> io::Result<SubstreamBox> {
    let mut stream = opener.open().await?;
    stream.write_all(&[&cell[..], &[number]].concat()).await?;
    stream.flush().await?;
    Ok(stream)
}

/// Source: takes a request; gives the number of the connection.
pub(super) async fn accept(arrivals: &mut Arrivals, cell: CellId) -> Result<(SubstreamBox, u8), Trouble> {
    let stream_error = Trouble::stream("waiting for a request");
    let read = async {
        let mut stream = arrivals.next().await?;
        let mut request = [0; 17];
        stream.read_exact(&mut request).await?;
        Ok((stream, request))
    };
    let (stream, request) = read.await.map_err(stream_error)?;
    match request {
        [named @ .., number] if named == cell => Ok((stream, number)),
        _ => Err(Trouble::Failed("a connection belongs to another observation".into())),
    }
}

/// Either end: says how much it sent or took.
pub(super) async fn say(stream: &mut SubstreamBox, sent: Sent) -> Result<(), Trouble> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&sent.files.to_be_bytes());
    bytes[8..].copy_from_slice(&sent.bytes.to_be_bytes());
    let write = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    write.await.map_err(Trouble::stream("saying how much there was"))
}

/// Either end: hears how much the other sent or took.
pub(super) async fn hear(stream: &mut SubstreamBox) -> Result<Sent, Trouble> {
    let mut bytes = [0; 16];
    stream.read_exact(&mut bytes).await.map_err(Trouble::stream("waiting to hear how much there was"))?;
    let number = |half: &[u8]| half.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Sent { files: number(&bytes[..8]), bytes: number(&bytes[8..]) })
}

/// Source: acknowledges a completion.
pub(super) async fn acknowledge(stream: &mut SubstreamBox) -> Result<(), Trouble> {
    let write = async {
        stream.write_all(&[ACKNOWLEDGED]).await?;
        stream.close().await
    };
    write.await.map_err(Trouble::stream("acknowledging"))
}

/// Target: waits for the acknowledgement.
pub(super) async fn acknowledged(stream: &mut SubstreamBox) -> Result<(), Trouble> {
    let mut answer = Vec::new();
    // To the end, as to leave earlier would reset the stream while the source closes it.
    let read = stream.take(2).read_to_end(&mut answer).await;
    read.map_err(Trouble::stream("waiting for an acknowledgement"))?;
    match answer[..] {
        [ACKNOWLEDGED] => Ok(()),
        _ => Err(Trouble::Failed("a completion was answered, and not acknowledged".into())),
    }
}
