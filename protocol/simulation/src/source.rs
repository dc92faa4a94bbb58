//! The sender's side: its machine, a tree, and a driver that only does what it is told.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::executor::block_on;
use ketch_protocol::{
    chunk::{ChunkSizes, Chunker},
    delta::Describer,
    hash::ContentHash,
    io::{DataForm, StreamKind},
    limits::BLOCK_BYTES,
    manifest::Entry,
    message::{Claim, Connections, Fill, Frames, Message, Propose, Run, Secret, SessionId, encode},
    path::EntryPath,
    problem::{Cause, Problem},
    record::segment::{
        Span, put_aborted, put_begin, put_block_length, put_digest, put_end, put_list, put_list_end,
        put_part, put_piece, put_recipe,
    },
    session::{
        Ending, Sender,
        sender::{Action, Input, Job, Wanted},
    },
};

use crate::{
    Side,
    link::{CONTROL, Link},
    tree::{Node, Tree, catalogue},
};

const IN_MEMORY: &str = "a vector takes any number of bytes";

/// What befalls a file between the scan and the read.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// It became shorter.
    Truncated {
        /// How many bytes are left.
        to: usize,
    },
    /// It became longer.
    Grown,
    /// It is not there any more.
    Gone,
    /// Its bytes are damaged on their way to the receiver.
    Damaged,
}

/// The driver.
#[derive(Debug)]
pub struct Source {
    /// The machine.
    pub machine: Sender,
    /// What it lists.
    pub tree: Tree,
    /// Files that something befalls.
    pub faults: BTreeMap<EntryPath, Fault>,
    /// What admits a receiver.
    pub secret: Secret,
    /// What the scan names and leaves out, when it is compared.
    pub problems: Vec<Problem>,
    /// Whether files are listed with their hashes, when they are compared.
    pub hashes_known: bool,
    /// How many data streams carry content.
    pub data_streams: usize,
    /// How the session ended.
    pub ending: Option<Ending>,
    /// What a person is told.
    pub reports: Vec<Problem>,
    /// Bytes of file content that were sent.
    pub content_bytes: u64,
    /// Batches of the manifest that were sent.
    pub batches: usize,
    /// Entries of which it was told what became of them, and paths that were removed.
    pub told: usize,
    kind: Option<StreamKind>,
    frames: Frames,
    session: SessionId,
    scan: Scan,
    opened: Vec<usize>,
    /// What waits for a data stream to take it.
    left: VecDeque<(Arc<Job>, Segment)>,
    segments_sent: usize,
}

/// What of a job is sent at once.
#[derive(Debug, Clone, Copy)]
enum Segment {
    Content(Span),
    Digest(Span),
    Description,
}

#[derive(Debug)]
enum Scan {
    NotAsked,
    Left(Vec<Entry>),
    Ended,
}

impl Source {
    /// A driver with a tree that `secret` admits to.
    pub fn new(tree: Tree, secret: Secret) -> Self {
        Self {
            machine: Sender::default(),
            tree,
            faults: BTreeMap::new(),
            secret,
            problems: Vec::new(),
            hashes_known: true,
            data_streams: 1,
            ending: None,
            reports: Vec::new(),
            content_bytes: 0,
            batches: 0,
            told: 0,
            kind: None,
            frames: Frames::default(),
            session: SessionId([0; 16]),
            scan: Scan::NotAsked,
            opened: Vec::new(),
            left: VecDeque::new(),
            segments_sent: 0,
        }
    }

    /// Opens the control stream and proposes.
    pub(crate) fn propose(&mut self, propose: Propose, now: Duration, link: &mut Link) {
        let mut kind = Vec::new();
        block_on(StreamKind::Control.write(&mut kind)).expect(IN_MEMORY);
        link.send(Side::Sender, CONTROL, &kind, now);
        self.kind = Some(StreamKind::Control);
        let (machine, actions) = Sender::propose(propose);
        self.machine = machine;
        for action in actions {
            assert!(self.act(action, now, link).is_none());
        }
    }

    /// Bytes of the control stream came.
    pub(crate) fn hear(&mut self, mut bytes: &[u8], now: Duration, link: &mut Link) {
        if self.kind.is_none() {
            self.kind = block_on(StreamKind::read(&mut bytes)).ok();
        }
        self.frames.push(bytes);
        loop {
            match self.frames.next_message() {
                Ok(Some(message)) => self.handle(Input::Message(message), now, link),
                Ok(None) => return,
                Err(error) => return self.handle(Input::Violation(error.into()), now, link),
            }
        }
    }

