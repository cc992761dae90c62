//! The device: a volatile cache, faults, and power cuts.
//!
//! A write is durable when a flush that was submitted after its completion completes, or when it was write-through and has
//! completed. A power cut keeps any subset of the rest, in any order, torn at any sector, with garbage in sectors being written.
//! A flush may fail and drop what it covered, for ever, while reads still show it from the cache until the power fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_engine::{DeviceInfo, DiskError, DiskOp, IoBuf};

use super::Rng;

#[derive(Debug, Clone)]
struct Pending {
    id: u64,
    offset: usize,
    data: Arc<Vec<u8>>,
    complete: bool,
}

#[derive(Debug)]
enum Kind {
    Read {
        offset: usize,
        buffer: IoBuf,
    },
    Write {
        id: u64,
        through: bool,
    },
    /// The completed writes that it makes durable.
    Flush {
        covers: Vec<u64>,
    },
    Grow {
        bytes: usize,
    },
    Discard,
}

#[derive(Debug)]
struct InFlight {
    at: u64,
    kind: Kind,
}

/// Times of one device.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub read: u64,
    pub write: u64,
    pub flush: u64,
    /// Each time is multiplied by up to this, at random.
    pub spread: u64,
}

pub const FAST: Times = Times {
    read: 20_000,
    write: 20_000,
    flush: 200_000,
    spread: 3,
};

pub struct Disk {
    pub durable: Vec<u8>,
    /// What reads see: all that was submitted, whether it will ever be durable or not.
    cache: Vec<u8>,
    pending: Vec<Pending>,
    in_flight: BTreeMap<u64, InFlight>,
    pub device: DeviceInfo,
    pub times: Times,
    pub rng: Rng,
    next_id: u64,
    /// The device is busy with flushes until then: they are serial.
    flush_free_at: u64,
    pub fail_writes: bool,
    /// Every flush fails and drops all it covers.
    pub fail_flushes: bool,
    /// So many flushes in a hundred fail; each write covered is dropped, made durable, or left as it was.
    pub flush_errors_percent: u64,
    pub fail_reads: bool,
    /// A growth fails where it makes everything durable, and drops all that it should have.
    pub fail_growth: bool,
    /// Of so many reads in a row one succeeds.
    pub read_succeeds_each: u64,
    /// How long a growth takes.
    pub growth_ns: u64,
    /// So many growths find no space.
    pub refused_growths: u64,
    /// Growths that were asked for.
    pub growths: u64,
    /// Sectors that fail when they are read, until they are rewritten.
    pub unreadable: BTreeSet<usize>,
    /// In a hundred of the sectors that a torn write did not bring whole, so many are unreadable.
    pub unreadable_percent: u64,
    /// At a power cut, so many in a hundred of the surviving writes are torn, and so many of the sectors that such a write
    /// did not bring whole are garbage.
    pub torn_percent: u64,
    pub garbage_percent: u64,
    /// What was there once, and how many reads at an offset bring that.
    pub older: Vec<u8>,
    pub misreads: BTreeMap<usize, u32>,
    pub reads: u64,
    reads_ended: u64,
    pub writes: u64,
    pub flushes: u64,
}

impl Disk {
    pub fn new(device: DeviceInfo, times: Times, seed: u64) -> Disk {
        Disk {
            durable: vec![0; device.capacity_bytes as usize],
            cache: vec![0; device.capacity_bytes as usize],
            pending: Vec::new(),
            in_flight: BTreeMap::new(),
            device,
            times,
            rng: Rng(seed),
            next_id: 1,
            flush_free_at: 0,
            fail_writes: false,
            fail_flushes: false,
            flush_errors_percent: 0,
            fail_reads: false,
            fail_growth: false,
            read_succeeds_each: 1,
            growth_ns: 1000,
            refused_growths: 0,
            growths: 0,
            unreadable: BTreeSet::new(),
            unreadable_percent: 0,
            torn_percent: 40,
            garbage_percent: 20,
            older: Vec::new(),
            misreads: BTreeMap::new(),
            reads: 0,
            reads_ended: 0,
            writes: 0,
            flushes: 0,
        }
    }

    fn took(&mut self, base: u64) -> u64 {
        base + self.rng.below(base * self.times.spread / 2 + 1)
    }

