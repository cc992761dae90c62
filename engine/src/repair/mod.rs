//! What can be read of a damaged database, and what of it is missing. Nothing here writes, and all reading goes through an [`Image`].
//!
//! 1. `layout`: whose image it is, and how it is cut into segments.
//! 2. `scan`: one pass over all segments. It finds frames, records, and references to pages, wherever they lie.
//! 3. `fence`: what recoveries have cut off of the log. `chain`: which of the rest counts, and where it has gaps.
//! 4. `tree`: reads trees of pages as far as they are whole. `checkpoint`: what the superblock leads to, and the ranges of keys of which a page is damaged.
//!    `stray`: leaves that only other pages lead to, for these ranges.
//! 5. `numbers`: whose each sequence number is. `verdict`: which version of each key counts. `value`: reads it.
//!
//! Invariants:
//! - nothing counts that no checksum proves: of a frame its body's or each record's own, of a page that in a reference to it, of a value that of its record or of
//!   each of its chunks. Where a reference was found does not matter: if the page at its place has its checksum, both are what was written;
//! - where superblock, index and log are whole, the result is that of an opening: a key is what the checkpoint says, or what a later record of the log's chain says. Other
//!   records only say where else a value is, and what an older version was;
//! - what a recovery has cut off does not count, as far as a later epoch shows where that was;
//! - no number of the image is used before it is checked, and nothing is allocated beyond what was read.

mod chain;
mod checkpoint;
mod fence;
mod layout;
mod numbers;
mod scan;
mod stray;
mod tree;
mod value;
mod verdict;

pub use chain::LogGap;
pub use layout::NoDatabase;
pub use tree::KeySpan;
pub use verdict::{Outcome, Repair};

use crate::index::key::Key;
use crate::index::place::Place;

/// The bytes of a database's file.
pub trait Image {
    /// How many bytes it has.
    fn len_bytes(&self) -> u64;

    /// Fills `bytes` with what lies from `offset` on: with zeroes what is beyond the end, or cannot be read.
    fn read(&mut self, offset: u64, bytes: &mut [u8]);
}

/// Where a version was found. Of the same version the greater one knows better where its value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// In a leaf that does not belong to the checkpoint.
    StrayLeaf,
    /// Anywhere in the log: it may be older than what counts.
    Stray,
    /// In the checkpoint, in the run of this number of its partition; higher is newer.
    Run(usize),
    /// A put or a delete in the log behind the checkpoint.
    Log,
}

/// A version of a key.
#[derive(Debug)]
struct Found {
    key: Key,
    sequence: u64,
    place: Place,
    source: Source,
}