    pub(crate) fn handle(&mut self, input: Input, now: Duration, link: &mut Link) {
        self.feed(vec![input], now, link);
    }

    /// Goes on with what the link had no room for.
    pub(crate) fn go_on(&mut self, now: Duration, link: &mut Link) {
        if self.ending.is_none() {
            self.feed(Vec::new(), now, link);
        }
    }

    fn feed(&mut self, mut inputs: Vec<Input>, now: Duration, link: &mut Link) {
        loop {
            if inputs.is_empty() {
                let has_room = link.takes(Side::Sender, CONTROL) && self.machine.may_announce();
                inputs.extend(has_room.then_some(Input::Room));
                inputs.extend(self.scan());
            }
            let Some(input) = inputs.pop() else { break };
            for action in self.machine.handle(input, now) {
                inputs.extend(self.act(action, now, link));
            }
        }
        self.send_segments(now, link);
    }

    fn act(&mut self, action: Action, now: Duration, link: &mut Link) -> Option<Input> {
        assert_eq!(self.ending, None, "{action:?} follows the end");
        match action {
            Action::Send(message) => {
                self.batches += usize::from(matches!(message, Message::Manifest(_)));
                link.send(Side::Sender, CONTROL, &encode(&message), now);
            }
            Action::Admit(ask) => {
                self.session = ask.session;
                let admitted = match ask.claim {
                    Claim::Ticket(secret) => secret == self.secret,
                    Claim::Share(_) | Claim::Proposed => true,
                };
                return Some(if admitted {
                    Input::Admitted { estimate: None, connections: Connections::ONE, disk: None }
                } else {
                    Input::Denied
                });
            }
            Action::List => {
                self.scan = Scan::Left(self.tree.iter().rev().map(|(path, node)| node.entry(path)).collect());
            }
            Action::Read(jobs) => jobs.into_iter().for_each(|job| self.read(job)),
            Action::Catalogue => {
                let catalogue = catalogue(&self.tree, self.hashes_known, 1);
                return Some(Input::Catalogued { catalogue, problems: self.problems.clone() });
            }
            Action::Report(problem) => self.reports.push(problem),
            Action::Settled { entries, .. } => self.told += entries.len(),
            Action::Removed(paths) => self.told += paths.len(),
            Action::End(ending) => self.ending = Some(ending),
        }
        None
    }

    /// The next batch of the scan, as far as there is room.
    fn scan(&mut self) -> Option<Input> {
        let Scan::Left(left) = &mut self.scan else { return None };
        let mut room = self.machine.room();
        if left.is_empty() {
            self.scan = Scan::Ended;
            return Some(Input::ListEnded);
        }
        let (mut entries, mut fill) = (Vec::new(), Fill::default());
        while room > 0 && !fill.is_full() {
            let Some(entry) = left.pop() else { break };
            fill.add_entry(&entry);
            entries.push(entry);
            room -= 1;
        }
        (!entries.is_empty()).then_some(Input::Listed { entries, problems: Vec::new() })
    }

    fn read(&mut self, job: Job) {
        let size = job.entry.size();
        let (content, digest): (Vec<u64>, Vec<u64>) = match &job.wanted {
            Wanted::Content => ((0..Span::count(size)).collect(), Vec::new()),
            Wanted::Digest => (Vec::new(), (0..Span::count(size)).collect()),
            Wanted::Recipe | Wanted::Lists(_) | Wanted::Pieces(_) => {
                return self.left.push_back((Arc::new(job), Segment::Description));
            }
            Wanted::Parts { content, digest } => (
                content.iter().flat_map(|run| run.numbers()).collect(),
                digest.iter().flat_map(|run| run.numbers()).collect(),
            ),
        };
        let span = |index| if Span::count(size) == 1 { Span::whole(size) } else { Span::range(size, index) };
        let content = content.into_iter().map(|index| Segment::Content(span(index)));
        let digest = digest.into_iter().map(|index| Segment::Digest(span(index)));
        let job = Arc::new(job);
        self.left.extend(content.chain(digest).map(|segment| (Arc::clone(&job), segment)));
    }

    /// Gives segments to the data streams in turn, as far as these take them.
    fn send_segments(&mut self, now: Duration, link: &mut Link) {
        while self.ending.is_none()
            && let Some(stream) = self.next_stream(link)
            && let Some((job, segment)) = self.left.pop_front()
        {
            let bytes = match segment {
                Segment::Content(span) => self.segment(&job, span),
                Segment::Digest(span) => self.digest(&job, span),
                Segment::Description => self.describe(&job),
            };
            self.say(stream, &bytes, now, link);
            self.segments_sent += 1;
        }
    }

