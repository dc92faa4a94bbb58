//! Makes files from their old versions: one thread of a receiver's session, which cuts old versions into chunks,
//! finds out what is needed of the new ones, and puts them together.
//!
//! The planner and the data streams hand it [`Job`]s and never wait for it. Few files are open at once; the
//! others wait for their turn, and nothing is asked of them until then.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use ketch_protocol::{
    chunk::{ChunkSizes, Chunker, Name, Part},
    delta::{Assembly, Delta, DeltaError, Grain, Needs, OldBuilder, Origin, Recipe, Step, worthwhile},
    hash::Hasher,
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryId},
    message::{Fate, Run},
    session::{Stop, Violation, receiver::Outcome},
};

use super::{
    described::Described,
    lock,
    registry::Awaited,
    store::{EndCause, Store, Stored, await_content},
};
use crate::tree::{Rebuild, Trouble};

/// Files made at once: each takes four descriptors, and enough are on their way to fill a long path.
const MOST_OPEN: usize = 32;

/// Chunks of old versions kept at once, about; each takes 32 bytes. A file of more is made alone.
const MOST_CHUNKS: u64 = 1 << 20;

/// What there is to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Make this file, if that is worthwhile.
    Begin(EntryId, Arc<Entry>),
    /// The sender says what it consists of.
    Recipe(EntryId, Recipe),
    /// The sender says what a group of it consists of; the number is its offset.
    List(EntryId, u64, Vec<Part>),
    /// All pieces that were asked for are stored.
    PiecesStored(EntryId),
    /// The sender can't say what it consists of.
    NoRecipe(EntryId),
    /// It came to nothing.
    Settled(EntryId),
    /// The session is over.
    Close,
}

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Rebuilds {
    hand_in: mpsc::Sender<Job>,
    jobs: Mutex<mpsc::Receiver<Job>>,
}

impl Default for Rebuilds {
    fn default() -> Self {
        // Bounded by what was asked for: a file and a group are described once.
        let (hand_in, jobs) = mpsc::channel();
        Self { hand_in, jobs: Mutex::new(jobs) }
    }
}

impl Rebuilds {
    /// Hands a job in.
    pub(super) fn hand_in(&self, job: Job) {
        // The other end lies beside this one.
        let _ = self.hand_in.send(job);
    }

    /// The next job; waits for one. `None` once closed.
    fn next(&self) -> Option<Job> {
        match lock(&self.jobs).recv() {
            Ok(Job::Close) | Err(mpsc::RecvError) => None,
            Ok(job) => Some(job),
        }
    }
}

/// A file that is being made, shared with the data streams that store its pieces.
#[derive(Debug)]
pub(super) struct Rebuilt {
    pub(super) entry: Arc<Entry>,
    pub(super) file: Rebuild,
    outstanding: Mutex<Outstanding>,
    /// Pieces that were asked for and are not stored.
    missing: AtomicU64,
}

/// What is awaited of a file, by offset.
#[derive(Debug, Default)]
struct Outstanding {
    /// The length of pieces that were asked for and have not begun to come.
    asked: BTreeMap<u64, u64>,
    /// The length of pieces on which a stream works, and whether they came on another one meanwhile.
    coming: BTreeMap<u64, (u64, bool)>,
    /// The length of groups whose chunks were asked for and not heard.
    lists: BTreeMap<u64, u64>,
    /// Whether the recipe was heard.
    is_described: bool,
}

impl Rebuilt {
    fn new(entry: Arc<Entry>, file: Rebuild) -> Self {
        Self { entry, file, outstanding: Mutex::default(), missing: AtomicU64::new(0) }
    }

    fn ask(&self, needs: &Needs) {
        self.missing.fetch_add(needs.pieces.len() as u64, Ordering::AcqRel);
        let mut outstanding = self.outstanding();
        outstanding.asked.extend(needs.pieces.iter().map(|piece| (piece.first, piece.count)));
        outstanding.lists.extend(needs.lists.iter().map(|list| (list.first, list.count)));
    }

    /// Whether a piece was asked for and has not come; the caller then stores it.
    pub(super) fn claim(&self, piece: Run) -> bool {
        let mut outstanding = self.outstanding();
        if outstanding.asked.get(&piece.first) == Some(&piece.count) {
            outstanding.asked.remove(&piece.first);
            outstanding.coming.insert(piece.first, (piece.count, false));
            return true;
        }
        if let Some((_, again)) =
            outstanding.coming.get_mut(&piece.first).filter(|(count, _)| *count == piece.count)
        {
            *again = true;
        }
        false
    }

