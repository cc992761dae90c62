//! The device as a host sees it: operations go in, completions come out, the power may go.
//!
//! Invariants: operations are numbered from 0 over the life of the device; whether a fault befalls an operation depends on the
//! seed, the kind of fault and that number alone; an operation takes effect on what is durable no earlier than its completion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::crash::{self, CrashError, CrashKind, CrashReport, CrashState};
use crate::persistence::{Mark, PendingKind, PendingWrite, Persistence};
use crate::rng::{Purpose, Rng, draw, happens, scale};
use crate::timing::{Kind, Timing};
use crate::{
    Cache, ConfigError, DeviceConfig, DeviceStats, FaultConfig, FaultCounts, FaultKind, Image,
    Nanos, ScriptedFault,
};

/// The number of an operation, from 0 over the life of a device.
pub type OpId = u64;

/// An operation on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Reads whole sectors.
    Read {
        /// First byte.
        offset: u64,
        /// How many.
        len_bytes: u32,
    },
    /// Writes whole sectors.
    Write {
        /// First byte.
        offset: u64,
        /// What.
        data: Arc<[u8]>,
        /// Durable when complete, also on a device with a volatile cache.
        through: bool,
    },
    /// Makes durable what has completed.
    Flush,
    /// Gives whole sectors back; they read as zeros.
    Discard {
        /// First byte.
        offset: u64,
        /// How many.
        len_bytes: u32,
    },
    /// Makes the device larger.
    Grow {
        /// The new size.
        new_bytes: u64,
    },
}

/// Why an operation was not taken: a fault of the one who submitted it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Not whole sectors.
    #[error(
        "offset {offset} and length {len_bytes} are not multiples of the sector ({sector_bytes})"
    )]
    Misaligned {
        /// Where.
        offset: u64,
        /// How much.
        len_bytes: u64,
        /// The sector.
        sector_bytes: u64,
    },
    /// Nothing to do, or beyond the end.
    #[error(
        "offset {offset} and length {len_bytes} are empty or outside the device of {capacity_bytes} bytes"
    )]
    OutOfRange {
        /// Where.
        offset: u64,
        /// How much.
        len_bytes: u64,
        /// The size of the device.
        capacity_bytes: u64,
    },
    /// The device told that it cannot do this.
    #[error("the device does not support {0}")]
    Unsupported(&'static str),
}

/// How an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskError {
    /// A read failed.
    Read,
    /// A write, discard or growth failed; what is on the medium is unknown.
    Write,
    /// A flush failed; what is durable is unknown.
    Flush,
    /// There is no space.
    NoSpace,
}

/// The end of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The tag it was submitted with.
    pub tag: u64,
    /// Its number.
    pub id: OpId,
    /// When it completed.
    pub at: Nanos,
    /// When it was submitted.
    pub submitted_at: Nanos,
    /// A read's bytes; nothing for the others.
    pub result: Result<Option<Vec<u8>>, DiskError>,
}

/// What a device says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Logical sector.
    pub sector_bytes: u32,
    /// What it rewrites internally.
    pub physical_block_bytes: u32,
    /// Present size.
    pub capacity_bytes: u64,
    /// How far it can grow.
    pub max_capacity_bytes: u64,
    /// Whether a completed write needs a flush to be durable.
    pub volatile_cache: bool,
    /// Whether a write can be written through.
    pub fua: bool,
    /// Whether discard is supported.
    pub discard: bool,
    /// An aligned write up to this size is all or nothing.
    pub atomic_write_bytes: u64,
}

#[derive(Debug, Clone)]
struct InFlight {
    tag: u64,
    submitted_at: Nanos,
    work: Work,
    error: Option<DiskError>,
}

