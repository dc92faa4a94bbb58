//! How a file is made from an old version of it and as few bytes of the new one as possible.
//!
//! ```text
//! receiver                                       sender
//!    | want.delta ------------------------------> |  reads the file: Describer
//!    | <-------------------------------- recipe   |  groups of chunks, or chunks where they are few
//!    | want.lists ------------------------------> |  for the groups that the old version lacks
//!    | <---------------------------------- list   |  the chunks of one group
//!    | want.pieces -----------------------------> |  for the chunks that the old version lacks
//!    | <--------------------------------- piece   |
//! ```
//!
//! The receiver finds what the old version has ([`Old`]) and learns step by step what the new one needs
//! ([`Assembly`]). The sender keeps nothing between two wants. Names only suggest that contents are equal: what
//! was made is hashed as a whole before it replaces anything.

use std::collections::BTreeMap;

use crate::{
    chunk::{ChunkSizes, Chunker, Grouper, Name, Part},
    hash::{ContentHash, Hasher},
    limits::{RANGE_BYTES, RECIPE_CHUNKS, RECIPE_GROUPS},
    message::Run,
};

/// Most chunks of an old version that are looked at: 32 bytes each. What follows is not found again.
const OLD_CHUNKS: usize = 1 << 20;

/// Files of fewer bytes are fetched whole: a recipe and its flights would cost as much.
const LEAST_BYTES: u64 = 16 * 1024;

/// An old version that is so many times shorter or longer than the new one has little of it.
const MOST_RATIO: u64 = 16;

/// How the new version of a file is cut if it is worth looking for it in the old one, going by their lengths in
/// bytes.
pub fn worthwhile(old: u64, new: u64) -> Option<ChunkSizes> {
    let alike = old.min(new) >= LEAST_BYTES && old.max(new) / MOST_RATIO <= old.min(new);
    ChunkSizes::of_file(new).filter(|_| alike)
}

/// What the parts of a recipe are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Chunks.
    Chunks,
    /// Groups of chunks.
    Groups,
}

/// What a file consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// What its parts are.
    pub grain: Grain,
    /// All of its parts, in order.
    pub parts: Vec<Part>,
    /// The hash of all its content.
    pub hash: ContentHash,
}

/// Makes the recipe of a file while it is read.
#[derive(Debug)]
pub struct Describer {
    chunker: Chunker,
    hasher: Hasher,
    parts: Parts,
}

/// The chunks as long as they are few, and the groups.
#[derive(Debug, Default)]
struct Parts {
    chunks: Vec<Part>,
    groups: Vec<Part>,
    grouper: Grouper,
}

impl Parts {
    fn push(&mut self, chunk: Part) {
        if self.chunks.len() <= RECIPE_CHUNKS {
            self.chunks.push(chunk);
        }
        self.groups.extend(self.grouper.push(chunk));
    }
}

impl Describer {
    /// For a file with chunks of these sizes.
    pub fn new(sizes: ChunkSizes) -> Self {
        Self { chunker: Chunker::new(sizes), hasher: Hasher::whole(), parts: Parts::default() }
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.chunker.push(bytes, |chunk| self.parts.push(chunk));
    }

    /// The recipe of all bytes taken; `None` where even the groups are more than [`RECIPE_GROUPS`].
    pub fn finish(self) -> Option<Recipe> {
        let Self { chunker, hasher, mut parts } = self;
        chunker.finish(|chunk| parts.push(chunk));
        let hash = hasher.finish();
        if parts.chunks.len() <= RECIPE_CHUNKS {
            return Some(Recipe { grain: Grain::Chunks, parts: parts.chunks, hash });
        }
        parts.groups.extend(parts.grouper.finish());
        let fits = parts.groups.len() <= RECIPE_GROUPS;
        fits.then_some(Recipe { grain: Grain::Groups, parts: parts.groups, hash })
    }
}

/// What an old version has, by name.
#[derive(Debug, Default)]
pub struct Old {
    chunks: Vec<Place>,
    groups: Vec<Place>,
}