    /// Gives a claimed piece back: it must come again. Says whether it was passed over meanwhile.
    pub(super) fn release(&self, piece: Run) -> bool {
        let mut outstanding = self.outstanding();
        outstanding.asked.insert(piece.first, piece.count);
        outstanding.coming.remove(&piece.first).is_some_and(|(_, again)| again)
    }

    /// Whether the recipe was not heard yet. It may come again after a connection was lost; of what comes twice one is
    /// kept, so that a sender can't fill the memory while an old version is cut.
    pub(super) fn awaits_recipe(&self) -> bool {
        !self.outstanding().is_described
    }

    /// Notes that the recipe was heard; says whether for the first time.
    pub(super) fn hear_recipe(&self) -> bool {
        !std::mem::replace(&mut self.outstanding().is_described, true)
    }

    /// Whether the chunks of a group were asked for and not heard yet.
    pub(super) fn awaits_list(&self, group: Run) -> bool {
        self.outstanding().lists.get(&group.first) == Some(&group.count)
    }

    /// Notes that the chunks of the group at an offset were heard; says whether for the first time.
    pub(super) fn hear_list(&self, offset: u64) -> bool {
        self.outstanding().lists.remove(&offset).is_some()
    }

    /// Notes that a claimed piece is stored and checked; says whether it was the last of those asked for.
    pub(super) fn is_last_stored(&self, piece: Run) -> bool {
        self.outstanding().coming.remove(&piece.first);
        self.missing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn is_complete(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    fn outstanding(&self) -> MutexGuard<'_, Outstanding> {
        lock(&self.outstanding)
    }
}

/// The thread's state.
#[derive(Debug)]
pub(super) struct Rebuilding {
    store: Arc<Store>,
    waiting: VecDeque<(EntryId, Arc<Entry>)>,
    open: HashMap<EntryId, Open>,
    /// Chunks of the old versions of all open files, about.
    chunks: u64,
    /// Files that were begun and whose old version is not cut yet.
    begun: VecDeque<EntryId>,
}

#[derive(Debug)]
struct Open {
    rebuilt: Arc<Rebuilt>,
    sizes: ChunkSizes,
    chunks: u64,
    /// Once the old version is cut.
    assembly: Option<Assembly>,
    /// What the new version consists of, where an earlier session may have stored parts of it.
    described: Described,
}

/// Why a file is not made from its old version.
enum Failure {
    /// All of its content is needed.
    Whole,
    /// It comes to nothing.
    Trouble(Trouble),
    Violation(DeltaError),
    /// The session is over.
    Closed,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Rebuilding {
    pub(super) fn new(store: Arc<Store>) -> Self {
        let (waiting, open, begun) = (VecDeque::new(), HashMap::new(), VecDeque::new());
        Self { store, waiting, open, chunks: 0, begun }
    }

    /// Works until the session is over, or `report` says that nobody takes what came of it.
    pub(super) fn run(mut self, mut report: impl FnMut(Stored) -> bool) {
        loop {
            // The sender describes the new version while the old one is cut.
            let stored = if let Some(id) = self.begun.pop_front() {
                self.cut_old(id)
            } else if let Some(job) = self.store.rebuilds.next() {
                self.handle(job)
            } else {
                return;
            };
            let worth_saying = stored.end.is_some() || !stored.outcomes.is_empty();
            if worth_saying && !report(stored) {
                return;
            }
        }
    }

    fn handle(&mut self, job: Job) -> Stored {
        let mut stored = Stored::default();
        match job {
            Job::Begin(id, entry) => self.waiting.push_back((id, entry)),
            Job::Recipe(id, recipe) => {
                if let (Some(described), Grain::Chunks) = (self.resumed(id), recipe.grain) {
                    described.hear(0, &recipe.parts);
                }
                self.describe(id, &mut stored, |assembly| assembly.hear_recipe(recipe));
            }
            Job::List(id, offset, chunks) => {
                if let Some(described) = self.resumed(id) {
                    described.hear(offset, &chunks);
                }
                self.describe(id, &mut stored, |assembly| assembly.hear_list(offset, &chunks));
            }
            Job::PiecesStored(id) => self.finish_if_complete(id, &mut stored),
            Job::NoRecipe(id) => self.fail(id, Failure::Whole, &mut stored),
            Job::Settled(id) => self.close(id),
            Job::Close => {}
        }
        self.begin_waiting(&mut stored);
        stored
    }

    /// Begins files as long as there is room.
    fn begin_waiting(&mut self, stored: &mut Stored) {
        while stored.end.is_none()
            && self.open.len() < MOST_OPEN
            && (self.chunks < MOST_CHUNKS || self.open.is_empty())
            && let Some((id, entry)) = self.waiting.pop_front()
        {
            match self.begin(id, &entry) {
                Ok(()) => stored.outcomes.push((id, Outcome::Delta)),
                Err(failure) => self.give_up(id, &entry, failure, stored),
            }
        }
    }

    fn begin(&mut self, id: EntryId, entry: &Arc<Entry>) -> Result<(), Failure> {
        let file = self.store.target.rebuild(entry)?.ok_or(Failure::Whole)?;
        let sizes = worthwhile(file.old_size(), entry.size()).ok_or(Failure::Whole)?;
        let chunks = file.old_size() / sizes.average() as u64;
        let rebuilt = Arc::new(Rebuilt::new(Arc::clone(entry), file));
        self.store.registry.replace(id, Awaited::Delta(Arc::clone(&rebuilt)));
        self.chunks += chunks;
        self.open
            .insert(id, Open { rebuilt, sizes, chunks, assembly: None, described: Described::default() });
        self.begun.push_back(id);
        Ok(())
    }

    fn cut_old(&mut self, id: EntryId) -> Stored {
        let mut stored = Stored::default();
        let Some(open) = self.open.get_mut(&id) else { return stored };
        let mut builder = OldBuilder::default();
        let mut chunker = Chunker::new(open.sizes);
        let cut = read_blocks(&self.store, open.rebuilt.file.old_size(), |buffer, offset| {
            check_full(open.rebuilt.file.read_old(buffer, offset)?, buffer)?;
            chunker.push(buffer, |chunk| builder.push(chunk));
            Ok(())
        });
        match cut {
            Ok(()) => {
                chunker.finish(|chunk| builder.push(chunk));
                let size = open.rebuilt.entry.size();
                open.assembly = Some(Assembly::new(size, open.sizes, builder.finish()));
            }
            Err(failure) => self.fail(id, failure, &mut stored),
        }
        stored
    }

    /// Takes down what a file consists of, if parts of it may be stored.
    fn resumed(&mut self, id: EntryId) -> Option<&mut Described> {
        let open = self.open.get_mut(&id).filter(|open| open.rebuilt.file.is_resumed());
        open.map(|open| &mut open.described)
    }

    /// Takes what the sender says of a file that is open.
    fn describe(
        &mut self,
        id: EntryId,
        stored: &mut Stored,
        hear: impl FnOnce(&mut Assembly) -> Result<Needs, DeltaError>,
    ) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let Some(assembly) = &mut open.assembly else { return };
        let heard = hear(assembly).map(|needs| without_stored(open, needs));
        match heard {
            Ok(needs) if needs == Needs::default() => self.finish_if_complete(id, stored),
            Ok(needs) => {
                open.rebuilt.ask(&needs);
                stored.outcomes.push((id, Outcome::Needs(needs)));
            }
            Err(error) => self.fail(id, Failure::Violation(error), stored),
        }
    }