#[derive(Debug, Clone)]
enum Work {
    Read {
        offset: u64,
        len_bytes: u32,
        from: ReadFrom,
    },
    /// `effect`: whether it is in the cache at all.
    Write {
        through: bool,
        effect: bool,
    },
    Discard,
    Flush {
        mark: Mark,
        effect: bool,
        drop_dirty: bool,
    },
    Grow {
        new_bytes: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum ReadFrom {
    Here,
    Elsewhere(u64),
    Before,
}

/// A simulated device. Cloning is cheap: the content is shared until written.
#[derive(Debug, Clone)]
pub struct Device {
    config: DeviceConfig,
    faults: FaultConfig,
    seed: u64,
    persistence: Persistence,
    timing: Timing,
    in_flight: BTreeMap<(Nanos, OpId), InFlight>,
    ops: OpId,
    now: Nanos,
    crash_rng: Rng,
    counts: FaultCounts,
    stats: DeviceStats,
    fired_script: Vec<ScriptedFault>,
    bad_reads: BTreeSet<u64>,
    bad_writes: BTreeSet<u64>,
    /// What sectors held before their last overwrite; kept only where stale reads are asked for.
    before: BTreeMap<u64, Vec<u8>>,
}

impl Device {
    /// A blank device.
    ///
    /// # Errors
    /// Where the configuration is out of range or impossible.
    pub fn new(
        config: &DeviceConfig,
        faults: &FaultConfig,
        seed: u64,
    ) -> Result<Device, ConfigError> {
        config.validate()?;
        faults.validate(config)?;
        Ok(Device {
            config: config.clone(),
            faults: faults.clone(),
            seed,
            persistence: Persistence::new(config.sector_bytes, config.capacity_bytes),
            timing: Timing::new(&config.timing, config.queue_depth, seed),
            in_flight: BTreeMap::new(),
            ops: 0,
            now: 0,
            crash_rng: Rng::new(seed, Purpose::Crash),
            counts: FaultCounts::default(),
            stats: DeviceStats::default(),
            fired_script: Vec::new(),
            bad_reads: BTreeSet::new(),
            bad_writes: BTreeSet::new(),
            before: BTreeMap::new(),
        })
    }

    /// What the device says of itself.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            sector_bytes: self.config.sector_bytes,
            physical_block_bytes: self.config.physical_block_bytes,
            capacity_bytes: self.persistence.visible().len_bytes(),
            max_capacity_bytes: self.config.limit_bytes(),
            volatile_cache: self.config.cache == Cache::Volatile,
            fua: self.config.fua || self.config.cache != Cache::Volatile,
            discard: self.config.discard,
            atomic_write_bytes: self
                .config
                .atomic_write_bytes
                .max(u64::from(self.config.sector_bytes)),
        }
    }

    /// What reads see.
    #[must_use]
    pub fn image(&self) -> &Image {
        self.persistence.visible()
    }

    /// What a power cut would leave if nothing pending survived.
    #[must_use]
    pub fn durable(&self) -> &Image {
        self.persistence.durable()
    }

    /// Everything that a power cut may lose, in the order of submission.
    #[must_use]
    pub fn pending(&self) -> &[PendingWrite] {
        self.persistence.pending()
    }

    /// Faults possible and fired since the device was made.
    #[must_use]
    pub fn counts(&self) -> &FaultCounts {
        &self.counts
    }

    /// Operations and bytes since the device was made.
    #[must_use]
    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    /// The faults that befell operations so far, in the form that a script takes.
    #[must_use]
    pub fn fired_script(&self) -> &[ScriptedFault] {
        &self.fired_script
    }

