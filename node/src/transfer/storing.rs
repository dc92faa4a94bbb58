//! Turns segments into files: the blocking half of a receiver's data stream.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use ketch_protocol::{
    chunk::Part,
    delta::{Grain, Needs, Recipe, worthwhile},
    hash::{ContentHash, Hasher},
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryId},
    message::Run,
    path::EntryPath,
    problem::{Cause, Problem},
    record::{
        compressed::Decompressor,
        segment::{Decoder, Item, Span},
    },
    session::{Stop, Violation, receiver::Outcome},
};

use super::{
    reading::hash_zeros,
    rebuilding::{Job, Rebuilt},
    registry::{Awaited, Comparison, Incoming, Lookup, Verdict, whole_hash},
    store::{EndCause, Store, Stored, await_content},
};
use crate::{
    index::Recorder,
    tree::{NewFile, Trouble},
};

/// Stores what one data stream brings.
#[derive(Debug)]
pub(super) struct Storing {
    store: Arc<Store>,
    /// Remembers what is stored and what was found equal.
    recorder: Option<Recorder>,
    /// Of a compressed stream.
    decompressor: Option<Decompressor>,
    decoder: Decoder,
    current: Current,
    buffer: Vec<u8>,
}

/// The segment that is coming in.
#[derive(Debug)]
enum Current {
    /// Between segments.
    None,
    /// Of no use; its bytes are passed over.
    Ignored,
    /// Of a file whose hash was asked for: nothing counts but that the sender can't read it.
    Compared {
        id: EntryId,
        path: EntryPath,
    },
    Whole {
        id: EntryId,
        entry: Arc<Entry>,
        hasher: Hasher,
        file: Box<NewFile>,
    },
    Range {
        id: EntryId,
        incoming: Arc<Incoming>,
        span: Span,
        hasher: Hasher,
        written: u64,
    },
    Piece {
        id: EntryId,
        rebuilt: Arc<Rebuilt>,
        piece: Run,
        hasher: Hasher,
        /// Where the next byte goes.
        offset: u64,
    },
    Recipe {
        id: EntryId,
        rebuilt: Arc<Rebuilt>,
        grain: Grain,
        parts: Vec<Part>,
    },
    List {
        id: EntryId,
        rebuilt: Arc<Rebuilt>,
        offset: u64,
        chunks: Vec<Part>,
    },
}

impl Storing {
    pub(super) fn new(store: Arc<Store>) -> Self {
        let recorder = store.recorder();
        let decoder = Decoder::default();
        Self { store, recorder, decompressor: None, decoder, current: Current::None, buffer: Vec::new() }
    }

    /// For a compressed stream; fails when there is no memory for it.
    pub(super) fn compressed(store: Arc<Store>) -> io::Result<Self> {
        Ok(Self { decompressor: Some(Decompressor::new()?), ..Self::new(store) })
    }

    /// Whether the session is over, so that nothing more is stored.
    pub(super) fn is_over(&self) -> bool {
        self.store.registry.is_closed()
    }

    /// Takes the next bytes of the stream.
    pub(super) fn take(&mut self, block: &[u8]) -> Stored {
        let stored = self.take_block(block);
        if !stored.outcomes.is_empty() {
            // Should this process be killed, what is stored need not be read again.
            self.recorder.iter_mut().for_each(Recorder::flush);
        }
        stored
    }

    fn take_block(&mut self, mut block: &[u8]) -> Stored {
        let mut stored = Stored::default();
        let Some(mut decompressor) = self.decompressor.take() else {
            self.take_plain(block, &mut stored);
            return stored;
        };
        while stored.end.is_none() {
            match decompressor.next_bytes(&mut block) {
                Ok(Some(bytes)) => self.take_plain(bytes, &mut stored),
                Ok(None) => break,
                Err(error) => stored.end = Some(EndCause::Violation(error.into())),
            }
        }
        self.decompressor = Some(decompressor);
        stored
    }

    fn take_plain(&mut self, mut bytes: &[u8], stored: &mut Stored) {
        while stored.end.is_none() {
            match self.decoder.next_item(&mut bytes) {
                Ok(Some(item)) => self.take_item(item, stored),
                Ok(None) => break,
                Err(error) => stored.end = Some(EndCause::Violation(error.into())),
            }
        }
    }