    fn finish_if_complete(&mut self, id: EntryId, stored: &mut Stored) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let is_described = open.assembly.as_ref().is_some_and(Assembly::is_described);
        if !is_described || !open.rebuilt.is_complete() {
            return;
        }
        let (rebuilt, delta) = (Arc::clone(&open.rebuilt), open.assembly.take().and_then(Assembly::finish));
        let made = delta.ok_or(Failure::Whole).and_then(|delta| self.make(&rebuilt, &delta));
        match made {
            Ok(fate) => {
                self.store.registry.settle(id);
                self.close(id);
                stored.outcomes.push((id, fate.into()));
            }
            Err(failure) => self.fail(id, failure, stored),
        }
    }

    /// Copies what the old version has, hashes all of it in order, and puts it in the old version's place.
    fn make(&self, rebuilt: &Rebuilt, delta: &Delta) -> Result<Fate, Failure> {
        let mut hasher = Hasher::whole();
        let mut found = 0;
        for step in &delta.steps {
            self.take_step(rebuilt, *step, &mut hasher)?;
            found += match step.origin {
                Origin::Old(_) => step.length,
                Origin::Sender => 0,
            };
        }
        // The old version was written to meanwhile, or names were made to be equal.
        if hasher.finish() != delta.hash {
            return Err(Failure::Whole);
        }
        let fate = rebuilt.file.commit()?;
        self.store.remember(&rebuilt.entry, delta.hash);
        self.store.found_bytes.fetch_add(found, Ordering::Relaxed);
        Ok(fate)
    }

