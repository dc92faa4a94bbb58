//! What came on a stream and was not read, in the buffers that it was received in.

use std::collections::VecDeque;

use crate::limits::{FRAME_BYTES, GATHERED_BYTES, SPARE_BUFFERS};

/// A buffer that is filled from its beginning and read from there.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Box<[u8]>,
    read: usize,
    filled: usize,
}

impl Chunk {
    fn with_room(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes].into_boxed_slice(), read: 0, filled: 0 }
    }

    /// Bytes that were filled in and not read.
    pub(super) fn len(&self) -> usize {
        self.filled - self.read
    }

    /// Room for more, of which at most `limit` bytes are given.
    pub(super) fn room(&mut self, limit: usize) -> &mut [u8] {
        let end = self.bytes.len().min(self.filled + limit);
        &mut self.bytes[self.filled..end]
    }

    /// So many bytes of the room were filled in.
    pub(super) fn fill(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.read..self.filled]
    }

    /// The same buffer with nothing in it.
    pub(super) fn emptied(self) -> Self {
        Self { read: 0, filled: 0, ..self }
    }
}

/// Buffers to be used again. What a peer sends lands in them as it comes, so they need no clearing.
#[derive(Debug, Default)]
pub(super) struct Spares(Vec<Chunk>);

impl Spares {
    /// A buffer for so many bytes, or for the first [`FRAME_BYTES`] of them.
    pub(super) fn chunk(&mut self, bytes: usize) -> Chunk {
        if bytes < FRAME_BYTES {
            return Chunk::with_room(bytes);
        }
        self.0.pop().unwrap_or_else(|| Chunk::with_room(FRAME_BYTES))
    }

    pub(super) fn give_back(&mut self, chunk: Chunk) {
        if chunk.bytes.len() == FRAME_BYTES && self.0.len() < SPARE_BUFFERS {
            self.0.push(chunk.emptied());
        }
    }
}

/// What came on one stream and was not read.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    chunks: VecDeque<Chunk>,
    unread: usize,
}

impl Inbox {
    /// Bytes in it. A window bounds them.
    pub(super) fn len(&self) -> u32 {
        self.unread as u32
    }

    /// Appends what a chunk holds. The chunk itself is kept where it is mostly full; else its content is copied, so that a
    /// peer that sends little at a time does not make this side keep much, and it is given back, empty.
    pub(super) fn push(&mut self, chunk: Chunk) -> Option<Chunk> {
        let length = chunk.len();
        self.unread += length;
        if length > GATHERED_BYTES && length >= chunk.bytes.len() / 2 {
            self.chunks.push_back(chunk);
            return None;
        }
        self.gather(chunk.unread());
        Some(chunk.emptied())
    }

    fn gather(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.chunks.back_mut().is_none_or(|last| last.room(1).is_empty()) {
                self.chunks.push_back(Chunk::with_room(bytes.len().max(GATHERED_BYTES)));
            }
            let Some(last) = self.chunks.back_mut() else { return };
            let room = last.room(bytes.len());
            let (now, later) = bytes.split_at(room.len());
            room.copy_from_slice(now);
            last.fill(now.len());
            bytes = later;
        }
    }

    /// Moves as much as fits into `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8], spares: &mut Spares) -> usize {
        let mut done = 0;
        while let Some(first) = self.chunks.front_mut() {
            let length = first.len().min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&first.unread()[..length]);
            first.read += length;
            done += length;
            if first.len() > 0 {
                break;
            }
            if let Some(empty) = self.chunks.pop_front() {
                spares.give_back(empty);
            }
        }
        self.unread -= done;
        done
    }

    /// Drops everything; how many bytes that were.
    pub(super) fn clear(&mut self, spares: &mut Spares) -> usize {
        self.chunks.drain(..).for_each(|chunk| spares.give_back(chunk));
        std::mem::take(&mut self.unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(room: usize, bytes: &[u8]) -> Chunk {
        let mut chunk = Chunk::with_room(room);
        chunk.room(bytes.len()).copy_from_slice(bytes);
        chunk.fill(bytes.len());
        chunk
    }

    #[test]
    fn what_came_is_read_in_order_however_it_was_cut() {
        let (mut inbox, mut spares) = (Inbox::default(), Spares::default());
        let large = vec![7; FRAME_BYTES];
        assert!(inbox.push(chunk(10, b"ab")).is_some());
        assert!(inbox.push(chunk(FRAME_BYTES, &large)).is_none());
        assert!(inbox.push(chunk(10, b"cd")).is_some());
        assert_eq!(inbox.len() as usize, FRAME_BYTES + 4);
        let mut all = Vec::new();
        let mut buffer = [0; 1_000];
        while let read @ 1.. = inbox.read(&mut buffer, &mut spares) {
            all.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(all, [b"ab".as_slice(), &large, b"cd"].concat());
        assert_eq!(inbox.len(), 0);
    }

    #[test]
    fn a_peer_that_sends_bytes_one_by_one_does_not_take_a_buffer_for_each() {
        let mut inbox = Inbox::default();
        for _ in 0..3 * GATHERED_BYTES {
            inbox.push(chunk(FRAME_BYTES, b"x"));
        }
        let kept: usize = inbox.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(kept, 3 * GATHERED_BYTES);
    }

    #[test]
    fn large_buffers_are_used_again() {
        let (mut inbox, mut spares) = (Inbox::default(), Spares::default());
        inbox.push(chunk(FRAME_BYTES, &[1; FRAME_BYTES]));
        assert_eq!(inbox.read(&mut vec![0; FRAME_BYTES], &mut spares), FRAME_BYTES);
        assert_eq!(spares.0.len(), 1);
        assert_eq!(spares.chunk(FRAME_BYTES).len(), 0);
        assert!(spares.0.is_empty());
    }
}
