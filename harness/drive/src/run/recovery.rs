//! From power on to a guest that is open and has been read back: opening, crashes in between, reading, judging.

use std::sync::Arc;

use kvsim_simdisk::CrashKind;

use super::clock::CrashInOpening;
use super::result::Halt;
use super::seed_run::SeedRun;
use crate::case::{self, ProcessRun, Source, Stop};
use crate::pump::OPENING;
use kvsim_oracle::{Ending, Observation, Opening, Symptom};
use kvsim_scenario::OnDamage;

/// What switching on came to.
pub(super) enum Recovered {
    /// The guest is open, and what it shows is legal.
    Open,
    /// The device was given up, for it is damaged: a new one is to be made.
    GivenUp,
}

/// How one opening and reading back ended.
#[expect(clippy::large_enum_variant, reason = "one at a time, and moved once")]
enum Attempt {
    Read(Observation),
    /// Clients had worked before it was read back, and all of that was judged.
    Judged,
    /// It was cut short by a crash.
    Crashed(CrashKind),
    Damaged,
    DeviceError,
}

impl SeedRun<'_> {
    /// Switches on and recovers, through crashes during recovery if the clock wants them, until the guest is open or given up.
    pub(super) fn recover(&mut self, after_crash: bool) -> Result<Recovered, Halt> {
        let mut depth = 0;
        let mut errors = 0;
        // What is still in the device's cache may be lost by a cut during recovery, and the reference recovery showed it.
        let nothing_pending = self.device_run.pump.world.storage().nothing_pending();
        let mut reference = if after_crash && self.clock.recover_twice() {
            self.recover_reference()?
        } else {
            None
        };
        loop {
            let may_crash = self.tally.crashes() < self.scenario.run.crashes;
            let (clock, usual) = (&mut self.clock, self.recovery_events);
            let mut drawn = clock.crash_in_recovery(depth, usual);
            if !after_crash {
                drawn = clock.crash_in_creation(depth, usual);
            }
            let attempt = self.attempt(drawn.filter(|_| may_crash));
            let reference_opened = depth > 0 && reference.is_some();
            match attempt.map_err(|halt| blame_the_crash(halt, reference_opened))? {
                Attempt::Read(observation) => {
                    self.judge(&observation, reference.as_ref())?;
                    return Ok(Recovered::Open);
                }
                Attempt::Judged => return Ok(Recovered::Open),
                Attempt::Crashed(kind) => {
                    depth += 1;
                    reference = reference.filter(|_| nothing_pending || kind == CrashKind::Process);
                }
                Attempt::Damaged => {
                    self.tally.damage_reported += 1;
                    return self.give_up();
                }
                Attempt::DeviceError if errors < self.scenario.run.open_retries => {
                    errors += 1;
                    self.tally.open_retries += 1;
                    self.device_run
                        .crash(CrashKind::Process, Ending::Close, &mut self.tally);
                }
                Attempt::DeviceError => {
                    self.tally.open_failures += 1;
                    return self.give_up();
                }
            }
        }
    }

    fn give_up(&mut self) -> Result<Recovered, Halt> {
        match self.scenario.run.on_damage {
            OnDamage::Stop => Err(Halt::Damaged),
            OnDamage::Fresh => Ok(Recovered::GivenUp),
        }
    }

    /// Opens and reads everything back, or crashes on the way. If the opening is over before there is what the crash waits for, it waits no longer.
    fn attempt(&mut self, crash: Option<CrashInOpening>) -> Result<Attempt, Halt> {
        let began_events = self.device_run.pump.world.events();
        let began_ns = self.device_run.now();
        let crash_at = crash.map_or(u64::MAX, |crash| began_events + crash.after_events);
        let mut seek_pending = crash.map_or(0, |crash| crash.seek_pending);
        self.device_run.open()?;
        let opening = loop {
            let world = &self.device_run.pump.world;
            if world.events() >= crash_at {
                if !world.storage().nothing_pending() {
                    seek_pending = seek_pending.saturating_sub(1);
                }
                if seek_pending == 0 {
                    return Ok(Attempt::Crashed(self.crash_in_recovery()));
                }
            }
            if let Some(reply) = self.device_run.step("recovering")?
                && reply.id == OPENING
            {
                let truth = self.device_run.pump.truth();
                let oracle = self.device_run.pump.oracle_mut();
                break oracle.opened(&reply, &truth)?;
            }
        };
        match opening {
            Opening::Ready => {}
            Opening::Damaged(message) => {
                tracing::debug!(seed = self.seed, message, "damage reported");
                return Ok(Attempt::Damaged);
            }
            Opening::DeviceError(message) => {
                tracing::debug!(seed = self.seed, message, "the opening met a device error");
                return Ok(Attempt::DeviceError);
            }
            Opening::Rejected(message) => return Err(Halt::Rejected(message)),
        }
        self.tally.recoveries += 1;
        if self.opened_before {
            self.tally
                .recovery_ns
                .record(self.device_run.now() - began_ns);
        }
        let late = self.clock.work_before_reading();
        if let Some(events) = late.filter(|_| self.opened_before && crash.is_none()) {
            self.work_unread(events)?;
            return Ok(Attempt::Judged);
        }
        let known = Arc::clone(&self.device_run.pump.oracle);
        let check = &self.scenario.check;
        let (seen, is_all) = self.device_run.read_back(&known, check, crash_at)?;
        drop(known);
        if !is_all {
            let kind = self.crash_in_recovery();
            self.device_run.pump.oracle_mut().interrupted(&seen);
            return Ok(Attempt::Crashed(kind));
        }
        self.recovery_events = self.device_run.pump.world.events() - began_events;
        Ok(Attempt::Read(seen))
    }

    /// Lets clients work, reads back, and judges both.
    fn work_unread(&mut self, events: u64) -> Result<(), Halt> {
        let now = self.device_run.now();
        self.device_run.pump.oracle_mut().defer(now);
        let worked = self.work_until_idle(events);
        // Whoever replays a failure of this work must not read back before it.
        self.device_run.note_read();
        worked?;
        let known = self.device_run.pump.oracle.for_late_reading();
        let check = &self.scenario.check;
        let (seen, _) = self.device_run.read_back(&known, check, u64::MAX)?;
        let truth = self.device_run.pump.truth();
        self.device_run
            .pump
            .oracle_mut()
            .judge_late(&seen, &truth)?;
        self.tally.read_late += 1;
        Ok(())
    }

    fn crash_in_recovery(&mut self) -> CrashKind {
        let kind = self.clock.kind();
        self.device_run
            .crash(kind, Ending::of(kind), &mut self.tally);
        self.tally.crashes_in_recovery += 1;
        self.control.count_crash();
        kind
    }

    fn judge(
        &mut self,
        observation: &Observation,
        reference: Option<&Observation>,
    ) -> Result<(), Halt> {
        let pump = &mut self.device_run.pump;
        let (now, truth) = (pump.world.now(), pump.truth());
        let oracle = pump.oracle_mut();
        if let Some(reference) = reference {
            oracle.same_recovery(reference, observation, &truth)?;
            self.tally.recovered_twice += 1;
        }
        let recovery = oracle.judge(observation, &truth)?;
        let before = *oracle.counts();
        oracle.adopt(now, &recovery, observation, &truth);
        let checked =
            |counts: &kvsim_oracle::Counts| counts.durable_checked + counts.relaxed_checked;
        self.control
            .count_checked(checked(oracle.counts()) - checked(&before));
        Ok(())
    }

    /// Recovers a copy of the crashed device, undisturbed, and tells what it shows; nothing if it will not open, which the
    /// device itself will be judged by, or if the copy has lied.
    fn recover_reference(&mut self) -> Result<Option<Observation>, Halt> {
        let pump = &self.device_run.pump;
        let (world, oracle) = (pump.world.fork(), Arc::clone(&pump.oracle));
        let nothing = Source::listed(&[]);
        let mut copy = ProcessRun::new(world, oracle, nothing, self.scenario, pump.crashes, ());
        match copy.recover_reference() {
            Ok(seen) => Ok(seen),
            Err(Stop::Violation(violation)) if is_fault(violation.symptom) => {
                Err(Halt::Violation(violation))
            }
            Err(Stop::Invalid(what)) => Err(Halt::Invalid(what)),
            Err(_) => Ok(None),
        }
    }
}

/// Whether a guest failed in the middle of what it did: the same recovery, cut short, may never come to that place.
fn is_fault(symptom: Symptom) -> bool {
    use Symptom::{AbiAbuse, Endless, Idle, OutOfFuel, OutOfMemory, Panic, Trap};
    matches!(
        symptom,
        Panic | Trap | OutOfFuel | Endless | Idle | OutOfMemory | AbiAbuse
    )
}

fn blame_the_crash(mut halt: Halt, reference_opened: bool) -> Halt {
    if let Halt::Violation(violation) = &mut halt {
        case::blame_the_crash(violation, reference_opened);
    }
    halt
}
