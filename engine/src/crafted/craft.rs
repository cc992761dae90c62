//! An image that can be edited: what the superblock leads to is found, changed, and all checksums are made right again.

use super::common::Rng;
use crate::format::checksum::{Identity, Kind};
use crate::format::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::format::page::{
    self, PAGE_HEADER_BYTES, PAGE_REF_BYTES, Page, PageRef, RUN_ROOTS_BYTES, Tree,
};
use crate::format::record::{self, Records};
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::format::superblock::{COPIES, SUPERBLOCK_BYTES, Superblock, Turn, copy_offset};
use crate::format::{Geometry, to_usize};
use crate::index::entry;
use crate::index::place::{Place, Version};

/// Which entry of which page leads to another, and with what reference: to each run of a partition there is one.
#[derive(Clone, Copy)]
struct Parent {
    node: usize,
    entry: usize,
    reference: usize,
}

/// A page of a tree, and what leads to it.
struct Node {
    tree: Tree,
    is_filter: bool,
    level: u8,
    reference: PageRef,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    parent: Option<Parent>,
}

/// A part of the log's chain.
#[derive(Clone, Copy)]
enum Link {
    Header { at: usize },
    Frame { at: usize, lsn: u64, end: usize },
}

pub(super) struct Image {
    bytes: Vec<u8>,
    id: Identity,
    geometry: Geometry,
    superblock: Superblock,
    /// The copies that hold it, and the turn of each.
    copies: Vec<(u16, Turn)>,
    nodes: Vec<Node>,
    chain: Vec<Link>,
}

