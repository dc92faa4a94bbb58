//! The receiver's side: its machine, a tree, and a driver that stores what comes. Like a real one, it lets
//! a file be seen only when all of it has come and every hash was right.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::executor::block_on;
use ketch_protocol::{
    chunk::{ChunkSizes, Chunker},
    delta::{Assembly, Needs, OldBuilder, Origin, Recipe},
    hash::Hasher,
    io::StreamKind,
    manifest::{Entry, EntryId, EntryKind},
    message::{Ask, Connections, Counts, Frames, Message, Run, TargetView, encode},
    path::EntryPath,
    problem::{Cause, Problem},
    record::segment::Span,
    session::{
        Ending, Receiver, SessionError,
        receiver::{Action, Agreed, Answer, Input, Outcome},
    },
};

use crate::{
    Side,
    incoming::{Arrived, Incoming, What},
    link::{CONTROL, Link},
    tree::{Node, Tree, catalogue},
};

/// The driver.
#[derive(Debug)]
pub struct Target {
    /// None until a sender has proposed.
    pub machine: Option<Receiver>,
    /// What can be seen.
    pub tree: Tree,
    /// Whether what is different is replaced.
    pub overwrite: bool,
    /// Whether what was not listed is removed.
    pub remove: bool,
    /// Nothing is written.
    pub preview: bool,
    /// What it says a preview would have needed.
    pub planned_bytes: u64,
    /// What it answers to a proposal.
    pub view: TargetView,
    /// The roots of an earlier session.
    pub agreed: Option<Agreed>,
    /// What a person answers; nobody does when absent.
    pub answer: Option<Answer>,
    /// Content of large files that an earlier session left, by range.
    pub held: BTreeMap<EntryPath, BTreeMap<u64, Vec<u8>>>,
    /// What goes wrong when directories are completed.
    pub late: Vec<Problem>,
    /// Settles nothing: a target that hangs.
    pub stalled: bool,
    /// How the session ended.
    pub ending: Option<Ending>,
    /// What a person is told.
    pub reports: Vec<Problem>,
    kind: Option<StreamKind>,
    frames: Frames,
    /// What is in the tree and was not found equal to anything of the sender, nor listed.
    extras: BTreeSet<EntryPath>,
    streams: BTreeMap<usize, Incoming>,
    planned: BTreeMap<EntryId, Arc<Entry>>,
    announced: u64,
    partial: BTreeMap<EntryId, BTreeMap<u64, Vec<u8>>>,
    digests: BTreeMap<EntryId, BTreeSet<u64>>,
    rebuilds: BTreeMap<EntryId, Rebuild>,
}

/// A file that is made from its old version.
#[derive(Debug)]
struct Rebuild {
    assembly: Assembly,
    old: Vec<u8>,
    new: Vec<u8>,
    awaited_bytes: u64,
}

/// Why a description makes sense.
const HONEST: &str = "the sender describes what is there";

/// Files of fewer bytes are fetched whole.
const REBUILT_BYTES: usize = 16 * 1024;

impl Target {
    /// A driver that waits for a proposal.
    pub(crate) fn new(tree: Tree) -> Self {
        Self {
            machine: None,
            tree,
            overwrite: false,
            remove: false,
            preview: false,
            planned_bytes: 0,
            view: TargetView::Comparable,
            agreed: None,
            answer: Some(Answer::Yes),
            held: BTreeMap::new(),
            late: Vec::new(),
            stalled: false,
            ending: None,
            reports: Vec::new(),
            kind: None,
            frames: Frames::default(),
            extras: BTreeSet::new(),
            streams: BTreeMap::new(),
            planned: BTreeMap::new(),
            announced: 0,
            partial: BTreeMap::new(),
            digests: BTreeMap::new(),
            rebuilds: BTreeMap::new(),
        }
    }

    /// Opens the control stream and asks.
    pub(crate) fn ask(&mut self, ask: Ask, now: Duration, link: &mut Link) {
        let mut kind = Vec::new();
        block_on(StreamKind::Control.write(&mut kind)).expect("a vector takes any number of bytes");
        link.send(Side::Receiver, CONTROL, &kind, now);
        self.kind = Some(StreamKind::Control);
        let begun = Receiver::new(ask);
        self.begin(begun, now, link);
    }