    /// Takes the end of the stream.
    pub(super) fn finish(&self) -> Result<(), Violation> {
        if let Some(decompressor) = &self.decompressor {
            decompressor.finish()?;
        }
        Ok(self.decoder.finish()?)
    }

    /// Gives back what the stream was bringing when its connection was lost. It comes again on another one; what
    /// came again already and was passed over is wanted once more.
    pub(super) fn abandon(&mut self) -> Stored {
        let wanted = match std::mem::replace(&mut self.current, Current::None) {
            Current::None
            | Current::Ignored
            | Current::Compared { .. }
            | Current::Recipe { .. }
            | Current::List { .. } => None,
            Current::Whole { id, .. } => {
                self.store.registry.release(id).then_some((id, Outcome::ContentAgain))
            }
            Current::Range { id, incoming, span, .. } => {
                let again = Run { first: span.index(), count: 1 };
                let parts = Outcome::Parts { content: vec![again], digest: Vec::new() };
                incoming.release(span.index()).then_some((id, parts))
            }
            Current::Piece { id, rebuilt, piece, .. } => {
                let needs = Needs { lists: Vec::new(), pieces: vec![piece] };
                rebuilt.release(piece).then_some((id, Outcome::Needs(needs)))
            }
        };
        Stored { outcomes: wanted.into_iter().collect(), ..Stored::default() }
    }

    fn take_item(&mut self, item: Item<'_>, stored: &mut Stored) {
        if let Item::End(_) | Item::Aborted { .. } | Item::Digest { .. } | Item::ListEnd = &item {
            stored.segments += 1;
        }
        let taken = match item {
            Item::Begin { id, span } => self.begin(id, span),
            Item::Piece { id, bytes } => self.begin_piece(id, bytes),
            Item::Recipe { id, grain } => self.begin_recipe(id, grain),
            Item::List { id, bytes } => self.begin_list(id, bytes),
            Item::Data(bytes) => self.data(bytes),
            Item::Hole(length) => self.hole(length),
            Item::Part(part) => self.part(part),
            Item::ListEnd => self.list_end(),
            Item::End(hash) => self.end(hash),
            Item::Aborted { cause, detail } => self.aborted(cause, detail),
            Item::Digest { id, span, hash } => self.digest(id, span, hash),
        };
        match taken {
            Ok(None) => {}
            Ok(Some(outcome)) => stored.outcomes.push(outcome),
            Err(Failure::Entry(id, Trouble::Problem(problem))) => {
                self.store.settle(id);
                stored.outcomes.push((id, Outcome::Problem(problem)));
            }
            Err(Failure::Entry(_, Trouble::Guard { reason, path, source })) => {
                stored.end = Some(EndCause::Stop(Stop::at(path, reason, source)));
            }
            Err(Failure::Violation(violation)) => stored.end = Some(EndCause::Violation(violation)),
        }
    }

    fn begin(&mut self, id: EntryId, span: Span) -> Taken {
        self.current = Current::Ignored;
        match self.store.registry.look_up(id) {
            Lookup::Closed | Lookup::Settled | Lookup::Awaited(Awaited::Delta(_)) => {}
            Lookup::Awaited(Awaited::Digest(comparison)) => {
                self.current = Current::Compared { id, path: comparison.entry.path.clone() };
            }
            Lookup::Awaited(Awaited::Content(entry)) => {
                check_span(id, span, &entry)?;
                if !self.store.registry.claim(id) {
                    return Ok(None);
                }
                let file = self.store.target.create(&entry).map_err(|trouble| Failure::Entry(id, trouble))?;
                let hasher = span.hasher(entry.size());
                self.current = Current::Whole { id, entry, hasher, file: Box::new(file) };
            }
            Lookup::Awaited(Awaited::Ranges(incoming)) => {
                check_span(id, span, &incoming.entry)?;
                if incoming.claim(span.index()) {
                    let hasher = span.hasher(incoming.entry.size());
                    self.current = Current::Range { id, incoming, span, hasher, written: 0 };
                }
            }
        }
        Ok(None)
    }

    /// The file of which a description or a piece comes, if one is awaited.
    fn rebuilt(&self, id: EntryId) -> Option<Arc<Rebuilt>> {
        match self.store.registry.look_up(id) {
            Lookup::Awaited(Awaited::Delta(rebuilt)) => Some(rebuilt),
            Lookup::Awaited(Awaited::Content(_) | Awaited::Ranges(_) | Awaited::Digest(_))
            | Lookup::Settled
            | Lookup::Closed => None,
        }
    }

