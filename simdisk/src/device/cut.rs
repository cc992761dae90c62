//! The end of a process run: which states a power cut may leave, which one it draws, and what is there afterwards.

use kvsim_crash::{CrashError, CrashKind, CrashReport, CrashState, Persisted, Sectors, Tears};

use super::Device;
use crate::persistence::PendingWrite;
use crate::{FaultKind, Image, Nanos, crash};

impl Device {
    /// How a cut can tear this pending operation, if it can at all.
    #[must_use]
    pub fn tears(&self, write: &PendingWrite) -> Option<Tears> {
        let tearable = crash::tearable(write, &self.config, &self.faults)?;
        Some(Tears {
            sectors: tearable.sectors,
            sector_bytes: self.config.sector_bytes,
            garbage: tearable.is_write && self.faults.garbage > 0.0,
            within_sector: tearable.is_write && self.faults.byte_tear > 0.0,
            unreadable: tearable.is_write && self.faults.torn_unreadable > 0.0,
        })
    }

    /// Draws what a power cut now would leave.
    pub fn draw_crash(&mut self) -> CrashState {
        let draw = crash::Draw {
            seed: self.seed,
            number: self.crashes_drawn,
        };
        self.crashes_drawn += 1;
        crash::draw(self.persistence.pending(), &self.config, &self.faults, draw)
    }

    /// Whether a power cut now could leave this.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check_crash(&self, state: &CrashState) -> Result<(), CrashError> {
        crash::check(
            state,
            self.persistence.pending(),
            &self.config,
            &self.faults,
        )
    }

    /// What the device would hold after a power cut now that leaves `state`. The device itself does not change.
    ///
    /// # Errors
    /// If the configured device could not have left this.
    pub fn image_after(&self, state: &CrashState) -> Result<Image, CrashError> {
        self.check_crash(state)?;
        Ok(self.persistence.image_after(state))
    }

    /// Ends the process run. A process crash lets the device finish what was submitted and keeps its cache, whatever `state`
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
        let in_flush = self.is_flushing();
        if kind == CrashKind::Process {
            self.now = self.now.max(now);
            self.note_waits();
            while self.complete_next().is_some() {}
            self.contents += u64::from(self.persistence.kill());
            self.met.stopped();
            self.left_out = None;
            let pending = self.pending().len() as u64;
            let state = CrashState::default();
            return Ok(CrashReport {
                kind,
                pending,
                lost: 0,
                torn: 0,
                in_flush,
                state,
            });
        }
        self.check_crash(state)?;
        self.now = self.now.max(now);
        self.note_waits();
        let pending = self.persistence.pending();
        crash::count(
            state,
            pending,
            &self.config,
            &self.faults,
            &mut self.inject.counts,
        );
        self.inject.counts.count(FaultKind::CutInFlush, in_flush);
        let is_torn = |persisted_write: &&Persisted| persisted_write.sectors != Sectors::All;
        let torn = state.persisted.iter().filter(is_torn).count() as u64;
        let pending = pending.len() as u64;
        let lost = pending - state.persisted.len() as u64;
        self.contents += 1;
        self.power_cuts += 1;
        self.medium.power_cycle(&self.persistence, state);
        self.persistence.cut(state);
        self.in_flight.clear();
        self.met.stopped();
        self.left_out = None;
        self.timing.reset(self.now);
        Ok(CrashReport {
            kind,
            pending,
            lost,
            torn,
            in_flush,
            state: state.clone(),
        })
    }

    /// Whoever waits for an operation has waited until now, whenever it ended.
    fn note_waits(&mut self) {
        for op in self.in_flight.all() {
            self.slowest.note(op.submitted_at, self.now);
        }
    }

    /// The [`image_hash`](Device::image_hash) that a power cut now would leave with `state`. The device itself does not change.
    ///
    /// # Errors
    /// If the configured device could not have left this.
    pub fn image_hash_after(&self, state: &CrashState) -> Result<u128, CrashError> {
        if self.medium.hash().is_none() && !state.has_unreadable() {
            return Ok(self.image_after(state)?.hash());
        }
        let mut cut = self.clone();
        cut.crash(self.now, CrashKind::Power, state)?;
        Ok(cut.image_hash())
    }
}
