//! What streams ask of a connection: to read, to write, to end.

use std::{
    io,
    task::{Context, Poll},
};

use super::{Core, End, keep, wake};
use crate::{
    limits::{FRAME_BYTES, WRITE_BUFFER_BYTES},
    mux::frame::{FIN, Header, Kind, RST, SYN},
};

impl Core {
    /// Reads what came. At the end of the stream it is 0.
    pub(in crate::mux) fn read(
        &mut self,
        id: u32,
        buffer: &mut [u8],
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(state) = self.streams.get_mut(&id) else { return Poll::Ready(Err(self.broken())) };
        let bytes = state.inbox.read(buffer, &mut self.spares);
        self.unread -= bytes;
        if bytes > 0 || buffer.is_empty() {
            self.note_window(id);
            return Poll::Ready(Ok(bytes));
        }
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.is_read_to_end {
            return Poll::Ready(Ok(0));
        }
        if let Some(end) = &self.ended {
            return Poll::Ready(Err(end.error()));
        }
        keep(&mut state.reader, context);
        Poll::Pending
    }

    /// Takes as much as the peer's window and the room for frames allow.
    pub(in crate::mux) fn write(
        &mut self,
        id: u32,
        bytes: &[u8],
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Some(state) = self.streams.get_mut(&id) else { return Poll::Ready(Err(self.broken())) };
        if state.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if let Some(end) = &self.ended {
            return Poll::Ready(Err(end.error()));
        }
        if state.is_finished {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        let room = WRITE_BUFFER_BYTES.saturating_sub(self.outgoing.frames.len());
        let length = bytes.len().min(state.send_window as usize).min(FRAME_BYTES).min(room);
        if length == 0 && !bytes.is_empty() {
            if room == 0 && !state.is_waiting {
                state.is_waiting = true;
                self.outgoing.waiting.push(id);
            }
            keep(&mut state.writer, context);
            return Poll::Pending;
        }
        state.send_window -= length as u32;
        self.push_frame(id, 0, &bytes[..length]);
        Poll::Ready(Ok(length))
    }

    /// Says that nothing more comes.
    pub(in crate::mux) fn finish(&mut self, id: u32) -> io::Result<()> {
        let Some(state) = self.streams.get_mut(&id) else { return Err(self.broken()) };
        if state.is_finished {
            return Ok(());
        }
        if state.is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if let Some(end) = &self.ended {
            return Err(end.error());
        }
        state.is_finished = true;
        self.push_frame(id, FIN, &[]);
        Ok(())
    }

    /// Nobody holds the stream any more. One that was not finished is reset, unless the peer has finished it.
    pub(in crate::mux) fn forget(&mut self, id: u32) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        state.is_forgotten = true;
        let is_known = state.greeting != SYN;
        let last = match (state.is_finished, state.is_read_to_end) {
            (true, false) if !state.is_reset && self.ended.is_none() => {
                // What still comes is dropped, and the peer may send it.
                self.unread -= state.inbox.clear(&mut self.spares);
                self.note_window(id);
                return;
            }
            (true, _) => None,
            (false, true) => Some(FIN),
            (false, false) => Some(RST),
        };
        if let Some(flag) = last.filter(|_| is_known && !state.is_reset && self.ended.is_none()) {
            if flag == RST {
                self.cut_off_at = self.cut_off_at.max(state.heard_at);
            }
            self.push_frame(id, flag, &[]);
        }
        self.remove(id);
    }

    fn broken(&self) -> io::Error {
        self.ended.as_ref().map_or_else(|| io::ErrorKind::ConnectionReset.into(), End::error)
    }

    /// Notes that the peer may be allowed to send more.
    pub(super) fn note_window(&mut self, id: u32) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        if !state.is_read_to_end && !state.is_reset && state.window.is_due(state.inbox.len()) {
            self.owe(id);
        }
    }

    pub(super) fn owe(&mut self, id: u32) {
        let Some(state) = self.streams.get_mut(&id) else { return };
        if !state.is_owing {
            state.is_owing = true;
            self.outgoing.owing.push_back(id);
            wake(&mut self.driver);
        }
    }

    pub(super) fn push_frame(&mut self, id: u32, flags: u16, content: &[u8]) {
        let greeting = self.streams.get_mut(&id).map_or(0, |state| std::mem::take(&mut state.greeting));
        let length = content.len() as u32;
        let header = Header { kind: Kind::Data, flags: flags | greeting, stream: id, length };
        if self.outgoing.frames.is_empty() {
            wake(&mut self.driver);
        }
        self.outgoing.frames.extend_from_slice(&header.encode());
        self.outgoing.frames.extend_from_slice(content);
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Some(mut state) = self.streams.remove(&id) else { return };
        state.wake();
        self.unread -= state.inbox.clear(&mut self.spares);
        self.budget.remove_stream(&state.window);
        if !self.role.opens(id) {
            self.accepted -= 1;
        } else if !state.is_answered {
            self.answered();
        }
    }

    pub(super) fn answered(&mut self) {
        self.unanswered -= 1;
        wake(&mut self.opener);
    }
}