    fn take_step(&self, rebuilt: &Rebuilt, step: Step, hasher: &mut Hasher) -> Result<(), Failure> {
        let mut written = Ok(());
        let read = read_blocks(&self.store, step.length, |buffer, offset| {
            let place = step.offset + offset;
            match step.origin {
                Origin::Sender => check_full(rebuilt.file.read_new(buffer, place)?, buffer)?,
                Origin::Old(old) => {
                    check_full(rebuilt.file.read_old(buffer, old + offset)?, buffer)?;
                    written = rebuilt.file.write_at(place, buffer);
                }
            }
            hasher.update(buffer);
            Ok(())
        });
        written.map_err(Failure::Trouble).and(read)
    }

    fn fail(&mut self, id: EntryId, failure: Failure, stored: &mut Stored) {
        let Some(open) = self.open.get(&id) else { return };
        let entry = Arc::clone(&open.rebuilt.entry);
        if matches!(failure, Failure::Whole) {
            open.rebuilt.file.discard();
        }
        self.close(id);
        self.give_up(id, &entry, failure, stored);
    }

    /// Says what becomes of a file that is not open any more.
    fn give_up(&self, id: EntryId, entry: &Arc<Entry>, failure: Failure, stored: &mut Stored) {
        let failure = match failure {
            Failure::Whole => match await_content(&self.store.target, entry) {
                Ok(awaited) => {
                    self.store.registry.replace(id, awaited);
                    return stored.outcomes.push((id, Outcome::ContentAgain));
                }
                Err(trouble) => trouble,
            },
            Failure::Trouble(trouble) => trouble,
            Failure::Violation(error) => {
                stored.end = Some(EndCause::Violation(Violation::Delta { id, error }));
                return;
            }
            Failure::Closed => return,
        };
        self.store.registry.settle(id);
        match failure {
            Trouble::Problem(problem) => stored.outcomes.push((id, Outcome::Problem(problem))),
            Trouble::Guard { reason, path, source } => {
                stored.end = Some(EndCause::Stop(Stop::at(path, reason, source)));
            }
        }
    }

    fn close(&mut self, id: EntryId) {
        if let Some(open) = self.open.remove(&id) {
            self.chunks -= open.chunks;
        }
    }
}

/// Leaves out the pieces that an earlier session stored.
fn without_stored(open: &Open, needs: Needs) -> Needs {
    if !open.rebuilt.file.is_resumed() {
        return needs;
    }
    let mut content = Vec::new();
    let pieces = open.described.missing(&needs.pieces, |offset, chunk| {
        content.resize(chunk.length as usize, 0);
        let read = open.rebuilt.file.read_new(&mut content, offset);
        read.is_ok_and(|length| length == content.len()) && Name::of(&content) == chunk.name
    });
    Needs { pieces, ..needs }
}

