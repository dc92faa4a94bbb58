//! [`Ledger`]: what a data stream was given to send and the receiver has not acknowledged.

use std::collections::VecDeque;

use super::queue::Portion;

/// Portions in the order in which they were given, the first perhaps acknowledged in part.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    given: VecDeque<Portion>,
    /// Segments of the first portion that were acknowledged.
    acknowledged: usize,
}

/// More was acknowledged than was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Excess;

impl Ledger {
    /// Notes a portion that is about to be sent.
    pub(super) fn give(&mut self, portion: Portion) {
        self.given.push_back(portion);
    }

    /// Notes that the receiver took so many more segments.
    pub(super) fn acknowledge(&mut self, segments: usize) -> Result<(), Excess> {
        self.acknowledged += segments;
        while let Some(first) = self.given.front()
            && self.acknowledged >= first.segments()
        {
            self.acknowledged -= first.segments();
            self.given.pop_front();
        }
        if self.given.is_empty() && self.acknowledged > 0 { Err(Excess) } else { Ok(()) }
    }

    /// Whether everything was acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// What has to be sent again, and read: all that was not acknowledged. Of the last portion, `unread` segments
    /// were not read yet.
    pub(super) fn take_rest(&mut self, unread: usize) -> Vec<Portion> {
        let mut acknowledged = std::mem::take(&mut self.acknowledged);
        let given = std::mem::take(&mut self.given);
        let rest: Vec<_> = given
            .into_iter()
            .filter_map(|portion| portion.behind(std::mem::take(&mut acknowledged)))
            .collect();
        for (index, portion) in rest.iter().enumerate() {
            let is_last = index + 1 == rest.len();
            portion.forget_read(if is_last { unread } else { 0 });
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ketch_protocol::{
        limits::RANGE_BYTES,
        manifest::{Entry, EntryId, EntryKind, Timestamp},
        path::EntryPath,
        session::sender::{Job, Wanted},
    };

    use super::*;
    use crate::transfer::queue::Queue;

    fn job(id: u64, size: u64) -> Job {
        let path = EntryPath::parse(format!("f{id}").as_bytes()).unwrap();
        let entry = Entry::new(path, EntryKind::File { size }, 0, Timestamp::default());
        Job { id: EntryId(id), entry: Arc::new(entry), wanted: Wanted::Content }
    }

    fn files(ids: impl IntoIterator<Item = u64>) -> Portion {
        Portion::Files(ids.into_iter().map(|id| job(id, 10)).collect())
    }

    fn ids(portions: &[Portion]) -> Vec<u64> {
        let ids = |portion: &Portion| match portion {
            Portion::Files(files) => files.iter().map(|job| job.id.0).collect(),
            Portion::Span(_, span, _) => vec![span.index()],
            Portion::Recipe(job) => vec![job.id.0],
            Portion::Bytes(..) => Vec::new(),
        };
        portions.iter().flat_map(ids).collect()
    }

    #[test]
    fn what_was_not_acknowledged_is_left_in_order() {
        for (acknowledged, rest) in
            [(0, &[1, 2, 3, 4, 5][..]), (2, &[3, 4, 5]), (3, &[4, 5]), (4, &[5]), (5, &[])]
        {
            let mut ledger = Ledger::default();
            ledger.give(files([1, 2, 3]));
            ledger.give(Portion::Recipe(job(4, 10)));
            ledger.give(files([5]));
            ledger.acknowledge(acknowledged).unwrap();
            assert_eq!(ids(&ledger.take_rest(0)), rest, "{acknowledged}");
            assert!(ledger.take_rest(0).is_empty());
        }
    }

    #[test]
    fn nobody_acknowledges_more_than_was_sent() {
        let mut ledger = Ledger::default();
        ledger.give(files([1, 2]));
        assert_eq!(ledger.acknowledge(3), Err(Excess));
        assert_eq!(Ledger::default().acknowledge(1), Err(Excess));
    }

    /// The file has ten ranges: whoever reads the last of them checks that it did not change.
    #[tokio::test]
    async fn ranges_that_are_read_again_are_counted_again() {
        let queue = Queue::default();
        queue.push(vec![job(0, 10 * RANGE_BYTES)]);
        let mut ledger = Ledger::default();
        for _ in 0..4 {
            ledger.give(queue.next(1).await.unwrap());
        }
        // Three were read, the fourth was not, and the first was acknowledged.
        let read = |portion: &Portion| match portion {
            Portion::Span(file, ..) => file.is_last_read(),
            Portion::Files(_) | Portion::Recipe(_) | Portion::Bytes(..) => panic!("{portion:?}"),
        };
        let lost = ledger.given.iter().take(3).map(read).collect::<Vec<_>>();
        assert_eq!(lost, [false; 3]);
        ledger.acknowledge(1).unwrap();
        let rest = ledger.take_rest(1);
        assert_eq!(ids(&rest), [1, 2, 3]);
        queue.put_back(rest);
        let mut last = Vec::new();
        let mut order = Vec::new();
        for _ in 0..9 {
            let portion = queue.next(1).await.unwrap();
            last.push(read(&portion));
            order.extend(ids(&[portion]));
        }
        assert_eq!(order, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(last, [false, false, false, false, false, false, false, false, true]);
    }
}