    fn begin(&mut self, (machine, actions): (Receiver, Vec<Action>), now: Duration, link: &mut Link) {
        self.machine = Some(machine);
        for action in actions {
            for input in self.act(action, now, link) {
                self.handle(input, now, link);
            }
        }
    }

    /// Bytes of a stream came.
    pub(crate) fn hear(&mut self, stream: usize, mut bytes: &[u8], now: Duration, link: &mut Link) {
        if stream == CONTROL {
            if self.kind.is_none() {
                self.kind = block_on(StreamKind::read(&mut bytes)).ok();
            }
            self.frames.push(bytes);
            self.hear_messages(now, link);
        } else {
            self.streams.entry(stream).or_default().push(bytes);
        }
        self.drain(now, link);
    }

    fn hear_messages(&mut self, now: Duration, link: &mut Link) {
        loop {
            match self.frames.next_message() {
                Ok(Some(Message::Propose(propose))) if self.machine.is_none() => {
                    self.preview = propose.policy.preview;
                    self.begin(Receiver::answer(propose), now, link);
                }
                Ok(Some(message)) => self.handle(Input::Message(message), now, link),
                Ok(None) => return,
                Err(error) => return self.handle(Input::Violation(error.into()), now, link),
            }
        }
    }

    /// Something happened on this side.
    pub fn handle(&mut self, input: Input, now: Duration, link: &mut Link) {
        if let (None, Input::Lost(detail)) = (&self.machine, &input) {
            let lost = SessionError::Lost { awaited: "propose", detail: detail.clone() };
            self.ending = Some(Ending::Failed(lost));
        }
        let mut inputs = VecDeque::from([input]);
        while let (Some(machine), Some(input)) = (&mut self.machine, inputs.pop_front()) {
            for action in machine.handle(input, now) {
                inputs.extend(self.act(action, now, link));
            }
        }
    }

    fn act(&mut self, action: Action, now: Duration, link: &mut Link) -> Vec<Input> {
        assert_eq!(self.ending, None, "{action:?} follows the end");
        match action {
            Action::Send(message) => link.send(Side::Receiver, CONTROL, &encode(&message), now),
            Action::Admit(_) => {
                return vec![Input::Admitted { target: self.view, connections: Connections::ONE }];
            }
            Action::Catalogue => {
                let catalogue = catalogue(&self.tree, true, 2);
                return vec![Input::Catalogued { catalogue, agreed: self.agreed }];
            }
            Action::Compared => self.note_extras(),
            Action::Offered(_) => {}
            Action::Consult { .. } => return self.answer.map(Input::Consent).into_iter().collect(),
            Action::Plan { first, entries } => {
                let outcomes = entries.into_iter().zip(first.0..).filter_map(|(entry, id)| {
                    self.announced = id + 1;
                    self.plan(EntryId(id), entry).map(|outcome| (EntryId(id), outcome))
                });
                let outcomes: Vec<_> = outcomes.collect();
                return if self.stalled { Vec::new() } else { vec![Input::Outcomes(outcomes)] };
            }
            Action::Finish => return self.finish(),
            Action::Report(problem) => self.reports.push(problem),
            Action::End(ending) => self.ending = Some(ending),
        }
        Vec::new()
    }

    fn note_extras(&mut self) {
        let narrowing = self.machine.as_mut().and_then(Receiver::take_narrowing);
        let unmatched = narrowing.iter().flat_map(|narrowing| narrowing.unmatched_entries());
        self.extras = unmatched.map(|entry| entry.path).collect();
    }

    /// Removes what was not listed, children first.
    fn finish(&mut self) -> Vec<Input> {
        let extras = std::mem::take(&mut self.extras);
        let gone: Vec<EntryPath> = extras.into_iter().rev().filter(|_| self.remove).collect();
        if !self.preview {
            gone.iter().for_each(|path| drop(self.tree.remove(path)));
        }
        let planned = Input::Planned { bytes: self.planned_bytes };
        vec![Input::Removed(gone), planned, Input::Finished { late: std::mem::take(&mut self.late) }]
    }