impl Image {
    pub(super) fn of(bytes: Vec<u8>) -> Image {
        let decode =
            |copy: u16| Superblock::decode(copy, &bytes[to_usize(copy_offset(copy))..]).ok();
        let found: Vec<_> = (0..COPIES)
            .filter_map(|copy| decode(copy).map(|it| (copy, it)))
            .collect();
        let newest = found.iter().max_by_key(|(_, (it, _))| it.generation);
        let superblock = newest.expect("a database").1.0;
        let copies = found.iter().filter(|(_, (it, _))| *it == superblock);
        let copies = copies.map(|(copy, (_, turn))| (*copy, *turn)).collect();
        let mut image = Image {
            id: Identity::new(superblock.db_id),
            geometry: Geometry {
                sector_bytes: superblock.sector_bytes.into(),
                block_bytes: superblock.block_bytes.into(),
                segment_bytes: superblock.segment_bytes,
            },
            bytes,
            superblock,
            copies,
            nodes: Vec::new(),
            chain: Vec::new(),
        };
        image.find_pages(Tree::Partitions, superblock.partitions_root, None);
        image.find_pages(Tree::Table, superblock.table_root, None);
        image.find_chain();
        image
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn find_pages(&mut self, tree: Tree, reference: PageRef, parent: Option<Parent>) {
        if reference == PageRef::NONE {
            return;
        }
        let at = to_usize(reference.offset);
        let raw = &self.bytes[at..at + reference.len as usize];
        let page = Page::decode(&self.id, tree, &reference, raw).expect("a whole page");
        let mut entries = Vec::new();
        page.each(|key, payload| {
            entries.push((key.to_vec(), payload.to_vec()));
            Ok(())
        })
        .expect("a whole page");
        let level = page.level;
        let node = self.nodes.len();
        let below = match (level, tree) {
            (0, Tree::Partitions) => Some(Tree::Run),
            (0, _) => None,
            _ => Some(tree),
        };
        let payloads = entries.iter().map(|(_, payload)| payload.clone());
        let payloads: Vec<Vec<u8>> = payloads.filter(|_| below.is_some()).collect();
        self.nodes.push(Node {
            tree,
            is_filter: false,
            level,
            reference,
            entries,
            parent,
        });
        for (entry, payload) in payloads.into_iter().enumerate() {
            let (references, _) = payload.as_chunks::<PAGE_REF_BYTES>();
            for (reference, child) in references.iter().enumerate() {
                let parent = Parent {
                    node,
                    entry,
                    reference,
                };
                let tree = below.expect("only then there are payloads");
                let child = PageRef::decode(child);
                // Of a run there are two: to its pages, and to its filter.
                let is_filter = (level, tree) == (0, Tree::Run)
                    && self.nodes[node].tree == Tree::Partitions
                    && reference % 2 == 1;
                match is_filter {
                    true => self.note_filter(child, parent),
                    false => self.find_pages(tree, child, Some(parent)),
                }
            }
        }
    }

    /// A filter has no entries: its bytes are changed as they are.
    fn note_filter(&mut self, reference: PageRef, parent: Parent) {
        if reference != PageRef::NONE {
            self.nodes.push(Node {
                tree: Tree::Run,
                is_filter: true,
                level: 0,
                reference,
                entries: Vec::new(),
                parent: Some(parent),
            });
        }
    }

    fn find_chain(&mut self) {
        let start = self.superblock.replay;
        let (mut lsn, mut physical, mut next) = (start.lsn, start.physical, start.physical);
        let geometry = self.geometry;
        if geometry.within(lsn) != 0 {
            let at = to_usize(geometry.segment_offset(physical));
            let logical = geometry.logical(lsn);
            let header =
                SegmentHeader::decode(&self.id, logical, physical, &self.bytes[at..]).expect("is");
            self.chain.push(Link::Header { at });
            next = header.next;
        }
        loop {
            let within = geometry.within(lsn);
            let at = to_usize(geometry.segment_offset(physical) + within);
            let room = geometry.segment_bytes - within;
            if within != 0
                && let Ok(header) = FrameHeader::decode(&self.id, lsn, room, &self.bytes[at..])
            {
                let end = at + to_usize(header.total_bytes());
                self.chain.push(Link::Frame { at, lsn, end });
                lsn += geometry.block_up(header.total_bytes());
                continue;
            }
            lsn = lsn.next_multiple_of(geometry.segment_bytes);
            let logical = geometry.logical(lsn);
            let at = to_usize(geometry.segment_offset(next));
            let Ok(header) = SegmentHeader::decode(&self.id, logical, next, &self.bytes[at..])
            else {
                return;
            };
            self.chain.push(Link::Header { at });
            (physical, next) = (next, header.next);
            lsn += geometry.block_bytes;
        }
    }

    /// Changes something, and says what.
    pub(super) fn edit(&mut self, rng: &mut Rng) -> String {
        let text = match rng.below(10) {
            0..3 => self.edit_superblock(rng),
            3..7 if !self.nodes.is_empty() => self.edit_page(rng),
            _ if !self.chain.is_empty() => self.edit_chain(rng),
            _ => self.edit_superblock(rng),
        };
        self.reseal();
        text
    }

    fn edit_superblock(&mut self, rng: &mut Rng) -> String {
        let fields = (SUPERBLOCK_BYTES - 8 - 32) as u64 / 4;
        let at = 32 + rng.below(fields) as usize * 4;
        let width = [4, 8][rng.below(2) as usize];
        let first = to_usize(copy_offset(self.copies[0].0));
        let mut raw = self.bytes[first..first + SUPERBLOCK_BYTES].to_vec();
        let number = self.change(rng, &mut raw, at, width);
        for (copy, turn) in &self.copies {
            let place = to_usize(copy_offset(*copy));
            // All but what tells the copies apart.
            self.bytes[place + 32..place + SUPERBLOCK_BYTES].copy_from_slice(&raw[32..]);
            Superblock::reseal(*copy, *turn, &mut self.bytes[place..]);
        }
        format!("superblock, bytes {at}..{}: {number:#x}", at + width)
    }

    /// Puts an interesting number there.
    fn change(&self, rng: &mut Rng, raw: &mut [u8], at: usize, width: usize) -> u64 {
        let width = width.min(raw.len().saturating_sub(at));
        if width == 0 {
            return 0;
        }
        let mut old = [0; 8];
        old[..width].copy_from_slice(&raw[at..at + width]);
        let new = self.number(rng, u64::from_le_bytes(old));
        raw[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
        new
    }

    fn number(&self, rng: &mut Rng, old: u64) -> u64 {
        let segment = self.geometry.segment_bytes;
        let count = u64::from(self.superblock.segment_count);
        let block = self.geometry.block_bytes;
        let numbers = [
            0,
            1,
            2,
            old.wrapping_add(1),
            old.wrapping_sub(1),
            old.wrapping_mul(2),
            old / 2,
            old.wrapping_add(block),
            old.wrapping_sub(block),
            old.wrapping_add(segment),
            old.wrapping_sub(segment),
            old ^ 1 << rng.below(64),
            u64::MAX,
            u64::MAX - 1,
            1 << 62,
            (1 << 62) - block,
            1 << 32,
            (1 << 32) - 1,
            (1 << 31) - 1,
            segment,
            2048,
            count,
            count - 1,
            self.superblock.replay.lsn,
            self.superblock.durable,
            rng.below(count),
            rng.below(1 << 20),
            rng.next(),
        ];
        numbers[rng.below(numbers.len() as u64) as usize]
    }

    fn edit_page(&mut self, rng: &mut Rng) -> String {
        let node = rng.below(self.nodes.len() as u64) as usize;
        let what = format!("{:?} page {node}", self.nodes[node].tree);
        if rng.chance(20) || self.nodes[node].entries.is_empty() {
            return format!("{what}, {}", self.edit_raw_page(rng, node));
        }
        let count = self.nodes[node].entries.len();
        let (one, other) = (
            rng.below(count as u64) as usize,
            rng.below(count as u64) as usize,
        );
        let text = match rng.below(6) {
            0 => {
                let payload = self.nodes[node].entries[other].1.clone();
                self.nodes[node].entries[one].1 = payload;
                format!("entry {one} gets the payload of {other}")
            }
            1 => {
                self.nodes[node].entries.swap(one, other);
                format!("entries {one} and {other} change places")
            }
            2 => {
                let all = self.nodes.iter().filter(|it| it.level > 0);
                let all: Vec<&Node> = all.collect();
                if all.is_empty() {
                    return format!("{what}, {}", self.edit_raw_page(rng, node));
                }
                let from = all[rng.below(all.len() as u64) as usize];
                let payload = from.entries[rng.below(from.entries.len() as u64) as usize].clone();
                self.nodes[node].entries[one] = payload;
                format!("entry {one} is that of an inner page")
            }
            _ => self.edit_entry(rng, node, one),
        };
        self.rebuild(node);
        format!("{what}, {text}")
    }

    /// Changes which runs a partition has.
    fn edit_runs(&mut self, rng: &mut Rng, node: usize, entry: usize) -> String {
        let all = self.nodes.iter().map(|it| it.reference);
        let all: Vec<PageRef> = all.collect();
        let other = all[rng.below(all.len() as u64) as usize];
        let (_, payload) = &mut self.nodes[node].entries[entry];
        let (runs, _) = payload.as_chunks::<RUN_ROOTS_BYTES>();
        let mut runs = runs.to_vec();
        let at = rng.below(runs.len() as u64) as usize;
        let mut reference = [0; RUN_ROOTS_BYTES];
        other.encode(&mut reference);
        if rng.chance(50) {
            let filter = all[rng.below(all.len() as u64) as usize];
            filter.encode(&mut reference[PAGE_REF_BYTES..]);
        }
        let text = match rng.below(5) {
            0 => {
                runs.remove(at);
                format!("partition {entry} has lost run {at}")
            }
            1 => {
                runs.insert(at, reference);
                format!("partition {entry} has a run at {other:?}")
            }
            2 => {
                runs[at] = reference;
                format!("run {at} of partition {entry} is {other:?}")
            }
            3 => {
                runs.extend(vec![reference; 1 + rng.below(40) as usize]);
                format!("partition {entry} has {} runs", runs.len())
            }
            _ => {
                let to = rng.below(runs.len() as u64) as usize;
                runs.swap(at, to);
                format!("runs {at} and {to} of partition {entry} change places")
            }
        };
        *payload = runs.concat();
        text
    }

    /// Changes a number of an entry.
    fn edit_entry(&mut self, rng: &mut Rng, node: usize, entry: usize) -> String {
        if self.nodes[node].tree == Tree::Partitions
            && self.nodes[node].level == 0
            && self.nodes[node].entries[entry].1.len() >= RUN_ROOTS_BYTES
            && rng.chance(70)
        {
            return self.edit_runs(rng, node, entry);
        }
        let Node { tree, level, .. } = self.nodes[node];
        let (mut key, mut payload) = self.nodes[node].entries[entry].clone();
        let version = entry::decode(&self.geometry, self.superblock.segment_count, &payload);
        let text = match version {
            Ok(version) if level == 0 && tree == Tree::Run && rng.chance(80) => {
                let (version, text) = self.edit_version(rng, version);
                payload.clear();
                entry::encode(&version, &mut payload);
                text
            }
            _ if rng.chance(30) => {
                let at = rng.below(key.len().max(1) as u64) as usize;
                let number = self.change(rng, &mut key, at, 8);
                format!("entry {entry}, key from {at} on: {number:#x}")
            }
            _ => {
                let at = rng.below((payload.len() as u64 / 4).max(1)) as usize * 4;
                let width = [4, 8][rng.below(2) as usize];
                let number = self.change(rng, &mut payload, at, width);
                format!("entry {entry}, payload from {at} on: {number:#x}")
            }
        };
        self.nodes[node].entries[entry] = (key, payload);
        text
    }

    fn edit_version(&self, rng: &mut Rng, mut version: Version) -> (Version, String) {
        if rng.chance(20) {
            version.sequence = self.number(rng, version.sequence);
            let text = format!("sequence {:#x}", version.sequence);
            return (version, text);
        }
        let text = match &mut version.place {
            Place::Log { lsn, .. } if rng.chance(50) => {
                *lsn = self.number(rng, *lsn);
                format!("position {lsn:#x}")
            }
            Place::Log { value_bytes, .. } => {
                let [a, b, c, d, ..] = self.number(rng, (*value_bytes).into()).to_le_bytes();
                *value_bytes = u32::from_le_bytes([a, b, c, d]);
                format!("{value_bytes:#x} bytes")
            }
            Place::Extent(pointer) => {
                let mut chunks = pointer.chunks.to_vec();
                let chunk = chunks[rng.below(chunks.len() as u64) as usize];
                match rng.below(3) {
                    0 => chunks.extend(vec![chunk; 1 + rng.below(300) as usize]),
                    1 => {
                        let at = rng.below(chunks.len() as u64) as usize;
                        chunks[at].offset = self.number(rng, chunk.offset);
                    }
                    _ => {
                        let at = rng.below(chunks.len() as u64) as usize;
                        let [a, b, c, d, ..] = self.number(rng, chunk.len.into()).to_le_bytes();
                        chunks[at].len = u32::from_le_bytes([a, b, c, d]);
                    }
                }
                let total = chunks.iter().map(|it| u64::from(it.len)).sum::<u64>();
                pointer.total = u32::try_from(total).unwrap_or(u32::MAX);
                let text = format!("chunks {chunks:?}");
                pointer.chunks = chunks.into();
                text
            }
            Place::Inline(value) => {
                let len = [0, 1_025, 5_000][rng.below(3) as usize];
                *value = vec![7; len].into();
                format!("a value of {len} bytes in the index")
            }
            Place::Tombstone => {
                version.place = Place::Inline([9; 5].into());
                "a value where there was a deletion".to_owned()
            }
        };
        (version, text)
    }

    /// Makes the page of its entries again, if they fit.
    fn rebuild(&mut self, node: usize) {
        if self.nodes[node].is_filter {
            return;
        }
        let Node {
            tree,
            level,
            reference,
            ref entries,
            ..
        } = self.nodes[node];
        let mut raw = Vec::new();
        page::begin(&mut raw);
        let mut last: &[u8] = &[];
        for (key, payload) in entries {
            let shared = page::shared_bytes(last, key);
            page::push(&mut raw, shared, key, payload);
            last = key;
        }
        let len = reference.len as usize;
        if raw.len() > len {
            return;
        }
        let (count, block) = (crate::format::len32(entries.len()), reference.len);
        page::finish(
            &self.id,
            tree,
            level,
            count,
            reference.offset,
            u64::from(block).next_power_of_two(),
            &mut raw,
        );
        raw.resize(len, 0);
        let at = to_usize(reference.offset);
        self.bytes[at..at + len].copy_from_slice(&raw);
        self.refer(node);
    }

    fn edit_raw_page(&mut self, rng: &mut Rng, node: usize) -> String {
        let reference = self.nodes[node].reference;
        let place = to_usize(reference.offset);
        let mut raw = self.bytes[place..place + reference.len as usize].to_vec();
        let at = match rng.chance(30) {
            true => rng.below(PAGE_HEADER_BYTES as u64),
            false => rng.below(raw.len() as u64),
        } as usize;
        let width = [1, 2, 4, 8][rng.below(4) as usize];
        let number = self.change(rng, &mut raw, at, width);
        self.bytes[place..place + raw.len()].copy_from_slice(&raw);
        self.refer(node);
        format!("bytes {at}..{}: {number:#x}", at + width)
    }

    /// Makes what leads to a page right again, up to the superblock.
    fn refer(&mut self, node: usize) {
        let reference = &mut self.nodes[node].reference;
        let at = to_usize(reference.offset);
        let raw = &self.bytes[at..at + reference.len as usize];
        let checksum = self.id.checksum(Kind::Page, 0, reference.offset, raw);
        reference.checksum = checksum;
        let reference = *reference;
        match self.nodes[node].parent {
            Some(parent) => {
                let (_, payload) = &mut self.nodes[parent.node].entries[parent.entry];
                let place = payload.get_mut(parent.reference * PAGE_REF_BYTES..);
                // An edit may have taken the reference away.
                if let Some(place) = place.filter(|place| place.len() >= PAGE_REF_BYTES) {
                    reference.encode(place);
                }
                self.rebuild(parent.node);
            }
            None => {
                match self.nodes[node].tree {
                    Tree::Partitions => self.superblock.partitions_root = reference,
                    Tree::Run => unreachable!("the list of partitions leads to it"),
                    Tree::Table => self.superblock.table_root = reference,
                }
                let superblock = self.superblock;
                for (copy, turn) in &self.copies {
                    superblock.encode(
                        *copy,
                        *turn,
                        &mut self.bytes[to_usize(copy_offset(*copy))..],
                    );
                }
            }
        }
    }

    fn edit_chain(&mut self, rng: &mut Rng) -> String {
        let number = rng.below(self.chain.len() as u64) as usize;
        match self.chain[number] {
            Link::Header { at } => {
                let within = 24 + rng.below(12) as usize * 4;
                let mut raw = self.bytes[at..at + SEGMENT_HEADER_BYTES].to_vec();
                let width = [4, 8][rng.below(2) as usize];
                let value = self.change(rng, &mut raw, within, width);
                self.bytes[at..at + raw.len()].copy_from_slice(&raw);
                format!("segment header {number} from {within} on: {value:#x}")
            }
            Link::Frame { at, .. } if rng.chance(30) => {
                let within = 24 + rng.below(12) as usize * 4;
                let mut raw = self.bytes[at..at + FRAME_HEADER_BYTES].to_vec();
                let width = [4, 8][rng.below(2) as usize];
                let value = self.change(rng, &mut raw, within, width);
                self.bytes[at..at + raw.len()].copy_from_slice(&raw);
                format!("frame header {number} from {within} on: {value:#x}")
            }
            Link::Frame { at, lsn, end } => {
                let body = at + FRAME_HEADER_BYTES..end;
                let mut raw = self.bytes[body.clone()].to_vec();
                let mut starts = Vec::new();
                let first = lsn + FRAME_HEADER_BYTES as u64;
                for it in Records::new(first, &raw).flatten() {
                    let len = record::record_bytes(it.key.len(), it.value.len());
                    starts.push((to_usize(it.lsn - first), len));
                }
                if starts.is_empty() {
                    return "nothing".to_owned();
                }
                let (start, len) = starts[rng.below(starts.len() as u64) as usize];
                let one = &mut raw[start..start + len];
                let within = match rng.chance(60) {
                    true => 8 + rng.below(16),
                    false => rng.below(len as u64),
                } as usize;
                let width = [1, 2, 4, 8][rng.below(4) as usize];
                let value = self.change(rng, one, within, width);
                record::reseal(&self.id, first + start as u64, one);
                self.bytes[body].copy_from_slice(&raw);
                format!("frame {number}, record at {start} from {within} on: {value:#x}")
            }
        }
    }

    /// Lets the header of the segment in which replay begins lead to another one. Whether it begins behind that header.
    pub(super) fn lead_elsewhere(&mut self) -> bool {
        let Link::Header { at } = self.chain[0] else {
            return false;
        };
        let next = at + SegmentHeader::NEXT_AT;
        self.bytes[next] ^= 1;
        self.reseal();
        self.geometry.within(self.superblock.replay.lsn) != 0
    }

    /// Makes every page again of what it holds.
    pub(super) fn rebuild_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.rebuild(node));
    }

    /// Makes the checksums of the chain right again, each of which names the one before, and what the superblock says of them.
    pub(super) fn reseal(&mut self) {
        let mut previous = self.superblock.replay.previous_checksum;
        let mut before_epoch = self.superblock.epoch_checksum;
        for (number, link) in self.chain.iter().enumerate() {
            match *link {
                Link::Header { at } => {
                    // Replay begins behind this one.
                    let is_before =
                        number == 0 && self.geometry.within(self.superblock.replay.lsn) != 0;
                    let previous = (!is_before).then_some(previous);
                    SegmentHeader::reseal(&self.id, previous, &mut self.bytes[at..]);
                }
                Link::Frame { at, lsn, .. } => {
                    previous = FrameHeader::reseal(&self.id, lsn, previous, &mut self.bytes[at..]);
                    if lsn < self.superblock.epoch_start {
                        before_epoch = previous;
                    }
                }
            }
        }
        if before_epoch != self.superblock.epoch_checksum {
            for (copy, turn) in &self.copies {
                let place = to_usize(copy_offset(*copy));
                Superblock::set_epoch_checksum(before_epoch, &mut self.bytes[place..]);
                Superblock::reseal(*copy, *turn, &mut self.bytes[place..]);
            }
        }
    }
}