    fn begin_piece(&mut self, id: EntryId, bytes: Run) -> Taken {
        let claimed = self.rebuilt(id).filter(|rebuilt| rebuilt.claim(bytes));
        self.current = claimed.map_or(Current::Ignored, |rebuilt| {
            let (hasher, offset) = (Hasher::whole(), bytes.first);
            Current::Piece { id, rebuilt, piece: bytes, hasher, offset }
        });
        Ok(None)
    }

    fn begin_recipe(&mut self, id: EntryId, grain: Grain) -> Taken {
        let awaited = self.rebuilt(id).filter(|rebuilt| rebuilt.awaits_recipe());
        self.current = awaited.map_or(Current::Ignored, |rebuilt| Current::Recipe {
            id,
            rebuilt,
            grain,
            parts: Vec::new(),
        });
        Ok(None)
    }

    fn begin_list(&mut self, id: EntryId, bytes: Run) -> Taken {
        let awaited = self.rebuilt(id).filter(|rebuilt| rebuilt.awaits_list(bytes));
        self.current = awaited.map_or(Current::Ignored, |rebuilt| Current::List {
            id,
            rebuilt,
            offset: bytes.first,
            chunks: Vec::new(),
        });
        Ok(None)
    }

    fn part(&mut self, part: Part) -> Taken {
        match &mut self.current {
            Current::Recipe { parts, .. } => parts.push(part),
            Current::List { chunks, .. } => chunks.push(part),
            Current::None
            | Current::Ignored
            | Current::Compared { .. }
            | Current::Whole { .. }
            | Current::Range { .. }
            | Current::Piece { .. } => {}
        }
        Ok(None)
    }

    fn list_end(&mut self) -> Taken {
        if let Current::List { id, rebuilt, offset, chunks } =
            std::mem::replace(&mut self.current, Current::None)
            && rebuilt.hear_list(offset)
        {
            self.store.rebuilds.hand_in(Job::List(id, offset, chunks));
        }
        Ok(None)
    }

    /// Zeros that did not cross, and take no space here either.
    fn hole(&mut self, length: u64) -> Taken {
        let (id, skipped) = match &mut self.current {
            Current::None
            | Current::Ignored
            | Current::Compared { .. }
            | Current::Recipe { .. }
            | Current::List { .. } => {
                return Ok(None);
            }
            Current::Whole { id, hasher, file, .. } => {
                hash_zeros(hasher, length);
                (*id, file.skip(length))
            }
            Current::Range { id, incoming, span, hasher, written } => {
                hash_zeros(hasher, length);
                let offset = span.offset() + *written;
                *written += length;
                (*id, incoming.partial.skip_at(offset, length))
            }
            Current::Piece { hasher, offset, .. } => {
                hash_zeros(hasher, length);
                // Nothing was written there before.
                *offset += length;
                return Ok(None);
            }
        };
        skipped.map(|()| None).map_err(|trouble| {
            self.current = Current::Ignored;
            Failure::Entry(id, trouble)
        })
    }

    fn data(&mut self, bytes: &[u8]) -> Taken {
        self.store.moved_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let (id, written) = match &mut self.current {
            Current::None
            | Current::Ignored
            | Current::Compared { .. }
            | Current::Recipe { .. }
            | Current::List { .. } => {
                return Ok(None);
            }
            Current::Piece { id, rebuilt, hasher, offset, .. } => {
                hasher.update(bytes);
                let written = rebuilt.file.write_at(*offset, bytes);
                *offset += bytes.len() as u64;
                (*id, written)
            }
            Current::Whole { id, hasher, file, .. } => {
                hasher.update(bytes);
                (*id, file.write(bytes))
            }
            Current::Range { id, incoming, span, hasher, written } => {
                hasher.update(bytes);
                let offset = span.offset() + *written;
                *written += bytes.len() as u64;
                (*id, incoming.partial.write_at(offset, bytes))
            }
        };
        written.map(|()| None).map_err(|trouble| {
            self.current = Current::Ignored;
            Failure::Entry(id, trouble)
        })
    }

