//! Turns files into segments: the blocking half of a sender's data stream.

use std::{io, sync::Arc};

use ketch_protocol::{
    hash::{ContentHash, Hasher},
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryId},
    message::Run,
    problem::{Cause, Problem},
    record::compressed::Compressor,
    record::segment::{
        Span, put_aborted, put_begin, put_block_length, put_digest, put_end, put_hole, put_piece,
    },
    session::sender::{Job, Wanted},
};

use super::{
    describing::Describing,
    known_tree::KnownTree,
    queue::{BytesOf, LargeFile, Need, Portion},
};
use crate::{
    index::{Recorder, Seen},
    tree::{Extent, Source, SourceFile},
};

/// A stream's first block ends behind the file with which it has so many bytes, and each that follows may have twice as
/// many as the one before: a block may cross as one frame, of which nothing can be read before all has come.
const FIRST_BLOCK_BYTES: usize = 4 * 1024;

/// Bytes of content by which a block may exceed [`BLOCK_BYTES`], so that no file of up to that length is cut in two.
const EXCESS_BYTES: usize = 16 * 1024;

/// Room in a block for what a segment begins and ends with, beside its content.
const FRAMING_BYTES: usize = 128;

/// What a hole reads as.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Reads one portion after another, a block at a time.
#[derive(Debug)]
pub(super) struct Reading {
    source: Source,
    /// Remembers what was read whole.
    recorder: Recorder,
    compressor: Option<Compressor>,
    /// A block before it is compressed.
    plain: Vec<u8>,
    /// Files of the portion at hand, the next one last.
    files: Vec<Job>,
    /// Lists or pieces of the portion at hand, the next one last.
    bytes: Vec<(Arc<LargeFile>, Run, BytesOf)>,
    open: Option<Open>,
    describing: Option<Describing>,
    /// A block ends behind the segment with which it has so many bytes.
    block_bytes: usize,
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

/// A span or a piece being read.
#[derive(Debug)]
struct Open {
    id: EntryId,
    entry: Arc<Entry>,
    file: Handle,
    place: Place,
    need: Need,
    hasher: Hasher,
    /// Bytes of the place read so far.
    read: u64,
    /// Of them, those in holes: they do not cross.
    skipped: u64,
    /// What the file looked like, and its hash, once all of it was read and it did not change meanwhile.
    known: Option<(Seen, ContentHash)>,
}

/// Which bytes of a file are read, and what they are called on the wire.
#[derive(Debug, Clone, Copy)]
enum Place {
    Span(Span),
    Piece(Run),
}

impl Place {
    fn offset(self) -> u64 {
        match self {
            Self::Span(span) => span.offset(),
            Self::Piece(bytes) => bytes.first,
        }
    }

    fn length(self) -> u64 {
        match self {
            Self::Span(span) => span.length(),
            Self::Piece(bytes) => bytes.count,
        }
    }

    fn hasher(self, size: u64) -> Hasher {
        match self {
            Self::Span(span) => span.hasher(size),
            Self::Piece(_) => Hasher::whole(),
        }
    }

    fn put_begin(self, block: &mut Vec<u8>, id: EntryId) {
        match self {
            Self::Span(span) => put_begin(block, id, span),
            Self::Piece(bytes) => put_piece(block, id, bytes),
        }
    }

    fn put_end(self, block: &mut Vec<u8>, id: EntryId, need: Need, hash: ContentHash) {
        match (self, need) {
            (Self::Span(span), Need::Digest) => put_digest(block, id, span, hash),
            (Self::Span(_), Need::Content) | (Self::Piece(_), Need::Content | Need::Digest) => {
                put_end(block, hash);
            }
        }
    }
}

/// A file that is read by this stream alone, or by several.
#[derive(Debug)]
pub(super) enum Handle {
    Own(SourceFile),
    Shared(Arc<LargeFile>),
}

impl Handle {
    /// Fills `bytes` from `offset`; a problem when the file has fewer.
    pub(super) fn read_exactly(
        &self,
        entry: &Entry,
        bytes: &mut [u8],
        offset: u64,
        source: &Source,
    ) -> Result<(), Problem> {
        let wanted = bytes.len();
        check_length(entry, offset, wanted, self.file(source)?.read_at(bytes, offset))
    }

