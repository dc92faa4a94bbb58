//! The model: the state machines of a session over a wire that does nothing but take its time.
//!
//! A byte that is written can be read half a round trip later, together with all that came before it, and at once. Each
//! stream of each direction holds so many bytes; what is written beyond waits until some have been read. There is no
//! bandwidth, nothing is lost, and neither disks nor processors take any time: what is left is waiting, and
//! what a full pipe makes of it.

use std::time::Duration;

use ketch_fixtures::tree::Listed;
use ketch_protocol::{path::EntryPath, session::Ending};
use ketch_simulation::{
    tree::{Node, Tree},
    world::World,
};

use super::{Condition, error::LatencyError};

/// What a stream holds: as much as Linux lets a socket of TCP have unacknowledged by itself (the largest `tcp_wmem`).
const STREAM_BYTES: usize = 4 * 1024 * 1024;

/// A copy of a whole tree into nothing, from the receiver's first word to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) files: u64,
    pub(super) content_bytes: u64,
    pub(super) time: Duration,
    /// For how much of that no content was under way.
    pub(super) idle: Duration,
    one_way: Duration,
}

impl Copy {
    /// One-way trips, one after the other.
    pub(super) fn flights(&self) -> u64 {
        (self.time.as_secs_f64() / self.one_way.as_secs_f64()).round() as u64
    }
}

/// Copies what `condition` says.
pub(super) fn copy(condition: &Condition) -> Result<Copy, LatencyError> {
    let tree = tree(condition)?;
    let lengths = tree.values().filter_map(|node| match node {
        Node::File(content) => Some(content.len() as u64),
        Node::Directory | Node::Link(_) => None,
    });
    let (files, content_bytes) = lengths.fold((0, 0), |(files, bytes), length| (files + 1, bytes + length));
    let one_way = condition.round_trip / 2;
    let mut world = World::fresh(tree);
    (world.link.latency, world.link.stream_bytes) = (one_way, Some(STREAM_BYTES));
    world.source.data_streams = condition.parallel.into();
    world.run();
    match world.endings() {
        (Ending::Failed(error), _) | (_, Ending::Failed(error)) => Err(LatencyError::Session(error.clone())),
        (Ending::Complete(_), Ending::Complete(_)) if world.target.tree != world.source.tree => {
            Err(LatencyError::Differs { work: condition.work.to_string(), parallel: condition.parallel })
        }
        (Ending::Complete(_), Ending::Complete(_)) => {
            Ok(Copy { files, content_bytes, time: world.now, idle: world.idle, one_way })
        }
    }
}

/// The tree of a work, with zeros for content: only lengths matter here.
fn tree(condition: &Condition) -> Result<Tree, LatencyError> {
    let listed = condition.work.shape().list(condition.seed);
    listed
        .map(|(path, listed)| {
            let node = match listed {
                Listed::Directory => Node::Directory,
                Listed::File { bytes } => Node::File(vec![0; bytes as usize]),
                Listed::Symlink { target } => Node::Link(target),
            };
            Ok((EntryPath::parse(&path)?, node))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::Work, *};

    const ROUND_TRIP: Duration = Duration::from_millis(30);

    fn copied(work: Work, parallel: u8) -> Copy {
        copy(&Condition { work, round_trip: ROUND_TRIP, parallel, seed: 42 }).unwrap()
    }

    #[test]
    fn what_fits_the_pipe_takes_four_flights_however_many_files_it_is() {
        // ask; offer, manifest and content; done; farewell.
        for work in [Work::Large { bytes: 2_000_000 }, Work::Small { files: 1 }, Work::Small { files: 500 }] {
            let copy = copied(work, 1);
            assert_eq!((copy.flights(), copy.time), (4, 2 * ROUND_TRIP), "{work:?}");
            // All but the flight of the content.
            assert_eq!(copy.idle, ROUND_TRIP / 2 * 3, "{work:?}");
        }
    }

    #[test]
    fn on_one_stream_time_does_not_grow_with_the_number_of_files_beyond_its_bytes() {
        let bytes = 16 * 1024 * 1024;
        let large = copied(Work::Large { bytes }, 1);
        let small = copied(Work::Small { files: bytes / 4_096 }, 1);
        assert_eq!((small.files, small.content_bytes), (4_096, large.content_bytes));
        // What surrounds the files, less than 64 bytes each, fits the pipe once more.
        assert!(small.flights() <= large.flights() + 1, "{small:?} {large:?}");
        assert_eq!(small.idle, large.idle);
    }

    #[test]
    fn more_streams_hold_more_and_wait_as_long() {
        let work = Work::Large { bytes: 64 * 1024 * 1024 };
        let [one, four] = [1, 4].map(|parallel| copied(work, parallel));
        // 16 pipes full and what stands around the content, and 4 flights of which one carries the first.
        assert_eq!((one.flights(), four.flights()), (4 + 16, 4 + 4));
        assert_eq!(one.idle, four.idle);
    }

    #[test]
    fn a_seed_decides_all() {
        let work = Work::Tree { unit_bytes: 10_000 };
        assert_eq!(copied(work, 4), copied(work, 4));
    }
}
