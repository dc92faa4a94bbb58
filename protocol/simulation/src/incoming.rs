//! One data stream as the receiver takes it: whole segments, none before its entry is announced.

use ketch_protocol::{
    chunk::Part,
    delta::Grain,
    hash::ContentHash,
    manifest::EntryId,
    message::Run,
    problem::Cause,
    record::segment::{Decoder, Item, SegmentError, Span},
};

/// Bytes that say what the stream is for: its kind and the session.
const KIND_BYTES: usize = 17;

pub(crate) struct Arrived {
    pub(crate) id: EntryId,
    pub(crate) what: What,
}

pub(crate) enum What {
    Content { span: Span, content: Vec<u8>, hash: ContentHash },
    Piece { bytes: Run, content: Vec<u8> },
    Recipe { grain: Grain, parts: Vec<Part>, hash: ContentHash },
    List { bytes: Run, chunks: Vec<Part> },
    Aborted(Cause),
    Digest { span: Span, hash: ContentHash },
}

#[derive(Debug, Default)]
pub(crate) struct Incoming {
    decoder: Decoder,
    kind_bytes: usize,
    waiting: Vec<u8>,
    begun: Option<(EntryId, Begun)>,
}

#[derive(Debug)]
enum Begun {
    Content(Span, Vec<u8>),
    Piece(Run, Vec<u8>),
    Recipe(Grain, Vec<Part>),
    List(Run, Vec<Part>),
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
            if self.begun.as_ref().is_some_and(|(id, _)| id.0 >= announced) {
                return Ok(None);
            }
            let Some(item) = self.decoder.next_item(input)? else { return Ok(None) };
            if let Some(arrived) = self.take_item(item) {
                return Ok(Some(arrived));
            }
        }
    }

    fn take_item(&mut self, item: Item<'_>) -> Option<Arrived> {
        let Some((id, begun)) = self.begun.take() else { return self.begin(item) };
        let what = match (item, begun) {
            (Item::Data(data), Begun::Content(span, mut content)) => {
                content.extend_from_slice(data);
                return self.go_on(id, Begun::Content(span, content));
            }
            (Item::Data(data), Begun::Piece(bytes, mut content)) => {
                content.extend_from_slice(data);
                return self.go_on(id, Begun::Piece(bytes, content));
            }
            (Item::Part(part), Begun::Recipe(grain, mut parts)) => {
                parts.push(part);
                return self.go_on(id, Begun::Recipe(grain, parts));
            }
            (Item::Part(part), Begun::List(bytes, mut chunks)) => {
                chunks.push(part);
                return self.go_on(id, Begun::List(bytes, chunks));
            }
            (Item::End(hash), Begun::Content(span, content)) => What::Content { span, content, hash },
            (Item::End(_), Begun::Piece(bytes, content)) => What::Piece { bytes, content },
            (Item::End(hash), Begun::Recipe(grain, parts)) => What::Recipe { grain, parts, hash },
            (Item::ListEnd, Begun::List(bytes, chunks)) => What::List { bytes, chunks },
            (Item::Aborted { cause, .. }, _) => What::Aborted(cause),
            (item, begun) => unreachable!("the decoder gave {item:?} behind {begun:?}"),
        };
        Some(Arrived { id, what })
    }

    fn begin(&mut self, item: Item<'_>) -> Option<Arrived> {
        match item {
            Item::Begin { id, span } => self.go_on(id, Begun::Content(span, Vec::new())),
            Item::Piece { id, bytes } => self.go_on(id, Begun::Piece(bytes, Vec::new())),
            Item::Recipe { id, grain } => self.go_on(id, Begun::Recipe(grain, Vec::new())),
            Item::List { id, bytes } => self.go_on(id, Begun::List(bytes, Vec::new())),
            Item::Digest { id, span, hash } => Some(Arrived { id, what: What::Digest { span, hash } }),
            Item::Data(_)
            | Item::Hole(_)
            | Item::Part(_)
            | Item::ListEnd
            | Item::End(_)
            | Item::Aborted { .. } => unreachable!("the decoder gave {item:?} between segments"),
        }
    }

    fn go_on(&mut self, id: EntryId, begun: Begun) -> Option<Arrived> {
        self.begun = Some((id, begun));
        None
    }
}
