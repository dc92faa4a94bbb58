//! Frames of the control stream: a u32 length in network byte order, then that many bytes of message.

use bytes::{Buf as _, BytesMut};
use prost::Message as _;

use super::{Message, MessageError, wire};
use crate::limits::MESSAGE_BYTES;

const LENGTH_BYTES: usize = 4;

/// The frame of a message. Messages made of batches within their limits always fit.
pub fn encode(message: &Message) -> Vec<u8> {
    let envelope = wire::Envelope::from(message);
    let length = envelope.encoded_len();
    debug_assert!(length <= MESSAGE_BYTES, "{} of {length} bytes", message.name());
    let mut frame = Vec::with_capacity(LENGTH_BYTES + length);
    frame.extend_from_slice(&(length as u32).to_be_bytes());
    envelope.encode_raw(&mut frame);
    frame
}

/// Cuts received bytes into messages.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until more bytes come. After an error the stream is beyond use.
    pub fn next_message(&mut self) -> Result<Option<Message>, MessageError> {
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MESSAGE_BYTES {
            return Err(MessageError::TooLong(length as u64));
        }
        if self.buffer.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        let body = self.buffer.split_to(length);
        let envelope =
            wire::Envelope::decode(body).map_err(|error| MessageError::Malformed(error.to_string()))?;
        Message::try_from(envelope).map(Some)
    }

    /// Whether bytes of an unfinished message are waiting.
    pub fn is_mid_message(&self) -> bool {
        !self.buffer.is_empty()
    }
}
