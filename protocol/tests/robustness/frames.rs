//! Frames that are cut, changed, or nothing of the kind.

use ketch_protocol::{
    limits::MESSAGE_BYTES,
    message::{Frames, Message, MessageError, encode},
};
use proptest::{collection::vec, prelude::*};

use crate::messages::message;

/// All messages of some bytes, or the error that ends them.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Message>, MessageError> {
    let mut frames = Frames::default();
    frames.push(bytes);
    let mut messages = Vec::new();
    while let Some(message) = frames.next_message()? {
        messages.push(message);
    }
    Ok(messages)
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_length_alone() {
    for length in [MESSAGE_BYTES as u32 + 1, u32::MAX] {
        assert_eq!(decode(&length.to_be_bytes()), Err(MessageError::TooLong(length.into())));
    }
    assert_eq!(decode(&(MESSAGE_BYTES as u32).to_be_bytes()), Ok(Vec::new()));
}

#[test]
fn a_frame_without_a_known_message_is_refused() {
    let unknown = [0, 0, 0, 3, (17 << 3 | 2) | 0x80, 1, 0];
    for frame in [&[0, 0, 0, 0][..], &unknown] {
        assert_eq!(decode(frame), Err(MessageError::Field("body")));
    }
}

#[test]
fn an_unknown_field_of_a_known_message_is_ignored() {
    // `accept` with a field 9 that no version has yet.
    assert_eq!(decode(&[0, 0, 0, 4, 4 << 3 | 2, 2, 9 << 3, 5]), Ok(vec![Message::Accept]));
}

proptest! {
    #[test]
    fn messages_survive_encoding_in_any_pieces(messages in vec(message(), 1..6), piece in 1usize..200) {
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        let mut frames = Frames::default();
        let mut decoded = Vec::new();
        for piece in bytes.chunks(piece) {
            frames.push(piece);
            while let Some(message) = frames.next_message().unwrap() {
                decoded.push(message);
            }
        }
        prop_assert_eq!(decoded, messages);
        prop_assert!(!frames.is_mid_message());
    }

    #[test]
    fn mutated_frames_never_panic(
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut frame = encode(&message);
        for (place, byte) in changes {
            // Behind the length, so that the mutation reaches the fields.
            let place = 4 + place.index(frame.len() - 4);
            frame[place] = byte;
        }
        let _ = decode(&frame);
        let _ = decode(&frame[..keep.index(frame.len())]);
    }

    #[test]
    fn random_frames_never_panic(body in vec(any::<u8>(), 0..300)) {
        let frame = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
        let _ = decode(&frame);
        let _ = decode(&body);
    }
}
