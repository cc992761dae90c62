//! What callers have seen of the files: two crash states that agree on it lead to the same recovery.

use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::FileSystem;
use crate::notes::Observation;
use crate::tree::node::{Body, Ino};

impl FileSystem {
    /// From now on, keeps what calls tell of the files.
    pub fn note_reads(&mut self) {
        self.reads = Some(Arc::default());
    }

    /// What calls have told since [`note_reads`](FileSystem::note_reads), in order, without repeats in a row. It may include what the process
    /// itself has written since.
    #[must_use]
    pub fn reads(&self) -> &[Observation] {
        self.reads.as_ref().map_or(&[], |reads| reads)
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        let Some(reads) = &mut self.reads else {
            return;
        };
        if reads.last() != Some(&observation) {
            Arc::make_mut(reads).push(observation);
        }
    }

    /// A hash of what these observations would tell now. Two states of one history with the same hash look the same to whoever makes no others.
    #[must_use]
    pub fn observed_hash(&self, observations: &[Observation]) -> u128 {
        let mut sum = 0_u128;
        for (at, observation) in observations.iter().enumerate() {
            let told = self.told(observation);
            let bytes = [told, at as u128].map(u128::to_le_bytes);
            sum = sum.wrapping_add(xxh3_128_with_seed(bytes.as_flattened(), 6));
        }
        sum
    }

    /// What an observation would tell now, as a number.
    fn told(&self, observation: &Observation) -> u128 {
        const NOTHING: u128 = 1;
        let of = |numbers: &[u64]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
            xxh3_128_with_seed(&bytes, 7)
        };
        let node = |ino: &Ino| self.live.nodes.get(*ino);
        match observation {
            Observation::Name { directory, name } => {
                let entries = node(directory).and_then(|node| node.directory());
                let found = entries.and_then(|entries| entries.get(name));
                found.map_or(NOTHING, |ino| of(&[2, u64::from(ino.0)]))
            }
            Observation::Listing { directory } => {
                let entries = node(directory).and_then(|node| node.directory());
                entries.map_or(NOTHING, |entries| {
                    let numbers = entries.iter().flat_map(|entry| {
                        let kind = self.live.node(entry.ino).kind();
                        [entry.hash, u64::from(entry.ino.0), kind as u64]
                    });
                    of(&numbers.collect::<Vec<u64>>())
                })
            }
            Observation::Attributes { ino } => node(ino).map_or(NOTHING, |node| {
                let (accessed, modified) = node.times.set.unwrap_or_default();
                let (size, space) = match &node.body {
                    Body::File(content) => (content.size, content.allocated.len()),
                    Body::Directory(entries) => (entries.len() as u64, 0),
                    Body::Symlink(target) => (xxh3_64(target), 0),
                };
                let (kind, links) = (node.kind() as u64, u64::from(node.links));
                of(&[3, kind, size, space, links, accessed, modified])
            }),
            Observation::Content { ino, start, end } => {
                let content = node(ino).and_then(|node| node.file());
                content.map_or(NOTHING, |content| {
                    let seen = content.size.clamp(start * 4096, end * 4096);
                    of(&[4, seen, content.pages_hash(*start, *end)])
                })
            }
        }
    }
}