    fn end(&mut self, hash: ContentHash) -> Taken {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::None | Current::Ignored | Current::Compared { .. } | Current::List { .. } => Ok(None),
            Current::Piece { id, rebuilt, piece, hasher, .. } => {
                check_hash(&rebuilt.entry, hash, hasher.finish())
                    .map_err(|trouble| Failure::Entry(id, trouble))?;
                if rebuilt.is_last_stored(piece) {
                    self.store.rebuilds.hand_in(Job::PiecesStored(id));
                }
                Ok(None)
            }
            Current::Recipe { id, rebuilt, grain, parts } => {
                if rebuilt.hear_recipe() {
                    self.store.rebuilds.hand_in(Job::Recipe(id, Recipe { grain, parts, hash }));
                }
                Ok(None)
            }
            Current::Whole { id, entry, hasher, file } => {
                check_hash(&entry, hash, hasher.finish()).map_err(|problem| Failure::Entry(id, problem))?;
                match file.commit_seen() {
                    Ok((fate, seen)) => {
                        if let Some((recorder, seen)) = self.recorder.as_mut().zip(seen) {
                            recorder.stored(&entry.path, seen, hash);
                        }
                        self.store.registry.settle(id);
                        Ok(Some((id, fate.into())))
                    }
                    Err(trouble) => self.not_named(id, entry, trouble),
                }
            }
            Current::Range { id, incoming, span, hasher, .. } => {
                check_hash(&incoming.entry, hash, hasher.finish())
                    .and_then(|()| incoming.partial.finish_range(span.index(), hash))
                    .map_err(|trouble| Failure::Entry(id, trouble))?;
                self.range_stored(id, &incoming)
            }
        }
    }

    /// Remembers what the file of an entry holds, now that it is settled.
    fn record(&mut self, entry: &Entry, hash: Option<ContentHash>) {
        if let (Some(recorder), Some(hash)) = (&mut self.recorder, hash)
            && let Some(seen) = self.store.target.seen(entry)
        {
            recorder.stored(&entry.path, seen, hash);
        }
    }

    /// A file could not be given its name. Where another receiver was faster, what that one stored is compared.
    fn not_named(&self, id: EntryId, entry: Arc<Entry>, trouble: Trouble) -> Taken {
        if matches!(&trouble, Trouble::Problem(problem) if problem.cause == Cause::Exists)
            && let Ok(existing) = self.store.target.existing(&entry)
        {
            let comparison = Comparison::new(entry, existing);
            self.store.registry.replace(id, Awaited::Digest(Arc::new(comparison)));
            return Ok(Some((id, Outcome::Digest)));
        }
        Err(Failure::Entry(id, trouble))
    }

    fn range_stored(&mut self, id: EntryId, incoming: &Incoming) -> Taken {
        if !incoming.is_last_stored() {
            return Ok(None);
        }
        let count = Span::count(incoming.entry.size());
        let hashes = (0..count).filter_map(|index| Some((index, incoming.partial.recorded(index)?)));
        let hash = whole_hash(&hashes.collect(), incoming.entry.size());
        let fate = incoming.partial.commit().map_err(|trouble| Failure::Entry(id, trouble))?;
        self.record(&incoming.entry, hash);
        self.store.registry.settle(id);
        Ok(Some((id, fate.into())))
    }

    fn aborted(&mut self, cause: Cause, detail: String) -> Taken {
        let (id, path) = match std::mem::replace(&mut self.current, Current::None) {
            Current::None | Current::Ignored => return Ok(None),
            Current::Recipe { id, .. } if cause == Cause::Unrepresentable => {
                self.store.rebuilds.hand_in(Job::NoRecipe(id));
                return Ok(None);
            }
            Current::Compared { id, path } => (id, path),
            Current::Recipe { id, rebuilt, .. } | Current::List { id, rebuilt, .. } => {
                (id, rebuilt.entry.path.clone())
            }
            Current::Piece { id, rebuilt, .. } => {
                if cause.is_unsettled() {
                    // Of this version nothing more will ever come.
                    rebuilt.file.discard();
                }
                (id, rebuilt.entry.path.clone())
            }
            Current::Whole { id, entry, .. } => (id, entry.path.clone()),
            Current::Range { id, incoming, .. } => {
                if matches!(cause, Cause::Changed | Cause::Vanished) {
                    // Of this version nothing more will ever come.
                    incoming.partial.discard();
                }
                (id, incoming.entry.path.clone())
            }
        };
        Err(Failure::Entry(id, Trouble::Problem(Problem { path, cause, detail })))
    }

    fn digest(&mut self, id: EntryId, span: Span, hash: ContentHash) -> Taken {
        match self.store.registry.look_up(id) {
            Lookup::Closed | Lookup::Settled | Lookup::Awaited(Awaited::Content(_) | Awaited::Delta(_)) => {
                Ok(None)
            }
            Lookup::Awaited(Awaited::Digest(comparison)) => {
                check_span(id, span, &comparison.entry)?;
                let equal = self.hash_existing(&comparison, span) == Some(hash);
                self.count_found(equal, span);
                self.judge(id, &comparison, comparison.note(span.index(), hash, equal))
            }
            Lookup::Awaited(Awaited::Ranges(incoming)) => {
                check_span(id, span, &incoming.entry)?;
                self.check_stored(id, &incoming, span, hash)
            }
        }
    }

    /// Compares a range that an earlier session stored. The hash of any other one is of no use: its content
    /// was asked for.
    fn check_stored(&mut self, id: EntryId, incoming: &Incoming, span: Span, hash: ContentHash) -> Taken {
        let index = span.index();
        if !incoming.partial.is_recorded(index) || !incoming.claim(index) {
            return Ok(None);
        }
        let equal = incoming.partial.finished(index) == Some(hash);
        self.count_found(equal, span);
        if equal {
            return self.range_stored(id, incoming);
        }
        incoming.partial.forget_range(index).map_err(|trouble| Failure::Entry(id, trouble))?;
        incoming.release(index);
        let again = Run { first: index, count: 1 };
        Ok(Some((id, Outcome::Parts { content: vec![again], digest: Vec::new() })))
    }

    fn count_found(&self, equal: bool, span: Span) {
        if equal {
            self.store.found_bytes.fetch_add(span.length(), Ordering::Relaxed);
        }
    }

    fn judge(&mut self, id: EntryId, comparison: &Comparison, verdict: Verdict) -> Taken {
        let store = Arc::clone(&self.store);
        let (target, entry) = (&store.target, &comparison.entry);
        let failure = |trouble| Failure::Entry(id, trouble);
        match verdict {
            Verdict::Open => Ok(None),
            Verdict::Equal => {
                let fate = target.keep(entry).map_err(failure)?;
                self.record(entry, comparison.hash());
                self.store.registry.settle(id);
                Ok(Some((id, fate.into())))
            }
            Verdict::Different => {
                target.may_replace(entry).map_err(|problem| failure(Trouble::Problem(problem)))?;
                if self.store.delta && worthwhile(entry.size(), entry.size()).is_some() {
                    // Hashes of other parts of it are of no use any more.
                    self.store.registry.settle(id);
                    self.store.rebuilds.hand_in(Job::Begin(id, Arc::clone(entry)));
                    return Ok(None);
                }
                let awaited = await_content(target, entry).map_err(failure)?;
                self.store.registry.replace(id, awaited);
                Ok(Some((id, Outcome::ContentAgain)))
            }
        }
    }

    /// The hash of a span of the stored file; `None` when it can't be read or is shorter by now.
    fn hash_existing(&mut self, comparison: &Comparison, span: Span) -> Option<ContentHash> {
        self.buffer.resize(BLOCK_BYTES, 0);
        let mut hasher = span.hasher(comparison.entry.size());
        let mut read = 0;
        while read < span.length() {
            let length = (span.length() - read).min(BLOCK_BYTES as u64) as usize;
            let bytes = &mut self.buffer[..length];
            let got = comparison.existing.read_at(bytes, span.offset() + read).ok()?;
            if got < length {
                return None;
            }
            hasher.update(bytes);
            read += length as u64;
        }
        Some(hasher.finish())
    }
}

type Taken = Result<Option<(EntryId, Outcome)>, Failure>;

#[derive(Debug)]
enum Failure {
    Entry(EntryId, Trouble),
    Violation(Violation),
}

fn check_span(id: EntryId, span: Span, entry: &Entry) -> Result<(), Failure> {
    if span.is_of(entry.size()) { Ok(()) } else { Err(Failure::Violation(Violation::NoSuchPart(id))) }
}

fn check_hash(entry: &Entry, sent: ContentHash, stored: ContentHash) -> Result<(), Trouble> {
    if sent == stored {
        return Ok(());
    }
    let detail = format_args!("its hash is {stored}, the sender read {sent}");
    Err(Trouble::Problem(Problem::new(entry.path.clone(), Cause::Corrupt, detail)))
}

#[cfg(test)]
mod tests;