    /// The account.
    pub fn counts(&self) -> Counts {
        self.machine.as_ref().map(Receiver::counts).unwrap_or_default()
    }

    fn plan(&mut self, id: EntryId, entry: Arc<Entry>) -> Option<Outcome> {
        self.extras.remove(&entry.path);
        let there = self.tree.get(&entry.path).cloned();
        let wanted = match &entry.kind {
            EntryKind::Directory => Node::Directory,
            EntryKind::Symlink { target } => Node::Link(target.to_vec()),
            EntryKind::File { size: 0 } => Node::File(Vec::new()),
            EntryKind::File { .. } => return Some(self.plan_content(id, entry, there)),
            EntryKind::HardLink { .. } => unreachable!("no tree here has hard links"),
        };
        Some(match there {
            Some(there) if there == wanted => Outcome::Kept,
            Some(_) if !self.overwrite => exists(&entry),
            Some(_) | None => self.put(&entry, wanted),
        })
    }

    fn plan_content(&mut self, id: EntryId, entry: Arc<Entry>, there: Option<Node>) -> Outcome {
        let size = entry.size();
        let equal = there
            .as_ref()
            .is_some_and(|node| entry.hash.is_some() && node.hashed_entry(&entry.path).hash == entry.hash);
        if equal {
            return Outcome::Kept;
        }
        if self.preview {
            return if there.is_some() { Outcome::Updated } else { Outcome::Created };
        }
        self.planned.insert(id, Arc::clone(&entry));
        match there {
            Some(Node::File(content)) if content.len() as u64 == size && entry.hash.is_none() => {
                self.digests.insert(id, (0..Span::count(size)).collect());
                Outcome::Digest
            }
            Some(_) if !self.overwrite => exists(&entry),
            Some(Node::File(old)) if old.len() >= REBUILT_BYTES => self.rebuild(id, size, old),
            Some(_) | None => match self.held.get(&entry.path) {
                Some(held) => {
                    self.partial.insert(id, held.clone());
                    let mut content = Vec::new();
                    (0..Span::count(size))
                        .filter(|index| !held.contains_key(index))
                        .for_each(|index| Run::append(&mut content, index));
                    Outcome::Parts { content, digest: Vec::new() }
                }
                None => Outcome::Content,
            },
        }
    }