    fn next_stream(&self, link: &Link) -> Option<usize> {
        let in_turn = (0..self.data_streams).map(|next| 1 + (self.segments_sent + next) % self.data_streams);
        in_turn.into_iter().find(|stream| link.takes(Side::Sender, *stream))
    }

    /// Whole segments of what a file is made of.
    fn describe(&mut self, job: &Job) -> Vec<u8> {
        let content = self.content(job).to_vec();
        let sizes = ChunkSizes::of_file(content.len() as u64)
            .expect("files of that length are made from old versions");
        let bytes = |run: &Run| &content[run.first as usize..run.numbers().end as usize];
        let mut out = Vec::new();
        match &job.wanted {
            Wanted::Recipe => {
                let mut describer = Describer::new(sizes);
                describer.push(&content);
                let recipe = describer.finish().expect("a file in memory has few chunks");
                put_recipe(&mut out, job.id, recipe.grain);
                recipe.parts.into_iter().for_each(|part| put_part(&mut out, part));
                put_end(&mut out, recipe.hash);
            }
            Wanted::Lists(runs) => runs.iter().for_each(|run| {
                put_list(&mut out, job.id, *run);
                let mut chunker = Chunker::new(sizes);
                chunker.push(bytes(run), |chunk| put_part(&mut out, chunk));
                chunker.finish(|chunk| put_part(&mut out, chunk));
                put_list_end(&mut out);
            }),
            Wanted::Pieces(runs) => runs.iter().for_each(|run| {
                put_piece(&mut out, job.id, *run);
                bytes(run).chunks(BLOCK_BYTES).for_each(|block| {
                    put_block_length(&mut out, block.len());
                    out.extend_from_slice(block);
                });
                self.content_bytes += run.count;
                put_end(&mut out, ContentHash::of_nothing());
            }),
            Wanted::Content | Wanted::Digest | Wanted::Parts { .. } => {
                unreachable!("it has segments of its own")
            }
        }
        out
    }

    /// Puts a whole segment on a data stream.
    fn say(&mut self, stream: usize, bytes: &[u8], now: Duration, link: &mut Link) {
        if !self.opened.contains(&stream) {
            let mut kind = Vec::new();
            let says = StreamKind::Data(self.session, DataForm::default());
            block_on(says.write(&mut kind)).expect(IN_MEMORY);
            link.send(Side::Sender, stream, &kind, now);
            self.opened.push(stream);
        }
        link.send(Side::Sender, stream, bytes, now);
    }

    fn segment(&mut self, job: &Job, span: Span) -> Vec<u8> {
        let mut out = Vec::new();
        let fault = self.faults.get(&job.entry.path).copied();
        let listed = self.part(job, span);
        let there = match fault {
            Some(Fault::Truncated { to }) => &listed[..to.min(listed.len())],
            Some(Fault::Gone) => &[],
            Some(Fault::Grown | Fault::Damaged) | None => &listed[..],
        };
        put_begin(&mut out, job.id, span);
        for block in there.chunks(BLOCK_BYTES) {
            put_block_length(&mut out, block.len());
            out.extend_from_slice(block);
        }
        self.content_bytes += there.len() as u64;
        let mut hasher = span.hasher(job.entry.size());
        hasher.update(there);
        match fault {
            Some(Fault::Truncated { to }) => put_aborted(&mut out, Cause::Changed, &format!("{to} left")),
            Some(Fault::Grown) => put_aborted(&mut out, Cause::Changed, "it has grown"),
            Some(Fault::Gone) => put_aborted(&mut out, Cause::Vanished, ""),
            Some(Fault::Damaged) => {
                *out.last_mut().expect("a segment has a beginning") ^= 1;
                put_end(&mut out, hasher.finish());
            }
            None => put_end(&mut out, hasher.finish()),
        }
        out
    }

    fn digest(&self, job: &Job, span: Span) -> Vec<u8> {
        let mut hasher = span.hasher(job.entry.size());
        hasher.update(&self.part(job, span));
        let mut out = Vec::new();
        put_digest(&mut out, job.id, span, hasher.finish());
        out
    }

    fn part(&self, job: &Job, span: Span) -> Vec<u8> {
        self.content(job)[span.offset() as usize..][..span.length() as usize].to_vec()
    }

    fn content(&self, job: &Job) -> &[u8] {
        match self.tree.get(&job.entry.path) {
            Some(Node::File(content)) => content,
            Some(Node::Directory | Node::Link(_)) | None => unreachable!("a job of a file"),
        }
    }
}