    pub fn submit(&mut self, now: u64, tag: u64, op: DiskOp) {
        let sector = u64::from(self.device.sector_bytes);
        let check = |offset: u64, len: usize| {
            assert!(
                offset.is_multiple_of(sector) && (len as u64).is_multiple_of(sector),
                "misaligned: {offset} {len}"
            );
            offset as usize
        };
        let (at, kind) = match op {
            DiskOp::Read { offset, buffer } => {
                let offset = check(offset, buffer.len());
                assert!(
                    offset + buffer.len() <= self.durable.len(),
                    "read out of range"
                );
                self.reads += 1;
                (
                    now + self.took(self.times.read),
                    Kind::Read { offset, buffer },
                )
            }
            DiskOp::Write {
                offset,
                data,
                through,
            } => {
                let offset = check(offset, data.len());
                assert!(
                    offset + data.len() <= self.durable.len(),
                    "write out of range"
                );
                assert!(
                    !through || self.device.write_through,
                    "write-through was not offered"
                );
                self.writes += 1;
                let id = self.next_id;
                self.next_id += 1;
                let bytes = Arc::new(data.to_vec());
                self.cache[offset..offset + bytes.len()].copy_from_slice(&bytes);
                self.pending.push(Pending {
                    id,
                    offset,
                    data: bytes,
                    complete: false,
                });
                (
                    now + self.took(self.times.write),
                    Kind::Write { id, through },
                )
            }
            DiskOp::Flush => {
                self.flushes += 1;
                let covers = self
                    .pending
                    .iter()
                    .filter(|w| w.complete)
                    .map(|w| w.id)
                    .collect();
                let at = now.max(self.flush_free_at) + self.took(self.times.flush);
                self.flush_free_at = at;
                (at, Kind::Flush { covers })
            }
            DiskOp::Grow { new_bytes } => {
                self.growths += 1;
                let bytes = new_bytes as usize;
                (now + self.growth_ns, Kind::Grow { bytes })
            }
            DiskOp::Discard { .. } => (now + 1000, Kind::Discard),
        };
        assert!(
            self.in_flight.insert(tag, InFlight { at, kind }).is_none(),
            "a tag in use"
        );
    }

    pub fn next_at(&self) -> Option<(u64, u64)> {
        self.in_flight.iter().map(|(tag, op)| (op.at, *tag)).min()
    }

    fn harden(&mut self, id: u64) {
        let Some(at) = self.pending.iter().position(|w| w.id == id) else {
            return;
        };
        let write = self.pending.remove(at);
        let end = write.offset + write.data.len();
        self.durable[write.offset..end].copy_from_slice(&write.data);
        let sector = self.device.sector_bytes as usize;
        let rewritten = write.offset / sector..end / sector;
        self.unreadable.retain(|it| !rewritten.contains(it));
        // An older write to the same place must not win later.
        for older in self.pending.iter_mut().filter(|older| older.id < id) {
            let from = older.offset.max(write.offset);
            let to = (older.offset + older.data.len()).min(end);
            if from < to {
                let source = &write.data[from - write.offset..to - write.offset];
                Arc::make_mut(&mut older.data)[from - older.offset..to - older.offset]
                    .copy_from_slice(source);
            }
        }
    }

    pub fn complete(&mut self, tag: u64) -> Result<Option<IoBuf>, DiskError> {
        let op = self.in_flight.remove(&tag).expect("in flight");
        match op.kind {
            Kind::Read { offset, mut buffer } => {
                let end = offset + buffer.len();
                self.reads_ended += 1;
                let fails = !self.reads_ended.is_multiple_of(self.read_succeeds_each);
                if self.fail_reads || fails || self.is_unreadable(offset, end) {
                    return Err(DiskError::Read);
                }
                let source = self.shown_at(offset);
                buffer.copy_from_slice(&source[offset..end]);
                Ok(Some(buffer))
            }
            Kind::Write { id, through } => {
                if self.fail_writes {
                    return Err(DiskError::Write);
                }
                if through || !self.device.volatile_cache {
                    self.harden(id);
                } else if let Some(write) = self.pending.iter_mut().find(|w| w.id == id) {
                    write.complete = true;
                }
                Ok(None)
            }
            Kind::Flush { covers } => {
                if self.fail_flushes {
                    self.pending.retain(|write| !covers.contains(&write.id));
                    return Err(DiskError::Flush);
                }
                if self.flush_errors_percent > 0 && self.rng.chance(self.flush_errors_percent) {
                    self.fail_flush(&covers);
                    return Err(DiskError::Flush);
                }
                covers.into_iter().for_each(|id| self.harden(id));
                Ok(None)
            }
            Kind::Grow { .. } if self.fail_growth => {
                self.pending.retain(|write| !write.complete);
                Err(DiskError::Flush)
            }
            Kind::Grow { .. } if self.refused_growths > 0 => {
                self.refused_growths -= 1;
                Err(DiskError::NoSpace)
            }
            Kind::Grow { bytes } => {
                self.durable.resize(bytes, 0);
                self.cache.resize(bytes, 0);
                self.device.capacity_bytes = bytes as u64;
                Ok(None)
            }
            Kind::Discard => Ok(None),
        }
    }

    /// What a read at this offset brings.
    fn shown_at(&mut self, offset: usize) -> &[u8] {
        match self.misreads.get_mut(&offset) {
            Some(left) if *left > 0 => {
                *left -= 1;
                &self.older
            }
            _ => &self.cache,
        }
    }

