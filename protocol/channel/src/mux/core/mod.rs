//! The decisions of a multiplexed connection: streams, windows, and which bytes go out. It knows no socket; frames
//! come in one by one, and bytes go out in order. Times are since the connection began.

mod streams;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    Violation,
    frame::{ACK, FIN, HEADER_BYTES, Header, Kind, RST, SYN},
    inbox::{Chunk, Inbox, Spares},
    window::{Budget, FIRST_WINDOW_BYTES, ReceiveWindow},
};
use crate::{
    limits::{CLOSING_TIME, REFUSALS, ROUND_TRIP_INTERVAL},
    settings::TcpFlow,
};

/// Who dialed: the two sides number their streams apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Dialer,
    Listener,
}

impl Role {
    fn first_stream(self) -> u32 {
        match self {
            Self::Dialer => 1,
            Self::Listener => 2,
        }
    }

    fn opens(self, stream: u32) -> bool {
        stream != 0 && stream % 2 == self.first_stream() % 2
    }
}

/// Where the content of a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mux) enum Content {
    /// To a stream, with [`Core::deliver`]; after the last of it nothing more comes if `ends`.
    Stream { ends: bool },
    /// Nowhere: the stream is gone.
    Nowhere,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub(in crate::mux) struct End {
    pub(in crate::mux) kind: io::ErrorKind,
    pub(in crate::mux) why: String,
}

impl End {
    pub(in crate::mux) fn error(&self) -> io::Error {
        io::Error::new(self.kind, self.why.clone())
    }
}

/// The state of a connection.
#[derive(Debug)]
pub(in crate::mux) struct Core {
    role: Role,
    flow: TcpFlow,
    next_stream: u32,
    streams: BTreeMap<u32, State>,
    /// How many of them the peer opened.
    accepted: usize,
    /// Opened by the peer and not taken yet.
    arrived: VecDeque<u32>,
    /// How many streams were opened by this side and not answered.
    unanswered: usize,
    opener: Option<Waker>,
    budget: Budget,
    unread: usize,
    spares: Spares,
    outgoing: Outgoing,
    round_trip: RoundTrip,
    /// Whoever moves bytes between this and the socket.
    driver: Option<Waker>,
    ended: Option<End>,
    /// When content came last on a stream that this side gave up before the peer had ended it.
    cut_off_at: Option<Duration>,
}

/// What waits to be sent.
#[derive(Debug, Default)]
struct Outgoing {
    /// Content, and what must follow it.
    frames: Vec<u8>,
    /// Streams that wait for room there.
    waiting: Vec<u32>,
    /// Streams that owe the peer an answer or more window. Each is here once.
    owing: VecDeque<u32>,
    /// Streams of the peer that were refused.
    refused: Vec<u32>,
    /// The latest ping of the peer.
    pong: Option<u32>,
    goodbye: bool,
}

/// One stream.
#[derive(Debug)]
struct State {
    /// What the next frame begins or answers: `SYN`, `ACK` or nothing.
    greeting: u16,
    /// Whether the peer has answered.
    is_answered: bool,
    send_window: u32,
    window: ReceiveWindow,
    inbox: Inbox,
    /// Whether it is among those that owe something.
    is_owing: bool,
    /// Whether it is among those that wait for room.
    is_waiting: bool,
    /// Whether this side said that nothing more comes.
    is_finished: bool,
    /// Whether the peer said so.
    is_read_to_end: bool,
    is_reset: bool,
    /// When content came last.
    heard_at: Option<Duration>,
    /// Whether nobody holds it any more.
    is_forgotten: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug, Default)]
struct RoundTrip {
    shortest: Option<Duration>,
    asked: Option<(u32, Duration)>,
    next: Option<Duration>,
    count: u32,
}

