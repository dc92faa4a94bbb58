//! [`Described`]: what of a file that is made from its old version an earlier session stored.

use std::collections::BTreeMap;

use ketch_protocol::{chunk::Part, limits::RANGE_BYTES, message::Run};

/// The chunks of a new version that the sender named, by their offsets.
#[derive(Debug, Default)]
pub(super) struct Described(BTreeMap<u64, Part>);

impl Described {
    /// Takes chunks that follow each other from `offset` on.
    pub(super) fn hear(&mut self, mut offset: u64, chunks: &[Part]) {
        for &chunk in chunks {
            self.0.insert(offset, chunk);
            offset = offset.saturating_add(chunk.length.into());
        }
    }

    /// What is left of `pieces`, which are in order, without the chunks that are stored; none longer than
    /// [`RANGE_BYTES`].
    pub(super) fn missing(&self, pieces: &[Run], mut is_stored: impl FnMut(u64, Part) -> bool) -> Vec<Run> {
        let mut left = Vec::new();
        for span in joined(pieces) {
            let end = span.first + span.count;
            let mut from = span.first;
            for (&offset, &chunk) in self.0.range(span.first..end) {
                let next = offset + u64::from(chunk.length);
                if next <= end && is_stored(offset, chunk) {
                    cut(from, offset, &mut left);
                    from = next;
                }
            }
            cut(from, end, &mut left);
        }
        left
    }
}

/// Pieces that follow each other as one: a chunk may lie in two of them.
fn joined(pieces: &[Run]) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.first + last.count == piece.first => last.count += piece.count,
            Some(_) | None => joined.push(*piece),
        }
    }
    joined
}

fn cut(mut from: u64, end: u64, pieces: &mut Vec<Run>) {
    while from < end {
        let count = (end - from).min(RANGE_BYTES);
        pieces.push(Run { first: from, count });
        from += count;
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::chunk::Name;

    use super::*;

    fn chunks(lengths: &[u32]) -> Vec<Part> {
        lengths.iter().map(|&length| Part { length, name: Name([0; 16]) }).collect()
    }

    fn run(first: u64, count: u64) -> Run {
        Run { first, count }
    }

    #[test]
    fn stored_chunks_are_left_out_wherever_pieces_are_cut() {
        let mut described = Described::default();
        described.hear(100, &chunks(&[10, 20, 30, 40]));
        let missing = |stored: &[u64]| {
            described.missing(&[run(100, 15), run(115, 45)], |offset, _| stored.contains(&offset))
        };
        assert_eq!(missing(&[]), [run(100, 60)]);
        assert_eq!(missing(&[100]), [run(110, 50)]);
        assert_eq!(missing(&[110]), [run(100, 10), run(130, 30)]);
        assert_eq!(missing(&[100, 110, 130]), []);
        // That one was not asked for.
        assert_eq!(missing(&[160]), [run(100, 60)]);
    }

    #[test]
    fn what_is_not_described_is_missing_in_pieces_of_a_range() {
        let pieces = [run(0, RANGE_BYTES), run(RANGE_BYTES, 5), run(RANGE_BYTES + 7, 1)];
        let missing = Described::default().missing(&pieces, |_, _| true);
        assert_eq!(missing, pieces);
    }
}
