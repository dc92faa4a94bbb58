//! What the two ends say on the control stream, which carries nothing timed.
//!
//! | who | what |
//! |---|---|
//! | both | a greeting: 16 bytes that name the protocol, 64 that name the build |
//! | target | [`Ask`] |
//! | source | [`Answer::Ready`], once it listens with what was asked for, or [`Answer::Refused`] |
//! | source | [`Answer::Sockets`] every two seconds while content is under way: some hundred bytes for each connection |
//! | source | [`Answer::Account`] behind the last acknowledgement, or [`Answer::Broken`] at any time |
//! | source | the manifest, as long as was announced |
//!
//! Then the target ends its half, and the source closes the connection once it can be asked again. A message is JSON behind its length in bytes, a u32 in network byte order.

use std::io;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p_core::muxing::SubstreamBox;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{
    account::Account,
    condition::Condition,
    error::{StudyError, Trouble, taken_over},
    limits::{MANIFEST_BYTES, MESSAGE_BYTES, REASON_TIMEOUT},
    manifest::Summary,
    sockets::SocketsSample,
};

/// Names the protocol of the greeting. It stays the same whatever follows, so that builds can refuse each other.
const MAGIC: [u8; 16] = *b"bench-factor\r\n\0\x01";

/// Length of the name of a build: SHA-256 in hex.
const BUILD_BYTES: usize = 64;

/// What data connections say to belong to an observation.
pub(super) type CellId = [u8; 16];

/// What the target asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) condition: Condition,
}

/// What the source says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    /// It listens for the data connections.
    Ready { cell: CellId, data: Summary },
    /// It does not do this.
    Refused(String),
    /// What its data connections do now.
    Sockets(SocketsSample),
    /// The observation has ended at the source.
    Broken(Break),
    /// Everything was sent and acknowledged.
    Account(Account),
}

/// Why an observation has ended at the source.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Break {
    /// A connection was lost.
    Aborted(String),
    /// The source could not do as it was asked, or the target did not.
    Failed(String),
}

impl From<Trouble> for Break {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Aborted(reason) => Self::Aborted(reason),
            Trouble::Failed(reason) => Self::Failed(reason),
        }
    }
}

impl From<Break> for Trouble {
    fn from(broken: Break) -> Self {
        let said = |reason: String| format!("the source says: {}", taken_over(&reason));
        match broken {
            Break::Aborted(reason) => Self::Aborted(said(reason)),
            Break::Failed(reason) => Self::Failed(said(reason)),
        }
    }
}

/// Says what this end was built from and hears the other's; fails unless they are the same.
pub(super) async fn greet(stream: &mut SubstreamBox, build: &str) -> Result<(), StudyError> {
    stream.write_all(&[&MAGIC[..], build.as_bytes()].concat()).await.map_err(StudyError::Control)?;
    stream.flush().await.map_err(StudyError::Control)?;
    let mut greeting = [0; MAGIC.len() + BUILD_BYTES];
    match stream.read_exact(&mut greeting).await {
        Ok(()) if greeting.starts_with(&MAGIC) => {}
        Ok(()) => return Err(StudyError::Foreign),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(StudyError::Foreign),
        Err(error) => return Err(StudyError::Control(error)),
    }
    let theirs = &greeting[MAGIC.len()..];
    if theirs == build.as_bytes() {
        return Ok(());
    }
    let theirs = taken_over(&String::from_utf8_lossy(theirs));
    part(stream).await;
    Err(StudyError::OtherBuild { ours: build.to_owned(), theirs })
}

/// Waits until both ends have heard each other's greeting, which is all that they say.
async fn part(stream: &mut SubstreamBox) {
    let both_closed = async {
        stream.close().await?;
        stream.read(&mut [0]).await
    };
    // Whoever does not wait as long hears less.
    let _ = timeout(REASON_TIMEOUT, both_closed).await;
}

/// Says one message.
pub(super) async fn send(stream: &mut SubstreamBox, message: &impl Serialize) -> Result<(), StudyError> {
    let text = serde_json::to_vec(message).map_err(|error| StudyError::Control(error.into()))?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= MESSAGE_BYTES);
    let length = length.ok_or(StudyError::Violation("a message is too long to be said"))?;
    stream.write_all(&length.to_be_bytes()).await.map_err(StudyError::Control)?;
    stream.write_all(&text).await.map_err(StudyError::Control)?;
    stream.flush().await.map_err(StudyError::Control)
}

/// Hears one message. What was read is lost when this is dropped before it is ready.
pub(super) async fn receive<T: DeserializeOwned>(stream: &mut SubstreamBox) -> Result<T, StudyError> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.map_err(StudyError::Control)?;
    let length = u32::from_be_bytes(length);
    if length > MESSAGE_BYTES {
        return Err(StudyError::Violation("a message is too long"));
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text).await.map_err(StudyError::Control)?;
    serde_json::from_slice(&text).map_err(|_| StudyError::Violation("a message makes no sense"))
}

/// Hears a manifest of so many bytes; it takes memory as it comes.
pub(super) async fn receive_manifest(stream: &mut SubstreamBox, bytes: u64) -> Result<String, StudyError> {
    if bytes > MANIFEST_BYTES {
        return Err(StudyError::LongManifest(bytes));
    }
    let mut text = Vec::new();
    // One byte more than there may be tells where it ends.
    stream.take(bytes + 1).read_to_end(&mut text).await.map_err(StudyError::Control)?;
    if text.len() as u64 != bytes {
        return Err(StudyError::Violation("the manifest has another length than announced"));
    }
    String::from_utf8(text).map_err(|_| StudyError::Violation("the manifest is no text"))
}
