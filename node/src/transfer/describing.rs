//! Tells what a file consists of: the sender's part in a delta.

use std::sync::Arc;

use ketch_protocol::{
    chunk::{ChunkSizes, Chunker, Part},
    delta::{Describer, Grain},
    hash::ContentHash,
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryId},
    message::Run,
    problem::{Cause, Problem},
    record::segment::{put_aborted, put_end, put_list, put_list_end, put_part, put_recipe},
    session::sender::Job,
};

use super::{
    queue::LargeFile,
    reading::{Handle, Step},
};
use crate::{
    index::{Recorder, Seen},
    tree::Source,
};

/// Bytes read in one go: a recipe of a large file must not keep a thread for seconds.
const STEP_BYTES: u64 = 16 * 1024 * 1024;

/// A file, or some bytes of it, while it is read for a description.
#[derive(Debug)]
pub(super) struct Describing {
    id: EntryId,
    entry: Arc<Entry>,
    bytes: Run,
    read: u64,
    work: Work,
    /// What the file looked like once all of it was read, and it did not change meanwhile.
    seen: Option<Seen>,
    /// That, and its hash.
    known: Option<(Seen, ContentHash)>,
}

#[derive(Debug)]
enum Work {
    /// A recipe of a file that is not opened yet.
    Unopened,
    Recipe(Handle, Box<Describer>),
    List(Handle, Chunker, Vec<Part>),
}

impl Describing {
    /// The recipe of a file.
    pub(super) fn recipe(Job { id, entry, .. }: Job) -> Self {
        let bytes = Run { first: 0, count: entry.size() };
        Self { id, entry, bytes, read: 0, work: Work::Unopened, seen: None, known: None }
    }

    /// The chunks in some bytes of a file.
    pub(super) fn list(large: Arc<LargeFile>, bytes: Run) -> Self {
        let (id, entry) = (large.job.id, Arc::clone(&large.job.entry));
        let work = Work::List(Handle::Shared(large), Chunker::new(sizes(&entry)), Vec::new());
        Self { id, entry, bytes, read: 0, work, seen: None, known: None }
    }

    /// Reads on; at the end, appends the segment to `block`. What can't be read costs its own segment.
    pub(super) fn describe_into(
        &mut self,
        block: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        source: &Source,
    ) -> Step {
        match self.read_on(scratch, source) {
            Ok(()) if self.read < self.bytes.count => Step::Full,
            Ok(()) => {
                self.put(block);
                Step::Closed
            }
            Err(problem) => {
                self.put_given_up(block, problem.cause, &problem.detail);
                Step::Closed
            }
        }
    }

    fn read_on(&mut self, scratch: &mut Vec<u8>, source: &Source) -> Result<(), Problem> {
        if matches!(self.work, Work::Unopened) {
            let file = Handle::Own(source.open_file(&self.entry)?);
            self.work = Work::Recipe(file, Box::new(Describer::new(sizes(&self.entry))));
        }
        let end = self.bytes.count.min(self.read + STEP_BYTES);
        while self.read < end {
            let length = (end - self.read).min(BLOCK_BYTES as u64) as usize;
            scratch.resize(length.max(scratch.len()), 0);
            self.take(&mut scratch[..length], source)?;
            self.read += length as u64;
        }
        match &self.work {
            Work::Recipe(file, _) | Work::List(file, ..) if self.read == self.bytes.count => {
                if file.check_read(&self.entry, source)? {
                    self.seen = Some(file.file(source)?.seen());
                }
            }
            Work::Unopened | Work::Recipe(..) | Work::List(..) => {}
        }
        Ok(())
    }

    /// Remembers the hash of a file that was described as a whole.
    pub(super) fn record(&self, recorder: &mut Recorder) {
        if let Some((seen, hash)) = self.known {
            recorder.read(&self.entry.path, seen, hash);
        }
    }

    fn take(&mut self, bytes: &mut [u8], source: &Source) -> Result<(), Problem> {
        let offset = self.bytes.first + self.read;
        match &mut self.work {
            Work::Unopened => {}
            Work::Recipe(file, describer) => {
                file.read_exactly(&self.entry, bytes, offset, source)?;
                describer.push(bytes);
            }
            Work::List(file, chunker, chunks) => {
                file.read_exactly(&self.entry, bytes, offset, source)?;
                chunker.push(bytes, |chunk| chunks.push(chunk));
            }
        }
        Ok(())
    }

    fn put(&mut self, block: &mut Vec<u8>) {
        match std::mem::replace(&mut self.work, Work::Unopened) {
            Work::Unopened => {}
            Work::Recipe(_, describer) => match describer.finish() {
                Some(recipe) => {
                    self.known = self.seen.map(|seen| (seen, recipe.hash));
                    put_recipe(block, self.id, recipe.grain);
                    recipe.parts.into_iter().for_each(|part| put_part(block, part));
                    put_end(block, recipe.hash);
                }
                None => self.put_given_up(block, Cause::Unrepresentable, "its recipe would be too long"),
            },
            Work::List(_, chunker, mut chunks) => {
                chunker.finish(|chunk| chunks.push(chunk));
                put_list(block, self.id, self.bytes);
                chunks.into_iter().for_each(|chunk| put_part(block, chunk));
                put_list_end(block);
            }
        }
    }

    fn put_given_up(&self, block: &mut Vec<u8>, cause: Cause, detail: &str) {
        match self.work {
            Work::Unopened | Work::Recipe(..) => put_recipe(block, self.id, Grain::Chunks),
            Work::List(..) => put_list(block, self.id, self.bytes),
        }
        put_aborted(block, cause, detail);
    }
}

/// The session hands out no wish for the chunks of a file that has none.
fn sizes(entry: &Entry) -> ChunkSizes {
    ChunkSizes::of_file(entry.size()).expect("only files with chunks are described")
}