    /// Operations under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// When the next operation completes.
    #[must_use]
    pub fn next_completion_at(&self) -> Option<Nanos> {
        self.in_flight.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Submits an operation.
    ///
    /// # Errors
    /// What no correct caller submits. The operation did not happen and has no number.
    pub fn submit(&mut self, now: Nanos, tag: u64, op: Op) -> Result<OpId, SubmitError> {
        self.validate(&op)?;
        let id = self.ops;
        self.ops += 1;
        self.now = self.now.max(now);
        let (kind, len_bytes, work, error) = match op {
            Op::Read { offset, len_bytes } => self.submit_read(id, offset, len_bytes),
            Op::Write {
                offset,
                data,
                through,
            } => self.submit_write(id, offset, data, through),
            Op::Flush => self.submit_flush(id),
            Op::Discard { offset, len_bytes } => {
                self.stats.discards += 1;
                let len_bytes = u64::from(len_bytes);
                self.persistence
                    .submit(id, PendingKind::Discard { offset, len_bytes });
                (Kind::Discard, 0, Work::Discard, None)
            }
            Op::Grow { new_bytes } => {
                self.stats.grows += 1;
                let full =
                    new_bytes > self.config.limit_bytes() || self.fires(FaultKind::NoSpace, id);
                (
                    Kind::Grow,
                    0,
                    Work::Grow { new_bytes },
                    full.then_some(DiskError::NoSpace),
                )
            }
        };
        let (at, stalled) = self.timing.schedule(now, id, kind, len_bytes);
        if self.config.timing.stall > 0.0 {
            self.counts.count(FaultKind::Stall, stalled);
        }
        self.in_flight.insert(
            (at, id),
            InFlight {
                tag,
                submitted_at: now,
                work,
                error,
            },
        );
        Ok(id)
    }

    /// Completes the earliest operation; ties go by number.
    pub fn complete_next(&mut self) -> Option<Completion> {
        let ((at, id), op) = self.in_flight.pop_first()?;
        self.now = self.now.max(at);
        let result = match op.error {
            Some(error) => {
                self.fail(&op.work);
                Err(error)
            }
            None => Ok(self.finish(id, &op.work)),
        };
        Some(Completion {
            tag: op.tag,
            id,
            at,
            submitted_at: op.submitted_at,
            result,
        })
    }

    /// Draws what a power cut now would leave.
    pub fn draw_crash(&mut self) -> CrashState {
        crash::draw(
            self.persistence.pending(),
            &self.config,
            &self.faults,
            &mut self.crash_rng,
        )
    }

    /// Ends the incarnation. A process crash lets the device finish what was submitted and keeps its cache, whatever `state`
    /// says; a power cut leaves what `state` says.
    ///
    /// # Errors
    /// If the configured device could not have left this. Nothing has changed then.
    pub fn crash(
        &mut self,
        now: Nanos,
        kind: CrashKind,
        state: &CrashState,
    ) -> Result<CrashReport, CrashError> {
        self.now = self.now.max(now);
        let in_flush = self
            .in_flight
            .values()
            .any(|op| matches!(op.work, Work::Flush { .. }));
        if kind == CrashKind::Process {
            while self.complete_next().is_some() {}
            let pending = self.pending().len() as u64;
            return Ok(CrashReport {
                kind,
                pending,
                lost: 0,
                torn: 0,
                in_flush,
                state: CrashState::default(),
            });
        }
        let pending = self.persistence.pending();
        crash::check(state, pending, &self.config, &self.faults)?;
        let can_tear = pending
            .iter()
            .any(|write| crash::tearable(write, &self.config, &self.faults).is_some());
        crash::count(state, pending, &self.faults, &mut self.counts, can_tear);
        self.counts.count(FaultKind::CutInFlush, in_flush);
        let torn = state
            .survivors
            .iter()
            .filter(|survivor| survivor.sectors != crash::Sectors::All)
            .count() as u64;
        let pending = pending.len() as u64;
        let report = CrashReport {
            kind,
            pending,
            lost: pending - state.survivors.len() as u64,
            torn,
            in_flush,
            state: state.clone(),
        };
        self.persistence.cut(state);
        self.in_flight.clear();
        self.timing.reset(self.now);
        Ok(report)
    }

    fn validate(&self, op: &Op) -> Result<(), SubmitError> {
        let sector_bytes = u64::from(self.config.sector_bytes);
        let capacity_bytes = self.persistence.visible().len_bytes();
        let (offset, len_bytes) = match op {
            Op::Flush => return Ok(()),
            Op::Grow { new_bytes } => (*new_bytes, 0),
            Op::Read { offset, len_bytes } | Op::Discard { offset, len_bytes } => {
                (*offset, u64::from(*len_bytes))
            }
            Op::Write { offset, data, .. } => (*offset, data.len() as u64),
        };
        if !offset.is_multiple_of(sector_bytes) || !len_bytes.is_multiple_of(sector_bytes) {
            return Err(SubmitError::Misaligned {
                offset,
                len_bytes,
                sector_bytes,
            });
        }
        if matches!(op, Op::Grow { .. }) {
            return Ok(());
        }
        if len_bytes == 0
            || offset
                .checked_add(len_bytes)
                .is_none_or(|end| end > capacity_bytes)
        {
            return Err(SubmitError::OutOfRange {
                offset,
                len_bytes,
                capacity_bytes,
            });
        }
        if matches!(op, Op::Write { through: true, .. }) && !self.capabilities().fua {
            return Err(SubmitError::Unsupported("write-through"));
        }
        if matches!(op, Op::Discard { .. }) && !self.config.discard {
            return Err(SubmitError::Unsupported("discard"));
        }
        Ok(())
    }

    fn submit_read(
        &mut self,
        id: OpId,
        offset: u64,
        len_bytes: u32,
    ) -> (Kind, u64, Work, Option<DiskError>) {
        self.stats.reads += 1;
        self.stats.read_bytes += u64::from(len_bytes);
        let sectors = self.sectors(offset, u64::from(len_bytes));
        let mut error = self
            .bad_reads
            .range(sectors)
            .next()
            .map(|_| DiskError::Read);
        if self.fires(FaultKind::ReadError, id) {
            error = Some(DiskError::Read);
            if happens(
                self.number(Purpose::Faults, FaultKind::ReadError, id, 1),
                self.faults.persistent,
            ) {
                self.bad_reads.insert(self.sector_of(offset));
            }
        }
        let mut from = ReadFrom::Here;
        if let Some(other) =
            self.elsewhere(FaultKind::MisdirectedRead, id, offset, u64::from(len_bytes))
            && self.fires(FaultKind::MisdirectedRead, id)
        {
            from = ReadFrom::Elsewhere(other);
        }
        let stale = self.asked(FaultKind::StaleRead)
            && self
                .before
                .range(self.sectors(offset, u64::from(len_bytes)))
                .next()
                .is_some();
        if stale && self.fires(FaultKind::StaleRead, id) {
            from = ReadFrom::Before;
        }
        (
            Kind::Read,
            u64::from(len_bytes),
            Work::Read {
                offset,
                len_bytes,
                from,
            },
            error,
        )
    }

    fn submit_write(
        &mut self,
        id: OpId,
        offset: u64,
        data: Arc<[u8]>,
        through: bool,
    ) -> (Kind, u64, Work, Option<DiskError>) {
        let len_bytes = data.len() as u64;
        self.stats.writes += 1;
        self.stats.written_bytes += len_bytes;
        self.stats.write_throughs += u64::from(through);
        let kind = if through {
            Kind::WriteThrough
        } else {
            Kind::Write
        };
        let work = |effect| Work::Write { through, effect };
        if self.fires(FaultKind::NoSpace, id) {
            return (kind, len_bytes, work(false), Some(DiskError::NoSpace));
        }
        let sectors = self.sectors(offset, len_bytes);
        let bad = self.bad_writes.range(sectors.clone()).next().is_some();
        if self.fires(FaultKind::WriteError, id) || bad {
            if happens(
                self.number(Purpose::Faults, FaultKind::WriteError, id, 1),
                self.faults.persistent,
            ) {
                self.bad_writes.insert(sectors.start);
            }
            // A failed write may have reached the cache all the same.
            let effect = happens(
                self.number(Purpose::Faults, FaultKind::WriteError, id, 2),
                0.5,
            );
            if effect {
                self.persistence
                    .submit(id, PendingKind::Write { offset, data });
            }
            return (kind, len_bytes, work(effect), Some(DiskError::Write));
        }
        if self.fires(FaultKind::LostWrite, id) {
            return (kind, len_bytes, work(false), None);
        }
        let mut place = offset;
        if let Some(other) = self.elsewhere(FaultKind::MisdirectedWrite, id, offset, len_bytes)
            && self.fires(FaultKind::MisdirectedWrite, id)
        {
            place = other;
        }
        let sectors = self.sectors(place, len_bytes);
        if self.asked(FaultKind::StaleRead) {
            self.remember(sectors.clone());
        }
        let healed: Vec<u64> = self.bad_reads.range(sectors).copied().collect();
        for sector in healed {
            self.bad_reads.remove(&sector);
        }
        self.persistence.submit(
            id,
            PendingKind::Write {
                offset: place,
                data,
            },
        );
        self.decay(id);
        (kind, len_bytes, work(true), None)
    }

    fn submit_flush(&mut self, id: OpId) -> (Kind, u64, Work, Option<DiskError>) {
        self.stats.flushes += 1;
        let mark = self.persistence.mark();
        let failed = self.fires(FaultKind::FlushError, id);
        let drop_dirty = failed
            && happens(
                self.number(Purpose::Faults, FaultKind::DirtyDropped, id, 0),
                self.faults.drop_dirty,
            );
        let effect = !failed && !self.fires(FaultKind::FlushLie, id);
        (
            Kind::Flush,
            0,
            Work::Flush {
                mark,
                effect,
                drop_dirty,
            },
            failed.then_some(DiskError::Flush),
        )
    }

    fn finish(&mut self, id: OpId, work: &Work) -> Option<Vec<u8>> {
        match *work {
            Work::Read {
                offset,
                len_bytes,
                from,
            } => return Some(self.read(offset, len_bytes, from)),
            Work::Write { through, effect } => {
                if effect {
                    self.persistence
                        .complete(id, through || self.config.cache != Cache::Volatile);
                }
            }
            Work::Discard => self
                .persistence
                .complete(id, self.config.cache != Cache::Volatile),
            Work::Flush { mark, effect, .. } => {
                if effect {
                    self.persistence.flush(mark);
                }
            }
            Work::Grow { new_bytes } => {
                self.persistence.submit(id, PendingKind::Grow { new_bytes });
                self.persistence
                    .complete(id, self.config.cache != Cache::Volatile);
            }
        }
        None
    }

    fn fail(&mut self, work: &Work) {
        // A failed write that had an effect stays pending for ever: no flush covers it, a power cut may keep it.
        if let Work::Flush {
            mark, drop_dirty, ..
        } = *work
            && self.asked(FaultKind::DirtyDropped)
        {
            let dropped = drop_dirty && self.persistence.drop_dirty(mark);
            self.counts.count(FaultKind::DirtyDropped, dropped);
        }
    }

    fn read(&mut self, offset: u64, len_bytes: u32, from: ReadFrom) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes as usize];
        let place = if let ReadFrom::Elsewhere(other) = from {
            other
        } else {
            offset
        };
        self.persistence.visible().read(place, &mut bytes);
        if matches!(from, ReadFrom::Before) {
            let sectors = self.sectors(offset, u64::from(len_bytes));
            let first = sectors.start;
            for (&sector, old) in self.before.range(sectors) {
                let at = usize::try_from(sector - first).expect("a sector of a read") * old.len();
                bytes[at..at + old.len()].copy_from_slice(old);
            }
        }
        bytes
    }

    /// Rot and wear of the medium, which may strike anywhere while the device is written.
    fn decay(&mut self, id: OpId) {
        for kind in [FaultKind::BitRot, FaultKind::LatentSectorError] {
            if !self.asked(kind) {
                continue;
            }
            let start = scale(
                self.number(Purpose::Lies, kind, id, 1),
                self.persistence.durable().len_bytes(),
            );
            let place = self.persistence.durable().next_written(start);
            let Some(place) = place.or_else(|| self.persistence.durable().next_written(0)) else {
                continue;
            };
            if !self.fires(kind, id) {
                continue;
            }
            let bit = u8::try_from(self.number(Purpose::Lies, kind, id, 2) % 8).expect("below 8");
            if kind == FaultKind::BitRot {
                self.persistence.rot(place, bit);
            } else {
                self.bad_reads.insert(self.sector_of(place));
            }
        }
    }

    fn remember(&mut self, sectors: std::ops::Range<u64>) {
        let sector_bytes = u64::from(self.config.sector_bytes);
        for sector in sectors {
            let mut old = vec![0; self.config.sector_bytes as usize];
            self.persistence
                .visible()
                .read(sector * sector_bytes, &mut old);
            self.before.insert(sector, old);
        }
    }

    /// Another place of written bytes that an operation of this length could hit.
    fn elsewhere(&self, kind: FaultKind, id: OpId, offset: u64, len_bytes: u64) -> Option<u64> {
        if !self.asked(kind) {
            return None;
        }
        let image = self.persistence.visible();
        let start = scale(self.number(Purpose::Lies, kind, id, 1), image.len_bytes());
        let found = image
            .next_written(start)
            .or_else(|| image.next_written(0))?;
        let place = self.sector_of(found) * u64::from(self.config.sector_bytes);
        (place != offset && place + len_bytes <= image.len_bytes()).then_some(place)
    }

    fn sector_of(&self, offset: u64) -> u64 {
        offset / u64::from(self.config.sector_bytes)
    }

    fn sectors(&self, offset: u64, len_bytes: u64) -> std::ops::Range<u64> {
        self.sector_of(offset)..self.sector_of(offset + len_bytes)
    }

    fn probability(&self, kind: FaultKind) -> f64 {
        let faults = &self.faults;
        match kind {
            FaultKind::ReadError => faults.read_error,
            FaultKind::WriteError => faults.write_error,
            FaultKind::FlushError => faults.flush_error,
            FaultKind::DirtyDropped => faults.drop_dirty,
            FaultKind::NoSpace => faults.no_space,
            FaultKind::FlushLie => faults.flush_lie,
            FaultKind::LostWrite => faults.lost_write,
            FaultKind::MisdirectedWrite => faults.misdirected_write,
            FaultKind::MisdirectedRead => faults.misdirected_read,
            FaultKind::StaleRead => faults.stale_read,
            FaultKind::BitRot => faults.bit_rot,
            FaultKind::LatentSectorError => faults.latent_sector_error,
            _ => 0.0,
        }
    }

    fn asked(&self, kind: FaultKind) -> bool {
        self.probability(kind) > 0.0 || self.faults.script.iter().any(|fault| fault.kind == kind)
    }

    fn number(&self, purpose: Purpose, kind: FaultKind, id: OpId, index: u64) -> u64 {
        draw(self.seed, purpose, kind as u64, id, index)
    }

    /// Decides, counts and records whether a fault befalls an operation.
    fn fires(&mut self, kind: FaultKind, id: OpId) -> bool {
        if !self.asked(kind) {
            return false;
        }
        let scripted = self.faults.script.contains(&ScriptedFault { op: id, kind });
        let spent =
            self.faults.max_fired != 0 && self.fired_script.len() as u64 >= self.faults.max_fired;
        let purpose = if kind.is_lie() {
            Purpose::Lies
        } else {
            Purpose::Faults
        };
        let by_chance = id >= self.faults.after_op
            && !spent
            && happens(self.number(purpose, kind, id, 0), self.probability(kind));
        let fired = scripted || by_chance;
        self.counts.count(kind, fired);
        if fired {
            self.fired_script.push(ScriptedFault { op: id, kind });
        }
        fired
    }

    /// A hash of what reads see, for recognising states that were seen before.
    #[must_use]
    pub fn image_hash(&self) -> u64 {
        xxh3_64_with_seed(
            &self.persistence.visible().hash().to_le_bytes(),
            self.bad_reads.len() as u64,
        )
    }
}