impl State {
    fn new(greeting: u16, send_window: u32, now: Duration) -> Self {
        Self {
            greeting,
            is_answered: greeting != SYN,
            send_window,
            window: ReceiveWindow::new(now),
            inbox: Inbox::default(),
            is_owing: false,
            is_waiting: false,
            is_finished: false,
            is_read_to_end: false,
            is_reset: false,
            heard_at: None,
            is_forgotten: false,
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        wake(&mut self.reader);
        wake(&mut self.writer);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// Keeps whoever polls, to wake it later.
fn keep(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(kept) if kept.will_wake(context.waker()) => {}
        Some(_) | None => *waker = Some(context.waker().clone()),
    }
}

impl Core {
    pub(in crate::mux) fn new(role: Role) -> Self {
        Self {
            role,
            flow: TcpFlow::default(),
            next_stream: role.first_stream(),
            streams: BTreeMap::new(),
            accepted: 0,
            arrived: VecDeque::new(),
            unanswered: 0,
            opener: None,
            budget: Budget::default(),
            unread: 0,
            spares: Spares::default(),
            outgoing: Outgoing::default(),
            round_trip: RoundTrip::default(),
            driver: None,
            ended: None,
            cut_off_at: None,
        }
    }

    /// Sets the bounds, before there is any stream.
    pub(in crate::mux) fn allow(&mut self, flow: TcpFlow) {
        self.budget = Budget::within(flow);
        self.flow = flow;
    }

    /// Opens a stream. The peer hears of it with its first frame.
    pub(in crate::mux) fn open(&mut self, now: Duration, context: &Context<'_>) -> Poll<io::Result<u32>> {
        if let Some(end) = &self.ended {
            return Poll::Ready(Err(end.error()));
        }
        if self.unanswered >= self.flow.unanswered_streams {
            keep(&mut self.opener, context);
            return Poll::Pending;
        }
        let id = self.next_stream;
        let Some(next) = id.checked_add(2) else {
            return Poll::Ready(Err(io::Error::other("the connection has no more numbers for streams")));
        };
        self.next_stream = next;
        self.streams.insert(id, State::new(SYN, FIRST_WINDOW_BYTES, now));
        self.budget.add_stream();
        self.unanswered += 1;
        Poll::Ready(Ok(id))
    }

    /// The next stream that the peer opened. It is answered at once, so that the peer may open more.
    pub(in crate::mux) fn accept(&mut self) -> Option<u32> {
        let id = self.arrived.pop_front()?;
        self.owe(id);
        Some(id)
    }

    /// Whether streams wait to be accepted.
    pub(in crate::mux) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// A frame is coming. What its content is for, if it has any.
    pub(in crate::mux) fn hear(&mut self, header: Header, now: Duration) -> Result<Content, Heard> {
        match header.kind {
            Kind::Ping => self.hear_ping(header, now),
            Kind::GoAway => return Err(Heard::Goodbye),
            Kind::Window | Kind::Data => return self.hear_stream(header, now).map_err(Heard::Violation),
        }
        Ok(Content::Nowhere)
    }

    fn hear_ping(&mut self, header: Header, now: Duration) {
        if !header.has(ACK) {
            self.outgoing.pong = Some(header.length);
            return;
        }
        let Some((_, asked)) = self.round_trip.asked.take_if(|(count, _)| *count == header.length) else {
            return;
        };
        let measured = now.saturating_sub(asked);
        let shortest = self.round_trip.shortest.map_or(measured, |shortest| shortest.min(measured));
        self.round_trip.shortest = Some(shortest);
    }

    fn hear_stream(&mut self, header: Header, now: Duration) -> Result<Content, Violation> {
        let Header { kind, stream: id, length, .. } = header;
        if header.has(SYN) && !self.begin(id, now)? {
            return Ok(Content::Nowhere);
        }
        let Some(state) = self.streams.get_mut(&id) else {
            // It may have been forgotten while this was on its way.
            if kind == Kind::Data && length > 0 {
                self.cut_off_at = Some(now);
            }
            return Ok(Content::Nowhere);
        };
        if header.has(ACK) && !state.is_answered {
            state.is_answered = true;
            self.unanswered -= 1;
            wake(&mut self.opener);
        }
        if header.has(RST) {
            state.is_reset = true;
            state.wake();
            if state.is_forgotten {
                self.remove(id);
            }
            // No content comes with it from anybody, and where it did, it would lead nowhere.
            return Ok(Content::Nowhere);
        }
        let ends = header.has(FIN);
        if kind == Kind::Window {
            state.send_window = state.send_window.checked_add(length).ok_or(Violation::WindowOverflow(id))?;
            wake(&mut state.writer);
            if ends {
                self.end_reading(id);
            }
            return Ok(Content::Nowhere);
        }
        if state.is_read_to_end && length > 0 {
            return Err(Violation::AfterEnd(id));
        }
        if !state.window.take(length) {
            return Err(Violation::Window(id));
        }
        if length > 0 {
            state.heard_at = Some(now);
        } else if ends {
            self.end_reading(id);
        }
        Ok(Content::Stream { ends })
    }

    /// Begins a stream of the peer; `false` where there are too many.
    fn begin(&mut self, id: u32, now: Duration) -> Result<bool, Violation> {
        if id == 0 || self.role.opens(id) || self.streams.contains_key(&id) {
            return Err(Violation::Stream(id));
        }
        if self.accepted >= self.flow.streams {
            self.outgoing.refused.push(id);
            wake(&mut self.driver);
            return if self.outgoing.refused.len() > REFUSALS { Err(Violation::Streams) } else { Ok(false) };
        }
        self.streams.insert(id, State::new(ACK, FIRST_WINDOW_BYTES, now));
        self.budget.add_stream();
        self.accepted += 1;
        self.arrived.push_back(id);
        Ok(true)
    }

    /// A buffer for content of a stream.
    pub(in crate::mux) fn buffer(&mut self, bytes: usize) -> Chunk {
        self.spares.chunk(bytes)
    }

    /// Content of a stream came, as much as the chunk holds; gives the chunk back, empty, where it is not kept.
    pub(in crate::mux) fn deliver(
        &mut self,
        id: u32,
        chunk: Chunk,
        ends: bool,
    ) -> Result<Option<Chunk>, Violation> {
        let Some(state) = self.streams.get_mut(&id) else { return Ok(Some(chunk.emptied())) };
        if state.is_forgotten || state.is_reset {
            // It counts as read.
            if ends {
                self.end_reading(id);
            } else {
                self.note_window(id);
            }
            return Ok(Some(chunk.emptied()));
        }
        self.unread += chunk.len();
        let left = state.inbox.push(chunk);
        wake(&mut state.reader);
        if ends {
            self.end_reading(id);
        }
        if self.unread > self.flow.unread_bytes { Err(Violation::Unread) } else { Ok(left) }
    }

    fn end_reading(&mut self, id: u32) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        state.is_read_to_end = true;
        wake(&mut state.reader);
        if state.is_forgotten {
            self.remove(id);
        }
    }

    /// Gives out what is to be sent now: first `control`, then `frames`, both of which must be empty.
    pub(in crate::mux) fn collect(&mut self, control: &mut Vec<u8>, frames: &mut Vec<u8>, now: Duration) {
        if let Some(length) = self.outgoing.pong.take() {
            control.extend(Header { kind: Kind::Ping, flags: ACK, stream: 0, length }.encode());
        }
        for stream in self.outgoing.refused.drain(..) {
            control.extend(Header { kind: Kind::Window, flags: RST, stream, length: 0 }.encode());
        }
        while let Some(id) = self.outgoing.owing.pop_front() {
            self.pay(id, control, now);
        }
        std::mem::swap(&mut self.outgoing.frames, frames);
        if std::mem::take(&mut self.outgoing.goodbye) {
            frames.extend(Header { kind: Kind::GoAway, flags: 0, stream: 0, length: 0 }.encode());
        }
        if !control.is_empty() || !frames.is_empty() {
            self.ask_round_trip(control, now);
        }
        for id in self.outgoing.waiting.drain(..) {
            if let Some(state) = self.streams.get_mut(&id) {
                state.is_waiting = false;
                wake(&mut state.writer);
            }
        }
    }

    /// About how many bytes wait to be sent, and may: the peer measures how soon a ping is answered.
    pub(in crate::mux) fn waiting_bytes(&self) -> usize {
        let Outgoing { frames, owing, refused, pong, .. } = &self.outgoing;
        match pong {
            Some(_) => 0,
            None => frames.len() + HEADER_BYTES * (owing.len() + refused.len()),
        }
    }

    /// The shortest round trip that was measured.
    pub(in crate::mux) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.shortest
    }