/// Where a part lies in the old version.
#[derive(Debug, Clone, Copy)]
struct Place {
    part: Part,
    offset: u64,
}

/// Notes the chunks of an old version in their order.
#[derive(Debug, Default)]
pub struct OldBuilder {
    old: Old,
    grouper: Grouper,
    offset: u64,
}

impl OldBuilder {
    /// Takes the next chunk.
    pub fn push(&mut self, chunk: Part) {
        if self.old.chunks.len() >= OLD_CHUNKS {
            return;
        }
        self.old.chunks.push(Place { part: chunk, offset: self.offset });
        self.offset += u64::from(chunk.length);
        let group = self.grouper.push(chunk);
        self.note_group(group);
    }

    /// All that was noted.
    pub fn finish(mut self) -> Old {
        let group = self.grouper.finish();
        self.note_group(group);
        self.old.chunks = by_name(self.old.chunks);
        self.old.groups = by_name(self.old.groups);
        self.old
    }

    fn note_group(&mut self, group: Option<Part>) {
        let place = |part: Part| Place { part, offset: self.offset - u64::from(part.length) };
        self.old.groups.extend(group.map(place));
    }
}

/// One place of each name, the first: a file may repeat one chunk a million times.
fn by_name(mut places: Vec<Place>) -> Vec<Place> {
    places.sort_unstable_by_key(|place| (place.part.name, place.offset));
    places.dedup_by_key(|place| place.part.name);
    places
}

impl Old {
    /// Where the old version has a part, in bytes.
    fn find(&self, grain: Grain, part: Part) -> Option<u64> {
        let places = match grain {
            Grain::Chunks => &self.chunks,
            Grain::Groups => &self.groups,
        };
        let name = |place: &Place| -> Name { place.part.name };
        let index = places.binary_search_by_key(&part.name, name).ok()?;
        (places[index].part.length == part.length).then_some(places[index].offset)
    }
}

/// Where bytes of the new version come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The old version, at this offset in bytes.
    Old(u64),
    /// The sender, in pieces.
    Sender,
}

/// Bytes of the new version that come from one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Where they lie in the new version.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Where they come from.
    pub origin: Origin,
}

impl Step {
    /// Takes in a step that goes on where this one ends, in both versions; says whether it did.
    fn join(&mut self, next: Self) -> bool {
        let follows = match (self.origin, next.origin) {
            (Origin::Old(here), Origin::Old(there)) => here + self.length == there,
            (Origin::Sender, Origin::Sender) => true,
            (Origin::Old(_), Origin::Sender) | (Origin::Sender, Origin::Old(_)) => false,
        };
        let joined = follows && self.offset + self.length == next.offset;
        if joined {
            self.length += next.length;
        }
        joined
    }
}

/// What to ask for next, as bytes of the new version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Groups whose chunks must be listed.
    pub lists: Vec<Run>,
    /// Pieces whose content is needed, none longer than [`RANGE_BYTES`].
    pub pieces: Vec<Run>,
}

impl Needs {
    /// Appends bytes, as part of the last piece where they follow it.
    fn piece(&mut self, offset: u64, length: u64) {
        let (mut offset, end) = (offset, offset + length);
        if let Some(last) = self.pieces.last_mut()
            && last.numbers().end == offset
        {
            let taken = length.min(RANGE_BYTES - last.count);
            last.count += taken;
            offset += taken;
        }
        while offset < end {
            let count = (end - offset).min(RANGE_BYTES);
            self.pieces.push(Run { first: offset, count });
            offset += count;
        }
    }
}

/// How a file is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// All of its bytes, in order.
    pub steps: Vec<Step>,
    /// The hash of all its content.
    pub hash: ContentHash,
}

/// Why what a sender says of a file can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// Its parts are not as long as the whole.
    #[error("{parts} bytes are described where there are {whole}")]
    Sum {
        /// Bytes of the parts.
        parts: u64,
        /// Bytes that they should have.
        whole: u64,
    },
    /// A part has a length that no cut gives.
    #[error("a part of {length} bytes is described, {least} to {most} are possible")]
    Length {
        /// Its length in bytes.
        length: u32,
        /// The shortest, in bytes.
        least: u64,
        /// The longest, in bytes.
        most: u64,
    },
    /// It was not asked for, or has come before.
    #[error("something is described that was not asked for")]
    Unasked,
}

