//! The device as a host sees it: operations go in, completions come out, the power may go.
//!
//! Invariants: operations are numbered from 0 over all process runs; whether a fault affects an operation depends on the
//! seed, the kind of fault and that number alone; an operation takes effect on what is durable no earlier than its completion.

mod cut;
mod effect;
mod end;
mod fail;
mod take;
mod under_way;

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::inject::Injector;
use crate::medium::Medium;
use crate::met::Met;
use crate::op::{Capabilities, Op, OpId, OpNote, SubmitError};
use crate::persistence::{PendingWrite, Persistence};
use crate::slowest::Slowest;
use crate::timing::Timing;
use crate::{
    Cache, ConfigError, DeviceConfig, DeviceStats, Failures, FaultConfig, FaultCounts, FaultKind,
    FlushKind, Image, Nanos, ScriptedFault,
};
use effect::{Effect, InFlight, Taken};
use under_way::UnderWay;

/// A simulated device. Cloning is cheap: the content is shared until written.
#[derive(Debug, Clone)]
pub struct Device {
    config: Arc<DeviceConfig>,
    faults: Arc<FaultConfig>,
    seed: u64,
    persistence: Persistence,
    medium: Medium,
    met: Met,
    timing: Timing,
    inject: Injector,
    in_flight: UnderWay,
    ops: OpId,
    now: Nanos,
    crashes_drawn: u64,
    stats: DeviceStats,
    failures: Failures,
    made_durable_at: Option<Nanos>,
    power_cuts: u64,
    slowest: Slowest,
    changes: u64,
    contents: u64,
    /// The flush or write-through that does nothing, as long as the power was never cut.
    left_out: Option<OpId>,
    /// Where it was read, if somebody wants to know: offsets and lengths.
    reads: Option<Vec<(u64, u64)>>,
    /// What was submitted, if somebody wants to know.
    notes: Option<Vec<OpNote>>,
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
        Device::with_image(config, faults, seed, Image::new(config.capacity_bytes))
    }

    /// A device just powered on that holds `image`, whose size takes the place of the configured capacity.
    ///
    /// # Errors
    /// Where the configuration is out of range or impossible.
    pub fn with_image(
        config: &DeviceConfig,
        faults: &FaultConfig,
        seed: u64,
        image: Image,
    ) -> Result<Device, ConfigError> {
        config.validate()?;
        faults.validate(config)?;
        let len_bytes = image.len_bytes();
        if len_bytes == 0
            || len_bytes > config.limit_bytes()
            || !len_bytes.is_multiple_of(u64::from(config.sector_bytes))
        {
            let message = format!(
                "does not admit an image of {len_bytes} bytes; whole sectors, at most {} bytes",
                config.limit_bytes()
            );
            return kvsim_crash::config::wrong("device.capacity_bytes", message);
        }
        Ok(Device {
            config: Arc::new(config.clone()),
            faults: Arc::new(faults.clone()),
            seed,
            persistence: Persistence::with_image(config.sector_bytes, image),
            medium: Medium::new(config.sector_bytes),
            met: Met::default(),
            timing: Timing::new(&config.timing, config.queue_depth, seed),
            inject: Injector::new(config, faults, seed),
            in_flight: UnderWay::default(),
            ops: 0,
            now: 0,
            crashes_drawn: 0,
            made_durable_at: None,
            power_cuts: 0,
            slowest: Slowest::default(),
            changes: 0,
            contents: 0,
            left_out: faults.left_out,
            reads: None,
            notes: None,
            stats: DeviceStats::default(),
            failures: Failures::default(),
        })
    }

    /// What the device says of itself.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let config = &self.config;
        Capabilities {
            sector_bytes: config.sector_bytes,
            physical_block_bytes: config.physical_block_bytes,
            capacity_bytes: self.persistence.visible().len_bytes(),
            max_capacity_bytes: config.limit_bytes(),
            volatile_cache: self.is_volatile(),
            fua: config.fua || !self.is_volatile(),
            discard: config.discard,
            barrier: config.barrier,
            atomic_write_bytes: config
                .atomic_write_bytes
                .max(u64::from(config.sector_bytes)),
            atomic_boundary_bytes: config.atomic_boundary_bytes,
        }
    }

    fn is_volatile(&self) -> bool {
        self.config.cache == Cache::Volatile
    }

    /// What reads see: everything that was submitted.
    #[must_use]
    pub fn image(&self) -> &Image {
        self.persistence.visible()
    }

    /// What a power cut would leave if nothing pending survived.
    #[must_use]
    pub fn durable(&self) -> &Image {
        self.persistence.durable()
    }

    /// A hash of what a power cut would leave in any case, what was written through beyond the durable end included.
    #[must_use]
    pub fn durable_hash(&self) -> u128 {
        self.persistence.durable_hash()
    }

    /// Everything that a power cut may lose, in the order of submission.
    #[must_use]
    pub fn pending(&self) -> &[PendingWrite] {
        self.persistence.pending()
    }

    /// Faults possible and fired since the device was made.
    #[must_use]
    pub fn counts(&self) -> &FaultCounts {
        &self.inject.counts
    }

    /// Operations and bytes since the device was made.
    #[must_use]
    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    /// The faults that affected operations so far, in the form that a script takes.
    #[must_use]
    pub fn fired_script(&self) -> &[ScriptedFault] {
        self.inject.fired()
    }

    /// Operations submitted since the device was made: the number of the next one.
    #[must_use]
    pub fn ops(&self) -> OpId {
        self.ops
    }

    /// Operations under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// When the host was last told that something is durable: by a flush, or by a write that was durable when it completed.
    #[must_use]
    pub fn made_durable_at(&self) -> Option<Nanos> {
        self.made_durable_at
    }

    /// How often its power was cut.
    #[must_use]
    pub fn power_cuts(&self) -> u64 {
        self.power_cuts
    }

    /// Whether a flush only orders, so that a power cut may lose what was flushed.
    #[must_use]
    pub fn flush_only_orders(&self) -> bool {
        self.config.flush == FlushKind::Barrier
    }

    /// How long operations take from their submission to their completion, of all that were submitted so far. Those of which nobody was told before the process run ended took until then.
    #[must_use]
    pub fn slowest(&self) -> &Slowest {
        &self.slowest
    }

    /// When those of the last 256 writes were submitted whose data a lie has lost, overwritten or spoilt, in the order in which that happened.
    /// A write can be there more than once.
    #[must_use]
    pub fn damaged(&self) -> &[Nanos] {
        self.medium.damaged_writes.damaged()
    }

    /// How many sectors do not hold what the device said that they hold, or cannot be read. A sector counts until something new that was written to it
    /// is durable. What a flush left out that was acknowledged counts too, for a power cut may take it away. A sector that a power cut has torn and
    /// made unreadable does not count: nothing durable lay there.
    #[must_use]
    pub fn damaged_sectors(&self) -> u64 {
        self.medium.damaged_sectors()
    }

    /// Reads since the device was made that met a damaged sector or were answered with a lie. Those of a process run are the only ones from which its
    /// guest can know of damage.
    #[must_use]
    pub fn damaged_reads(&self) -> u64 {
        self.met.damage
    }

    /// Whether the device is smaller than it said: a growth that was acknowledged as durable is gone.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        let end = self.persistence.visible().len_bytes();
        self.medium.is_wrong_beyond(end)
    }

    /// Sectors of which a read has failed in this process run, without one of them that was read since. Torn sectors do not count.
    #[must_use]
    pub fn failing_sectors(&self) -> u64 {
        self.met.failing()
    }

    /// Operations of which the host was told that they failed.
    #[must_use]
    pub fn failures(&self) -> Failures {
        self.failures
    }

    /// Whether a flush is under way, be it one that does nothing.
    #[must_use]
    pub fn is_flushing(&self) -> bool {
        let is_flush = |op: &InFlight| {
            matches!(
                op.effect,
                Effect::Flush(_)
                    | Effect::FlushInVain
                    | Effect::Drop { .. }
                    | Effect::Order { as_flush: true, .. }
            )
        };
        self.in_flight.all().any(is_flush)
    }

    /// How many events there were after which a cut is a case of its own: submissions of anything but reads, and their
    /// completions.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Moves whenever the states that a cut can leave change. A completion alone does not move it: it makes nothing durable.
    #[must_use]
    pub fn contents(&self) -> u64 {
        self.contents
    }

    /// The faults that it may have.
    #[must_use]
    pub fn faults(&self) -> &FaultConfig {
        &self.faults
    }

    /// The number that the next operation gets.
    #[must_use]
    pub fn next_op(&self) -> OpId {
        self.ops
    }

    /// Makes this write, which is under way, durable when it completes, as if it had been written through. A failed one stays
    /// what it is.
    pub fn harden(&mut self, id: OpId) {
        if let Some(op) = self.in_flight.get_mut(id)
            && op.result.is_ok()
            && let Effect::Complete { durable } = &mut op.effect
        {
            *durable = true;
        }
    }

    /// Whether from now on all that it answers follows from its contents and its number of operations: no fault can affect one.
    #[must_use]
    pub fn is_faultless(&self) -> bool {
        self.inject.is_idle(self.ops) && self.medium.hash().is_none() && self.left_out.is_none()
    }

    /// Notes from now on where it is read.
    pub fn note_reads(&mut self) {
        self.reads = Some(Vec::new());
    }

    /// Where it was read since that was asked for: offsets and lengths, in order.
    #[must_use]
    pub fn reads(&self) -> &[(u64, u64)] {
        self.reads.as_deref().unwrap_or_default()
    }

    /// Notes from now on which reads, writes and flushes are submitted.
    pub fn note_ops(&mut self) {
        self.notes = Some(Vec::new());
    }

    /// The reads, writes and flushes that were submitted since that was asked for, in order.
    #[must_use]
    pub fn noted_ops(&self) -> &[OpNote] {
        self.notes.as_deref().unwrap_or_default()
    }

    fn note(&mut self, id: OpId, op: &Op) {
        let (fault, len_bytes) = match op {
            Op::Read { len_bytes, .. } => (FaultKind::ReadError, u64::from(*len_bytes)),
            Op::Write { data, .. } => (FaultKind::WriteError, data.len() as u64),
            Op::Flush | Op::Barrier => (FaultKind::FlushError, 0),
            Op::Discard { .. } | Op::Grow { .. } => return,
        };
        let covered = match fault {
            FaultKind::FlushError => self.persistence.droppable().collect(),
            _ => Vec::new(),
        };
        if let Some(notes) = &mut self.notes {
            notes.push(OpNote {
                id,
                fault,
                sectors: len_bytes / u64::from(self.config.sector_bytes),
                covered,
            });
        }
    }

    /// Lets the next crash leave what this write overwrites, as if it had gone elsewhere, or zeroes in its place: what a host asks
    /// that tries whether that was still needed.
    pub fn set_aside(&mut self, id: OpId, erased: bool) {
        self.contents += u64::from(self.persistence.set_aside(id, erased));
    }

    /// Lets the n-th read, write or flush from now fail, counted from 0, once; a flush that fails so drops what it should have made
    /// durable. Other kinds of faults: at their n-th opportunity.
    pub fn fail_nth(&mut self, kind: FaultKind, n: u64) {
        self.inject.fail_nth(kind, n);
    }

    /// Makes durable, at once and without anybody being told, what has completed; with `submitted` also what is under way: what
    /// a host asks that tries where a flush is missing.
    pub fn make_durable_now(&mut self, submitted: bool) {
        self.contents += u64::from(self.persistence.make_durable_now(submitted));
        self.medium.heal(&self.persistence);
    }

    /// When the next operation completes.
    #[must_use]
    pub fn next_completion_at(&self) -> Option<Nanos> {
        self.in_flight.next_at()
    }

    /// A hash of what reads return, bad sectors included, for recognising states that were seen before.
    #[must_use]
    pub fn image_hash(&self) -> u128 {
        let content = self.persistence.visible().hash();
        match self.medium.hash() {
            None => content,
            Some(damage) => xxh3_128_with_seed(&content.to_le_bytes(), damage),
        }
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
        if self.notes.is_some() {
            self.note(id, &op);
        }
        match op {
            Op::Read { .. } => {}
            Op::Flush | Op::Barrier => self.changes += 1,
            Op::Write { .. } | Op::Discard { .. } | Op::Grow { .. } => {
                self.changes += 1;
                self.contents += 1;
            }
        }
        let taken = match op {
            Op::Read { offset, len_bytes } => self.take_read(id, offset, len_bytes),
            Op::Write {
                offset,
                data,
                through,
            } => self.take_write(id, offset, data, through),
            Op::Flush => self.take_flush(id, self.config.flush),
            Op::Barrier => self.take_barrier(id),
            Op::Discard { offset, len_bytes } => self.take_discard(id, offset, len_bytes),
            Op::Grow { new_bytes } => self.take_grow(id, new_bytes),
        };
        let stall = self.inject.fires(FaultKind::Stall, id);
        let stall_ns = stall.then_some(self.config.timing.stall_ns);
        let at = self
            .timing
            .schedule(now, id, taken.kind, taken.len_bytes, stall_ns);
        self.slowest.note(now, at);
        let Taken { effect, result, .. } = taken;
        let op = InFlight {
            tag,
            submitted_at: now,
            effect,
            result,
        };
        self.in_flight.insert(at, id, op);
        Ok(id)
    }
}