    /// Appends `length` bytes from `offset` on to `block`; a problem when the file has fewer.
    fn append_exactly(
        &self,
        entry: &Entry,
        block: &mut Vec<u8>,
        length: usize,
        offset: u64,
        source: &Source,
    ) -> Result<(), Problem> {
        check_length(entry, offset, length, self.file(source)?.append_at(block, length, offset))
    }

    /// Notes that a part was read, and says whether it was the last; a problem when the file has changed until
    /// then.
    pub(super) fn check_read(&self, entry: &Entry, source: &Source) -> Result<bool, Problem> {
        let last = match self {
            Self::Own(_) => true,
            Self::Shared(large) => large.is_last_read(),
        };
        if last && !self.file(source)?.is_unchanged() {
            return Err(Problem::new(entry.path.clone(), Cause::Changed, ""));
        }
        Ok(last)
    }

    pub(super) fn file(&self, source: &Source) -> Result<&SourceFile, Problem> {
        match self {
            Self::Own(file) => Ok(file),
            Self::Shared(large) => {
                large.opened.get_or_init(|| source.open_file(&large.job.entry)).as_ref().map_err(Clone::clone)
            }
        }
    }
}

/// A problem when less was read from `offset` on than wanted.
fn check_length(entry: &Entry, offset: u64, wanted: usize, read: io::Result<usize>) -> Result<(), Problem> {
    let read = read.map_err(|error| {
        Problem::new(entry.path.clone(), Cause::Unreadable, format_args!("reading: {error}"))
    })?;
    if read < wanted {
        let end = offset + read as u64;
        let detail = format_args!("{} bytes were listed, it ends after {end}", entry.size());
        return Err(Problem::new(entry.path.clone(), Cause::Changed, detail));
    }
    Ok(())
}

/// What reading a part came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The block is full, or others should have the thread.
    Full,
    /// The segment is closed.
    Closed,
}

impl Reading {
    /// What it reads is put into frames by `compressor` if there is one.
    pub(super) fn new(tree: &KnownTree, compressor: Option<Compressor>) -> Self {
        Self {
            source: tree.source.clone(),
            recorder: tree.recorder(),
            compressor,
            plain: Vec::new(),
            files: Vec::new(),
            bytes: Vec::new(),
            open: None,
            describing: None,
            block_bytes: FIRST_BLOCK_BYTES,
            scratch: Vec::new(),
        }
    }

    /// Whether the portion at hand is done.
    pub(super) fn is_idle(&self) -> bool {
        self.files.is_empty() && self.bytes.is_empty() && self.open.is_none() && self.describing.is_none()
    }

    /// Segments of the portion at hand that are not read to their end.
    pub(super) fn unread(&self) -> usize {
        let begun = self.open.is_some() || self.describing.is_some();
        self.files.len() + self.bytes.len() + usize::from(begun)
    }

    /// Takes the next portion; only when idle.
    pub(super) fn begin(&mut self, portion: Portion) {
        match portion {
            Portion::Files(mut files) => {
                files.reverse();
                self.files = files;
            }
            Portion::Span(large, span, need) => {
                self.open = Some(Open::shared(large, Place::Span(span), need));
            }
            Portion::Recipe(job) => self.describing = Some(Describing::recipe(job)),
            Portion::Bytes(large, runs, part) => {
                self.bytes = runs.into_iter().rev().map(|run| (Arc::clone(&large), run, part)).collect();
            }
        }
    }

    /// Fills an empty block. Fails only when it can't be compressed.
    pub(super) fn fill(&mut self, block: &mut Vec<u8>) -> io::Result<Read> {
        let read = self.fill_block(block);
        // Should this process be killed, what the block ends need not be read again.
        self.recorder.flush();
        read
    }

