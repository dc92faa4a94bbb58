//! Turns files into segments: the blocking half of a sender's data stream.

use std::sync::Arc;

use ketch_protocol::{
    hash::{ContentHash, Hasher},
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryId},
    problem::{Cause, Problem},
    record::segment::{Span, put_aborted, put_begin, put_block_length, put_digest, put_end},
    session::sender::{Job, Wanted},
};

use super::{
    known_tree::KnownTree,
    queue::{LargeFile, Need, Piece},
};
use crate::{
    index::{Recorder, Seen},
    tree::{Source, SourceFile},
};

/// Reads one piece after another, a block at a time.
#[derive(Debug)]
pub(super) struct Reading {
    source: Source,
    /// Remembers what was read whole.
    recorder: Option<Recorder>,
    /// Files of the piece at hand, the next one last.
    files: Vec<Job>,
    open: Option<Open>,
    /// What was just read, on its way to the hash and into a block.
    scratch: Vec<u8>,
}

/// Bytes of content that were read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// To be sent.
    pub(super) content: u64,
    /// To be hashed only, because the receiver has them.
    pub(super) digest: u64,
}

/// A span being read.
#[derive(Debug)]
struct Open {
    id: EntryId,
    entry: Arc<Entry>,
    file: Handle,
    span: Span,
    need: Need,
    hasher: Hasher,
    /// Bytes of the span read so far.
    read: u64,
    /// What the file looked like, and its hash, once all of it was read and it did not change meanwhile.
    known: Option<(Seen, ContentHash)>,
}

#[derive(Debug)]
enum Handle {
    Own(SourceFile),
    Shared(Arc<LargeFile>),
}

/// What reading a part of a span came to.
enum Step {
    /// The block is full.
    Full,
    /// The span is closed.
    Closed,
}

impl Reading {
    pub(super) fn new(tree: &KnownTree) -> Self {
        let (source, recorder) = (tree.source.clone(), tree.recorder());
        Self { source, recorder, files: Vec::new(), open: None, scratch: Vec::new() }
    }

    /// Whether the piece at hand is done.
    pub(super) fn is_idle(&self) -> bool {
        self.files.is_empty() && self.open.is_none()
    }

    /// Takes the next piece; only when idle.
    pub(super) fn begin(&mut self, piece: Piece) {
        match piece {
            Piece::Files(mut files) => {
                files.reverse();
                self.files = files;
            }
            Piece::Span(large, span, need) => self.open = Some(Open::shared(large, span, need)),
        }
    }

    /// Appends segments to `block` until it has about [`BLOCK_BYTES`] of content or the piece is done.
    /// What can't be read costs its own segment. Says how much was read.
    pub(super) fn fill(&mut self, block: &mut Vec<u8>) -> Read {
        let mut read = Read::default();
        loop {
            if let Some(open) = &mut self.open {
                let before = open.read;
                let step = open.read_into(block, &mut self.scratch, &self.source);
                read.add(open.need, open.read - before);
                match step {
                    Step::Full => return read,
                    Step::Closed => {
                        let open = self.open.take();
                        open.iter().for_each(|open| open.record(&mut self.recorder));
                    }
                }
            } else if let Some(job) = self.files.pop() {
                self.open = open_whole(&self.source, job, block);
            } else {
                return read;
            }
        }
    }
}

impl Read {
    fn add(&mut self, need: Need, bytes: u64) {
        match need {
            Need::Content => self.content += bytes,
            Need::Digest => self.digest += bytes,
        }
    }
}

fn open_whole(source: &Source, job: Job, block: &mut Vec<u8>) -> Option<Open> {
    let span = Span::whole(job.entry.size());
    let need = match job.wanted {
        Wanted::Content => Need::Content,
        Wanted::Digest => Need::Digest,
        // A file of one segment has no ranges; the session refuses such a wish.
        Wanted::Parts { .. } => return None,
    };
    match source.open_file(&job.entry) {
        Ok(file) => {
            let hasher = span.hasher(job.entry.size());
            Some(Open {
                id: job.id,
                entry: job.entry,
                file: Handle::Own(file),
                span,
                need,
                hasher,
                read: 0,
                known: None,
            })
        }
        Err(problem) => {
            put_begin(block, job.id, span);
            put_aborted(block, problem.cause, &problem.detail);
            None
        }
    }
}