    /// Says to the peer what a stream owes it.
    fn pay(&mut self, id: u32, control: &mut Vec<u8>, now: Duration) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        state.is_owing = false;
        let is_open = !state.is_read_to_end && !state.is_reset;
        let length = if is_open && state.window.is_due(state.inbox.len()) {
            state.window.grant(state.inbox.len(), now, self.round_trip.shortest, &mut self.budget)
        } else {
            0
        };
        // A stream that this side opened is greeted by content only.
        let flags = if state.greeting == ACK { std::mem::take(&mut state.greeting) } else { 0 };
        if length > 0 || flags != 0 {
            control.extend(Header { kind: Kind::Window, flags, stream: id, length }.encode());
        }
    }

    /// Goes with something else: it is worth no packet of its own.
    fn ask_round_trip(&mut self, control: &mut Vec<u8>, now: Duration) {
        let RoundTrip { asked, next, count, .. } = &mut self.round_trip;
        if asked.is_some() || next.is_some_and(|next| now < next) {
            return;
        }
        *count = count.wrapping_add(1);
        *asked = Some((*count, now));
        *next = Some(now + ROUND_TRIP_INTERVAL);
        control.extend(Header { kind: Kind::Ping, flags: SYN, stream: 0, length: *count }.encode());
    }

    /// Keeps whoever moves the bytes, to be woken when there are some.
    pub(in crate::mux) fn keep_driver(&mut self, context: &Context<'_>) {
        keep(&mut self.driver, context);
    }

    /// Ends all streams and says goodbye behind everything that was written, if nothing has ended them before; whether
    /// the peer is likely to be sending.
    pub(in crate::mux) fn close(&mut self, now: Duration) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.outgoing.goodbye = true;
        self.end(End { kind: io::ErrorKind::ConnectionAborted, why: "closed by this node".into() });
        self.is_spoken_to(now)
    }

    /// Whether content came within the last two round trips on a stream that the peer has not ended: more may be on its
    /// way. Who was silent for longer is, and streams that only wait are no reason to wait for them.
    fn is_spoken_to(&self, now: Duration) -> bool {
        let recent = self.round_trip.shortest.map_or(CLOSING_TIME, |time| (time * 2).min(CLOSING_TIME));
        let open = self.streams.values().filter(|state| !state.is_read_to_end && !state.is_reset);
        let heard_at = open.filter_map(|state| state.heard_at).chain(self.cut_off_at).max();
        heard_at.is_some_and(|heard_at| now.saturating_sub(heard_at) < recent)
    }

    /// Ends all streams. What came before can still be read.
    pub(in crate::mux) fn end(&mut self, end: End) {
        self.ended.get_or_insert(end);
        self.streams.values_mut().for_each(State::wake);
        wake(&mut self.opener);
    }

    /// Whether the connection has ended, and how.
    pub(in crate::mux) fn ended(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// Gives back a buffer that is not needed.
    pub(in crate::mux) fn spare(&mut self, chunk: Chunk) {
        self.spares.give_back(chunk);
    }

    /// Bytes that came and were not read.
    #[cfg(test)]
    pub(in crate::mux) fn unread(&self) -> usize {
        self.unread
    }

    /// Streams that are kept.
    #[cfg(test)]
    pub(in crate::mux) fn streams(&self) -> usize {
        self.streams.len()
    }
}

/// What ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mux) enum Heard {
    /// The peer says goodbye.
    Goodbye,
    /// The peer breaks the protocol.
    Violation(Violation),
}