    fn fill_block(&mut self, block: &mut Vec<u8>) -> io::Result<Read> {
        let Some(mut compressor) = self.compressor.take() else { return Ok(self.fill_plain(block)) };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let read = self.fill_plain(&mut plain);
        let put = compressor.put(&plain, block);
        (self.compressor, self.plain) = (Some(compressor), plain);
        put.map(|()| read)
    }

    /// Appends segments to `block` until it has about [`BLOCK_BYTES`] of content, or fewer at first, or the portion is
    /// done.
    /// What can't be read costs its own segment. Says how much was read.
    fn fill_plain(&mut self, block: &mut Vec<u8>) -> Read {
        let mut read = Read::default();
        let full = self.block_bytes;
        self.block_bytes = BLOCK_BYTES.min(2 * full);
        loop {
            if self.open.is_none() && block.len() >= full {
                return read;
            }
            if let Some(open) = &mut self.open {
                let before = open.read - open.skipped;
                let step = open.read_into(block, &mut self.scratch, &self.source);
                read.add(open.need, open.read - open.skipped - before);
                match step {
                    Step::Full => return read,
                    Step::Closed => {
                        let open = self.open.take();
                        open.iter().for_each(|open| open.record(&mut self.recorder));
                    }
                }
            } else if let Some(describing) = &mut self.describing {
                match describing.describe_into(block, &mut self.scratch, &self.source) {
                    Step::Full => return read,
                    Step::Closed => {
                        describing.record(&mut self.recorder);
                        self.describing = None;
                    }
                }
            } else if let Some((large, run, part)) = self.bytes.pop() {
                match part {
                    BytesOf::List => self.describing = Some(Describing::list(large, run)),
                    BytesOf::Piece => {
                        self.open = Some(Open::shared(large, Place::Piece(run), Need::Content));
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
        // A file of one segment has no ranges; the session refuses such a wish. The others are handed out as
        // portions of their own.
        Wanted::Parts { .. } | Wanted::Recipe | Wanted::Lists(_) | Wanted::Pieces(_) => return None,
    };
    match source.open_file(&job.entry) {
        Ok(file) => {
            let (place, hasher) = (Place::Span(span), span.hasher(job.entry.size()));
            Some(Open {
                id: job.id,
                entry: job.entry,
                file: Handle::Own(file),
                place,
                need,
                hasher,
                read: 0,
                skipped: 0,
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
    fn shared(large: Arc<LargeFile>, place: Place, need: Need) -> Self {
        let (id, entry) = (large.job.id, Arc::clone(&large.job.entry));
        let hasher = place.hasher(entry.size());
        let file = Handle::Shared(large);
        Self { id, entry, file, place, need, hasher, read: 0, skipped: 0, known: None }
    }

    fn read_into(&mut self, block: &mut Vec<u8>, scratch: &mut Vec<u8>, source: &Source) -> Step {
        match self.try_read_into(block, scratch, source) {
            Ok(step) => step,
            Err(problem) => {
                let has_begun = self.need == Need::Content && self.read > 0;
                if !has_begun {
                    self.place.put_begin(block, self.id);
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
        while self.read < self.place.length() {
            // A digest puts nothing, but a thread should not be kept for a whole range of a slow disk.
            if block.len() >= BLOCK_BYTES {
                return Ok(Step::Full);
            }
            let (offset, left) = (self.place.offset() + self.read, self.place.length() - self.read);
            let extent = match self.need {
                Need::Content => self.file.file(source)?.extent_at(offset, left),
                Need::Digest => Extent::Data(left),
            };
            let data = match extent {
                Extent::Data(data) => data,
                Extent::Hole(hole) => {
                    self.skip(hole, block);
                    continue;
                }
            };
            let room = match self.need {
                Need::Content => (BLOCK_BYTES - block.len()).max(EXCESS_BYTES),
                Need::Digest => BLOCK_BYTES,
            };
            let length = data.min(room as u64) as usize;
            match self.need {
                Need::Content => self.read_content(block, offset, length, source)?,
                Need::Digest => {
                    scratch.resize(length.max(scratch.len()), 0);
                    let bytes = &mut scratch[..length];
                    self.file.read_exactly(&self.entry, bytes, offset, source)?;
                    self.hasher.update(bytes);
                }
            }
            self.read += length as u64;
        }
        self.close(block, source)?;
        Ok(Step::Closed)
    }

    /// Appends what is at `offset` to the block, where it is read to: there is nothing to be copied.
    fn read_content(
        &mut self,
        block: &mut Vec<u8>,
        offset: u64,
        length: usize,
        source: &Source,
    ) -> Result<(), Problem> {
        let before = block.len();
        make_room(block, length);
        if self.read == 0 {
            self.place.put_begin(block, self.id);
        }
        put_block_length(block, length);
        let begin = block.len();
        if let Err(problem) = self.file.append_exactly(&self.entry, block, length, offset, source) {
            block.truncate(before);
            return Err(problem);
        }
        self.hasher.update(&block[begin..]);
        Ok(())
    }

    fn close(&mut self, block: &mut Vec<u8>, source: &Source) -> Result<(), Problem> {
        let hash = self.hasher.finish();
        if let (Place::Span(span), Handle::Shared(large)) = (self.place, &self.file) {
            large.note_hash(span.index(), hash);
        }
        if self.file.check_read(&self.entry, source)? {
            let whole = match (self.place, &self.file) {
                (Place::Span(_), Handle::Own(_)) => Some(hash),
                (Place::Span(_) | Place::Piece(_), Handle::Shared(large)) => large.hash(),
                (Place::Piece(_), Handle::Own(_)) => None,
            };
            let seen = self.file.file(source)?.seen();
            self.known = whole.map(|whole| (seen, whole));
        }
        self.place.put_end(block, self.id, self.need, hash);
        Ok(())
    }

    fn record(&self, recorder: &mut Recorder) {
        if let Some((seen, hash)) = self.known {
            recorder.read(&self.entry.path, seen, hash);
        }
    }

    /// Takes a hole for the zeros it reads as.
    fn skip(&mut self, hole: u64, block: &mut Vec<u8>) {
        if self.read == 0 {
            self.place.put_begin(block, self.id);
        }
        put_hole(block, hole);
        hash_zeros(&mut self.hasher, hole);
        self.read += hole;
        self.skipped += hole;
    }
}

/// Room for `length` more bytes of content and what goes with them. A block doubles until it holds all that it may, and
/// no further: what is read goes as far as its memory.
fn make_room(block: &mut Vec<u8>, length: usize) {
    let needed = block.len() + FRAMING_BYTES + length;
    if needed > block.capacity() {
        let doubled = (2 * block.capacity()).min(BLOCK_BYTES + EXCESS_BYTES + FRAMING_BYTES);
        block.reserve_exact(doubled.max(needed) - block.len());
    }
}

/// Takes the zeros of a hole into a hash.
pub(super) fn hash_zeros(hasher: &mut Hasher, mut length: u64) {
    while length > 0 {
        let zeros = length.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..zeros as usize]);
        length -= zeros;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading goes as far as a block's memory, so its memory must end with what it may hold.
    #[test]
    fn a_block_gets_no_more_memory_than_it_may_need() {
        for length in [1, 1_000, EXCESS_BYTES, BLOCK_BYTES] {
            let mut block = Vec::new();
            while block.len() < BLOCK_BYTES {
                let length = length.min((BLOCK_BYTES - block.len()).max(EXCESS_BYTES));
                make_room(&mut block, length);
                block.resize(block.len() + FRAMING_BYTES / 2 + length, 0);
            }
            let most = BLOCK_BYTES + EXCESS_BYTES + FRAMING_BYTES;
            assert!(block.capacity() <= most, "{} by {length}", block.capacity());
        }
    }
}