impl Open {
    fn shared(large: Arc<LargeFile>, span: Span, need: Need) -> Self {
        let (id, entry) = (large.job.id, Arc::clone(&large.job.entry));
        let hasher = span.hasher(entry.size());
        Self { id, entry, file: Handle::Shared(large), span, need, hasher, read: 0, known: None }
    }

    fn read_into(&mut self, block: &mut Vec<u8>, scratch: &mut Vec<u8>, source: &Source) -> Step {
        match self.try_read_into(block, scratch, source) {
            Ok(step) => step,
            Err(problem) => {
                let has_begun = self.need == Need::Content && self.read > 0;
                if !has_begun {
                    put_begin(block, self.id, self.span);
                }
                put_aborted(block, problem.cause, &problem.detail);
                Step::Closed
            }
        }
    }

    fn try_read_into(
        &mut self,
        block: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        source: &Source,
    ) -> Result<Step, Problem> {
        while self.read < self.span.length() {
            // A digest puts nothing, but a thread should not be kept for a whole range of a slow disk.
            if block.len() >= BLOCK_BYTES {
                return Ok(Step::Full);
            }
            let length = (self.span.length() - self.read).min(BLOCK_BYTES as u64) as usize;
            scratch.resize(length.max(scratch.len()), 0);
            let bytes = &mut scratch[..length];
            self.read_exactly(bytes, source)?;
            self.hasher.update(bytes);
            if self.need == Need::Content {
                if self.read == 0 {
                    put_begin(block, self.id, self.span);
                }
                put_block_length(block, length);
                block.extend_from_slice(bytes);
            }
            self.read += length as u64;
        }
        self.close(block, source)?;
        Ok(Step::Closed)
    }

    fn read_exactly(&self, bytes: &mut [u8], source: &Source) -> Result<(), Problem> {
        let offset = self.span.offset() + self.read;
        let read = self.file(source)?.read_at(bytes, offset).map_err(|error| {
            Problem::new(self.entry.path.clone(), Cause::Unreadable, format_args!("reading: {error}"))
        })?;
        if read < bytes.len() {
            let end = offset + read as u64;
            let detail = format_args!("{} bytes were listed, it ends after {end}", self.entry.size());
            return Err(Problem::new(self.entry.path.clone(), Cause::Changed, detail));
        }
        Ok(())
    }

    fn close(&mut self, block: &mut Vec<u8>, source: &Source) -> Result<(), Problem> {
        let hash = self.hasher.finish();
        let (last, whole) = match &self.file {
            Handle::Own(_) => (true, Some(hash)),
            Handle::Shared(large) => (large.is_last_read(self.span.index(), hash), large.hash()),
        };
        if last {
            let file = self.file(source)?;
            if !file.is_unchanged() {
                return Err(Problem::new(self.entry.path.clone(), Cause::Changed, ""));
            }
            self.known = whole.map(|whole| (file.seen(), whole));
        }
        match self.need {
            Need::Content => put_end(block, hash),
            Need::Digest => put_digest(block, self.id, self.span, hash),
        }
        Ok(())
    }

    fn record(&self, recorder: &mut Option<Recorder>) {
        if let (Some(recorder), Some((seen, hash))) = (recorder, self.known) {
            recorder.read(&self.entry.path, seen, hash);
        }
    }

    fn file(&self, source: &Source) -> Result<&SourceFile, Problem> {
        match &self.file {
            Handle::Own(file) => Ok(file),
            Handle::Shared(large) => {
                large.opened.get_or_init(|| source.open_file(&large.job.entry)).as_ref().map_err(Clone::clone)
            }
        }
    }
}