/// Finds out how a file is made while the sender describes it.
#[derive(Debug)]
pub struct Assembly {
    size: u64,
    sizes: ChunkSizes,
    old: Old,
    hash: Option<ContentHash>,
    steps: Vec<Step>,
    /// Groups whose chunks are awaited: offset and length in bytes.
    lists: BTreeMap<u64, u64>,
}

impl Assembly {
    /// For a file of `size` bytes, to be made with what `old` has.
    pub fn new(size: u64, sizes: ChunkSizes, old: Old) -> Self {
        Self { size, sizes, old, hash: None, steps: Vec::new(), lists: BTreeMap::new() }
    }

    /// Takes the recipe of the new version, once.
    pub fn hear_recipe(&mut self, recipe: Recipe) -> Result<Needs, DeltaError> {
        if self.hash.is_some() {
            return Err(DeltaError::Unasked);
        }
        let needs = self.describe(0, self.size, recipe.grain, &recipe.parts)?;
        self.hash = Some(recipe.hash);
        Ok(needs)
    }

    /// Takes the chunks of a group that was asked for, once.
    pub fn hear_list(&mut self, offset: u64, chunks: &[Part]) -> Result<Needs, DeltaError> {
        let length = self.lists.remove(&offset).ok_or(DeltaError::Unasked)?;
        self.describe(offset, length, Grain::Chunks, chunks)
    }

    /// Whether it is known of every byte where it comes from.
    pub fn is_described(&self) -> bool {
        self.hash.is_some() && self.lists.is_empty()
    }

    /// How the file is made; `None` unless it is described.
    pub fn finish(self) -> Option<Delta> {
        let hash = self.hash.filter(|_| self.lists.is_empty())?;
        let mut steps = self.steps;
        steps.sort_unstable_by_key(|step| step.offset);
        steps.dedup_by(|next, step| step.join(*next));
        Some(Delta { steps, hash })
    }

    fn describe(
        &mut self,
        mut offset: u64,
        length: u64,
        grain: Grain,
        parts: &[Part],
    ) -> Result<Needs, DeltaError> {
        let end = offset + length;
        let sum = parts.iter().map(|part| u64::from(part.length)).sum();
        if sum != length {
            return Err(DeltaError::Sum { parts: sum, whole: length });
        }
        let mut needs = Needs::default();
        for &part in parts {
            let length = u64::from(part.length);
            self.check_length(grain, part, offset + length == end && end == self.size)?;
            match (self.old.find(grain, part), grain) {
                (Some(old), _) => self.step(Step { offset, length, origin: Origin::Old(old) }),
                (None, Grain::Groups) => {
                    self.lists.insert(offset, length);
                    needs.lists.push(Run { first: offset, count: length });
                }
                (None, Grain::Chunks) => {
                    self.step(Step { offset, length, origin: Origin::Sender });
                    needs.piece(offset, length);
                }
            }
            offset += length;
        }
        Ok(needs)
    }

    /// So that nobody can make a file of a million steps out of a megabyte. Only the last chunk is shorter.
    fn check_length(&self, grain: Grain, part: Part, is_last: bool) -> Result<(), DeltaError> {
        let least = if is_last { 1 } else { self.sizes.least() as u64 };
        let most = match grain {
            Grain::Chunks => self.sizes.most() as u64,
            Grain::Groups => self.sizes.most_of_group(),
        };
        let length = part.length;
        if (least..=most).contains(&length.into()) {
            Ok(())
        } else {
            Err(DeltaError::Length { length, least, most })
        }
    }

    fn step(&mut self, step: Step) {
        if !self.steps.last_mut().is_some_and(|last| last.join(step)) {
            self.steps.push(step);
        }
    }
}

#[cfg(test)]
mod tests;
