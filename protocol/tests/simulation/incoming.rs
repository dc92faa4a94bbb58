//! One data stream as the receiver takes it: whole segments, none before its entry is announced.

use ketch_protocol::{
    hash::ContentHash,
    manifest::EntryId,
    problem::Cause,
    record::segment::{Decoder, Item, SegmentError, Span},
};

/// Bytes that say what the stream is for: its kind and the session.
const KIND_BYTES: usize = 17;

pub(crate) enum Arrived {
    Content { id: EntryId, span: Span, content: Vec<u8>, hash: ContentHash },
    Aborted { id: EntryId, cause: Cause },
    Digest { id: EntryId, span: Span, hash: ContentHash },
}

impl Arrived {
    pub(crate) fn id(&self) -> EntryId {
        match self {
            Self::Content { id, .. } | Self::Aborted { id, .. } | Self::Digest { id, .. } => *id,
        }
    }
}

#[derive(Default)]
pub(crate) struct Incoming {
    decoder: Decoder,
    kind_bytes: usize,
    waiting: Vec<u8>,
    begun: Option<(EntryId, Span, Vec<u8>)>,
}

impl Incoming {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let kind = (KIND_BYTES - self.kind_bytes).min(bytes.len());
        self.kind_bytes += kind;
        self.waiting.extend_from_slice(&bytes[kind..]);
    }

    /// The next segment, if all of it is there and its entry is one of the first `announced`.
    pub(crate) fn next(&mut self, announced: u64) -> Result<Option<Arrived>, SegmentError> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut input = &waiting[..];
        let arrived = self.take(&mut input, announced);
        self.waiting = input.to_vec();
        arrived
    }

    fn take(&mut self, input: &mut &[u8], announced: u64) -> Result<Option<Arrived>, SegmentError> {
        loop {
            if self.begun.as_ref().is_some_and(|(id, ..)| id.0 >= announced) {
                return Ok(None);
            }
            let Some(item) = self.decoder.next_item(input)? else { return Ok(None) };
            match (item, self.begun.take()) {
                (Item::Begin { id, span }, None) => self.begun = Some((id, span, Vec::new())),
                (Item::Data(data), Some((id, span, mut content))) => {
                    content.extend_from_slice(data);
                    self.begun = Some((id, span, content));
                }
                (Item::End(hash), Some((id, span, content))) => {
                    return Ok(Some(Arrived::Content { id, span, content, hash }));
                }
                (Item::Aborted { cause, .. }, Some((id, ..))) => {
                    return Ok(Some(Arrived::Aborted { id, cause }));
                }
                (Item::Digest { id, span, hash }, None) => {
                    return Ok(Some(Arrived::Digest { id, span, hash }));
                }
                (item, begun) => unreachable!("the decoder gave {item:?} behind {begun:?}"),
            }
        }
    }
}