    /// Takes what the data streams hold, as far as its entries are known.
    fn drain(&mut self, now: Duration, link: &mut Link) {
        let mut streams = std::mem::take(&mut self.streams);
        for incoming in streams.values_mut() {
            loop {
                match incoming.next(self.announced) {
                    Ok(Some(arrived)) => {
                        if let Some(outcome) = self.take(arrived) {
                            self.handle(Input::Outcomes(vec![outcome]), now, link);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.handle(Input::Violation(error.into()), now, link);
                        break;
                    }
                }
            }
        }
        self.streams = streams;
    }

    fn take(&mut self, Arrived { id, what }: Arrived) -> Option<(EntryId, Outcome)> {
        let entry = Arc::clone(self.planned.get(&id)?);
        let outcome = match what {
            What::Content { span, content, hash } => {
                let mut hasher = span.hasher(entry.size());
                hasher.update(&content);
                if hasher.finish() != hash {
                    problem(&entry, Cause::Corrupt)
                } else {
                    self.store(id, &entry, span, content)?
                }
            }
            What::Aborted(cause) => problem(&entry, cause),
            What::Digest { span, hash } => {
                let Some(Node::File(content)) = self.tree.get(&entry.path) else { return None };
                let mut hasher = span.hasher(entry.size());
                hasher.update(&content[span.offset() as usize..][..span.length() as usize]);
                self.compare(id, &entry, span, hasher.finish() == hash)?
            }
            What::Recipe { grain, parts, hash } => {
                let assembly = &mut self.rebuilds.get_mut(&id)?.assembly;
                let needs = assembly.hear_recipe(Recipe { grain, parts, hash }).expect(HONEST);
                self.go_on(id, &entry, needs)?
            }
            What::List { bytes, chunks } => {
                let needs =
                    self.rebuilds.get_mut(&id)?.assembly.hear_list(bytes.first, &chunks).expect(HONEST);
                self.go_on(id, &entry, needs)?
            }
            What::Piece { bytes, content } => {
                let rebuild = self.rebuilds.get_mut(&id)?;
                rebuild.new[bytes.first as usize..][..content.len()].copy_from_slice(&content);
                rebuild.awaited_bytes -= bytes.count;
                self.go_on(id, &entry, Needs::default())?
            }
        };
        if matches!(
            outcome,
            Outcome::Created
                | Outcome::Updated
                | Outcome::Described
                | Outcome::Kept
                | Outcome::Skipped
                | Outcome::Problem(_)
        ) {
            self.planned.remove(&id);
        }
        Some((id, outcome))
    }

    fn rebuild(&mut self, id: EntryId, size: u64, old: Vec<u8>) -> Outcome {
        let sizes = ChunkSizes::of_file(size).expect("files of that length are made from old versions");
        let (mut chunker, mut builder) = (Chunker::new(sizes), OldBuilder::default());
        chunker.push(&old, |chunk| builder.push(chunk));
        chunker.finish(|chunk| builder.push(chunk));
        let (assembly, new) = (Assembly::new(size, sizes, builder.finish()), vec![0; size as usize]);
        self.rebuilds.insert(id, Rebuild { assembly, old, new, awaited_bytes: 0 });
        Outcome::Delta
    }

    /// Wants what is needed next, or makes the file when that is nothing.
    fn go_on(&mut self, id: EntryId, entry: &Entry, needs: Needs) -> Option<Outcome> {
        let rebuild = self.rebuilds.get_mut(&id)?;
        rebuild.awaited_bytes += needs.pieces.iter().map(|piece| piece.count).sum::<u64>();
        if needs != Needs::default() {
            return Some(Outcome::Needs(needs));
        }
        if rebuild.awaited_bytes > 0 || !rebuild.assembly.is_described() {
            return None;
        }
        let Rebuild { assembly, old, mut new, .. } = self.rebuilds.remove(&id)?;
        let delta = assembly.finish().expect(HONEST);
        for step in delta.steps {
            if let Origin::Old(offset) = step.origin {
                let from = &old[offset as usize..][..step.length as usize];
                new[step.offset as usize..][..step.length as usize].copy_from_slice(from);
            }
        }
        let mut hasher = Hasher::whole();
        hasher.update(&new);
        assert_eq!(hasher.finish(), delta.hash, "what was made is not what was described");
        self.tree.insert(entry.path.clone(), Node::File(new));
        Some(Outcome::Updated)
    }

    fn store(&mut self, id: EntryId, entry: &Entry, span: Span, content: Vec<u8>) -> Option<Outcome> {
        let partial = self.partial.entry(id).or_default();
        partial.insert(span.index(), content);
        if (partial.len() as u64) < Span::count(entry.size()) {
            return None;
        }
        let whole = self.partial.remove(&id)?.into_values().flatten().collect();
        Some(self.put(entry, Node::File(whole)))
    }

    /// Lets something be seen.
    fn put(&mut self, entry: &Entry, node: Node) -> Outcome {
        if self.preview {
            return if self.tree.contains_key(&entry.path) { Outcome::Updated } else { Outcome::Created };
        }
        match self.tree.insert(entry.path.clone(), node) {
            Some(_) => Outcome::Updated,
            None => Outcome::Created,
        }
    }

    fn compare(&mut self, id: EntryId, entry: &Entry, span: Span, equal: bool) -> Option<Outcome> {
        let left = self.digests.get_mut(&id)?;
        left.remove(&span.index());
        if !equal {
            self.digests.remove(&id);
            let there = self.tree.get(&entry.path).cloned();
            return Some(match there {
                Some(Node::File(old)) if self.overwrite && old.len() >= REBUILT_BYTES => {
                    self.rebuild(id, entry.size(), old)
                }
                Some(_) | None if self.overwrite => Outcome::ContentAgain,
                Some(_) | None => exists(entry),
            });
        }
        left.is_empty().then_some(Outcome::Kept)
    }
}

fn exists(entry: &Entry) -> Outcome {
    problem(entry, Cause::Exists)
}

fn problem(entry: &Entry, cause: Cause) -> Outcome {
    Outcome::Problem(Problem::new(entry.path.clone(), cause, ""))
}