fn check_full(read: usize, buffer: &[u8]) -> io::Result<()> {
    if read == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Calls `read` for one block after another of `length` bytes. A file that can't be read, or the end of the
/// session, ends it early.
fn read_blocks(
    store: &Store,
    length: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; length.min(BLOCK_BYTES as u64) as usize];
    let mut offset = 0;
    while offset < length {
        if store.registry.is_closed() {
            return Err(Failure::Closed);
        }
        let block = (length - offset).min(BLOCK_BYTES as u64);
        read(&mut buffer[..block as usize], offset).map_err(|_unreadable| Failure::Whole)?;
        offset += block;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use ketch_protocol::{
        manifest::{EntryKind, Timestamp},
        path::EntryPath,
    };

    use super::*;
    use crate::tree::{Durability, Handling, Options, Target};

    fn rebuilding(folder: &Path) -> Rebuilding {
        let options = Options { handling: Handling::receiving(true), durability: Durability::None };
        Rebuilding::new(Arc::new(Store::new(Target::open(folder, options).unwrap())))
    }

    /// The job of a file of 40,000 bytes whose old version has 50,000.
    fn begin(folder: &Path, id: u64) -> Job {
        let name = format!("f{id}");
        fs::write(folder.join(&name), vec![7; 50_000]).unwrap();
        let path = EntryPath::parse(name.as_bytes()).unwrap();
        let kind = EntryKind::File { size: 40_000 };
        Job::Begin(EntryId(id), Arc::new(Entry::new(path, kind, 0o644, Timestamp::default())))
    }

    #[test]
    fn an_old_version_that_shrinks_while_it_is_cut_is_of_no_use() {
        let folder = tempfile::tempdir().unwrap();
        let mut rebuilding = rebuilding(folder.path());
        assert_eq!(rebuilding.handle(begin(folder.path(), 0)).outcomes, [(EntryId(0), Outcome::Delta)]);
        fs::File::options().write(true).open(folder.path().join("f0")).unwrap().set_len(100).unwrap();
        let id = rebuilding.begun.pop_front().unwrap();
        assert_eq!(rebuilding.cut_old(id).outcomes, [(EntryId(0), Outcome::ContentAgain)]);
        assert_eq!((rebuilding.open.len(), rebuilding.chunks), (0, 0));
    }

    #[test]
    fn files_wait_until_one_that_is_open_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let mut rebuilding = rebuilding(folder.path());
        let mut begun = 0;
        for id in 0..MOST_OPEN as u64 + 2 {
            begun += rebuilding.handle(begin(folder.path(), id)).outcomes.len();
        }
        assert_eq!((begun, rebuilding.waiting.len()), (MOST_OPEN, 2));
        let next = rebuilding.handle(Job::Settled(EntryId(3))).outcomes;
        assert_eq!(next, [(EntryId(MOST_OPEN as u64), Outcome::Delta)]);
        assert_eq!(rebuilding.open.len(), MOST_OPEN);
    }

    #[test]
    fn a_file_that_is_gone_by_now_is_fetched_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut rebuilding = rebuilding(folder.path());
        let job = begin(folder.path(), 0);
        fs::remove_file(folder.path().join("f0")).unwrap();
        assert_eq!(rebuilding.handle(job).outcomes, [(EntryId(0), Outcome::ContentAgain)]);
    }

    #[test]
    fn the_end_of_the_session_ends_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let rebuilding = rebuilding(folder.path());
        rebuilding.store.rebuilds.hand_in(begin(folder.path(), 0));
        rebuilding.store.close();
        let mut reports = 0;
        rebuilding.run(|_| {
            reports += 1;
            true
        });
        assert_eq!(reports, 1);
    }

    #[test]
    fn only_what_was_asked_for_is_taken_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut rebuilding = rebuilding(folder.path());
        rebuilding.handle(begin(folder.path(), 0));
        let rebuilt = &rebuilding.open[&EntryId(0)].rebuilt;
        let run = |first, count| Run { first, count };
        rebuilt.ask(&Needs { lists: vec![run(1, 2)], pieces: vec![run(10, 20), run(50, 5)] });
        assert!(!rebuilt.claim(run(10, 19)) && !rebuilt.claim(run(11, 19)));
        assert!(rebuilt.claim(run(10, 20)) && !rebuilt.claim(run(10, 20)));
        assert!(rebuilt.claim(run(50, 5)));
        assert!(!rebuilt.is_last_stored(run(10, 20)) && !rebuilt.is_complete());
        assert!(rebuilt.is_last_stored(run(50, 5)) && rebuilt.is_complete());
        assert!(!rebuilt.awaits_list(run(10, 20)) && !rebuilt.awaits_list(run(1, 1)));
        assert!(rebuilt.awaits_list(run(1, 2)) && rebuilt.hear_list(1));
        assert!(!rebuilt.awaits_list(run(1, 2)) && !rebuilt.hear_list(1));
        assert!(rebuilt.awaits_recipe() && rebuilt.hear_recipe());
        assert!(!rebuilt.awaits_recipe() && !rebuilt.hear_recipe());
    }

    #[test]
    fn a_piece_that_broke_off_may_come_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut rebuilding = rebuilding(folder.path());
        rebuilding.handle(begin(folder.path(), 0));
        let rebuilt = &rebuilding.open[&EntryId(0)].rebuilt;
        let piece = Run { first: 10, count: 20 };
        rebuilt.ask(&Needs { lists: vec![], pieces: vec![piece] });
        assert!(rebuilt.claim(piece));
        assert!(!rebuilt.release(piece), "it did not come meanwhile");
        assert!(rebuilt.claim(piece) && !rebuilt.claim(piece));
        assert!(rebuilt.release(piece), "it came while it was worked on, and has to be asked for");
        assert!(rebuilt.claim(piece) && rebuilt.is_last_stored(piece));
    }
}