    /// What a thread reads itself, now.
    pub fn read_here(&mut self, offset: u64, len: usize) -> Option<IoBuf> {
        let (from, to) = (offset as usize, offset as usize + len);
        if self.fail_reads || self.is_unreadable(from, to) {
            return None;
        }
        let mut buffer = IoBuf::zeroed(len);
        buffer.copy_from_slice(&self.shown_at(from)[from..to]);
        Some(buffer)
    }

    fn fail_flush(&mut self, covers: &[u64]) {
        let all = self.rng.chance(50);
        for id in covers {
            match if all { 0 } else { self.rng.below(3) } {
                0 => self.pending.retain(|write| write.id != *id),
                1 => self.harden(*id),
                _ => {}
            }
        }
    }

    fn is_unreadable(&self, from: usize, to: usize) -> bool {
        let sector = self.device.sector_bytes as usize;
        let mut bad = self.unreadable.range(from / sector..to.div_ceil(sector));
        // What is in the cache is read from there.
        let covered = |at: usize| {
            let mut pending = self.pending.iter();
            pending.any(|it| it.offset <= at && at < it.offset + it.data.len())
        };
        bad.any(|it| !covered(it * sector))
    }

    /// The half of the superblock's copies of which the cache shows what is not on the medium and never will be.
    pub fn dropped_half(&self) -> Option<usize> {
        let differs = |half: usize| {
            let at = [half, half + 2].map(|copy| copy * 65_536);
            let is_pending = |at: usize| self.pending.iter().any(|it| it.offset == at);
            at.iter().all(|at| {
                self.durable[*at..at + 512] != self.cache[*at..at + 512] && !is_pending(*at)
            })
        };
        match [differs(0), differs(1)] {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        }
    }

    /// Changes a byte on the medium and in the cache alike: what a failed flush dropped is shown further on.
    pub fn rot(&mut self, at: usize) {
        self.durable[at] ^= 0x55;
        self.cache[at] ^= 0x55;
    }

    /// A copy of a device at rest.
    pub fn copy(&self) -> Disk {
        assert!(self.in_flight.is_empty(), "the device is at work");
        Disk {
            durable: self.durable.clone(),
            cache: self.cache.clone(),
            pending: self.pending.clone(),
            in_flight: BTreeMap::new(),
            device: self.device.clone(),
            rng: self.rng.clone(),
            unreadable: self.unreadable.clone(),
            older: self.older.clone(),
            misreads: self.misreads.clone(),
            ..*self
        }
    }

    /// Puts an image there instead of what is there.
    #[allow(dead_code, reason = "for crafted images only")]
    pub fn load(&mut self, image: Vec<u8>) {
        assert_eq!(image.len(), self.durable.len(), "an image of this device");
        self.cache.clone_from(&image);
        self.durable = image;
    }

    /// Changes bytes on the medium, behind everyone's back.
    pub fn damage(&mut self, change: impl FnOnce(&mut [u8])) {
        change(&mut self.durable);
        self.cache.clone_from(&self.durable);
        for write in &self.pending {
            self.cache[write.offset..write.offset + write.data.len()].copy_from_slice(&write.data);
        }
    }

    /// The power fails: any subset of what is not durable survives, torn, in any order.
    pub fn power_cut(&mut self) {
        self.in_flight.clear();
        let mut pending = std::mem::take(&mut self.pending);
        let keep = self.rng.below(101);
        let sector = self.device.sector_bytes as usize;
        while !pending.is_empty() {
            let at = self.rng.below(pending.len() as u64) as usize;
            let write = pending.swap_remove(at);
            if self.rng.below(100) >= keep {
                continue;
            }
            let torn = self.rng.chance(self.torn_percent);
            for (n, chunk) in write.data.chunks(sector).enumerate() {
                let to = write.offset + n * sector;
                if torn && self.rng.chance(40) {
                    if self.unreadable_percent > 0 && self.rng.chance(self.unreadable_percent) {
                        self.unreadable.insert(to / sector);
                        continue;
                    }
                    if self.rng.chance(self.garbage_percent) {
                        for byte in &mut self.durable[to..to + chunk.len()] {
                            *byte = self.rng.next() as u8;
                        }
                    }
                    continue;
                }
                self.durable[to..to + chunk.len()].copy_from_slice(chunk);
                self.unreadable.remove(&(to / sector));
            }
        }
        self.flush_free_at = 0;
        self.cache.clone_from(&self.durable);
    }

    /// Everything that was submitted reaches the medium.
    pub fn keep_all(&mut self) {
        let all: Vec<u64> = self.pending.iter().map(|write| write.id).collect();
        all.into_iter().for_each(|id| self.harden(id));
    }

    /// The process dies: the device keeps all that was submitted, volatile as it is.
    pub fn process_crash(&mut self) {
        self.in_flight.clear();
        self.pending
            .iter_mut()
            .for_each(|write| write.complete = true);
        if !self.device.volatile_cache {
            let all: Vec<u64> = self.pending.iter().map(|write| write.id).collect();
            all.into_iter().for_each(|id| self.harden(id));
        }
    }
}
