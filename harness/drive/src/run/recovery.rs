//! From power on to a guest that is open and has been read back: opening, crashes in between, reading, judging.

use std::collections::BTreeMap;

use kvsim_sim::api::RequestId;
use kvsim_sim::{Step, World};
use kvsim_simdisk::CrashKind;

use super::life::{Progress, guest_error};
use super::result::Halt;
use super::seed_run::SeedRun;
use crate::case;
use kvsim_oracle::{Ending, Observation, Opening, Token, Verification};
use kvsim_scenario::OnDamage;

/// The request that stands for the opening itself.
const OPENING: RequestId = 0;

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
        // What is still in the device's cache may be lost by a cut during recovery, and the twin showed it.
        let settled = self.life.world.storage().is_settled();
        let mut twin = if after_crash && self.clock.recover_twice() {
            self.recover_twin()?
        } else {
            None
        };
        loop {
            let may_crash = after_crash && self.tally.crashes() < self.scenario.run.crashes;
            let drawn = self
                .clock
                .events_until_crash_in_recovery(depth, self.recovery_events);
            let attempt = self.attempt(drawn.filter(|_| may_crash));
            let twin_opened = depth > 0 && twin.is_some();
            match attempt.map_err(|halt| blame_the_crash(halt, twin_opened))? {
                Attempt::Read(observation) => {
                    self.judge(&observation, twin.as_ref())?;
                    return Ok(Recovered::Open);
                }
                Attempt::Judged => return Ok(Recovered::Open),
                Attempt::Crashed(kind) => {
                    depth += 1;
                    twin = twin.filter(|_| settled || kind == CrashKind::Process);
                }
                Attempt::Damaged => {
                    self.tally.damage_reported += 1;
                    return self.give_up();
                }
                Attempt::DeviceError if errors < self.scenario.run.open_retries => {
                    errors += 1;
                    self.tally.open_retries += 1;
                    self.life
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

    /// Opens and reads everything back, or crashes after so many events.
    fn attempt(&mut self, crash_after: Option<u64>) -> Result<Attempt, Halt> {
        let began_events = self.life.world.events();
        let began_ns = self.life.now();
        let crash_at = crash_after.map_or(u64::MAX, |events| began_events + events);
        self.life.open()?;
        let opening = loop {
            if self.life.world.events() >= crash_at {
                return Ok(Attempt::Crashed(self.crash_in_recovery()));
            }
            match self.life.step("recovering")? {
                Progress::Reply(reply) if reply.id == OPENING => {
                    let truth = self.life.truth();
                    break self
                        .life
                        .oracle
                        .opened(&reply, &truth)
                        .map_err(Halt::Violation)?;
                }
                Progress::Reply(_) | Progress::Event => {}
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
            self.tally.recovery_ns.record(self.life.now() - began_ns);
        }
        let late = self.clock.work_before_reading();
        if let Some(events) = late.filter(|_| self.opened_before && crash_after.is_none()) {
            self.work_unread(events)?;
            return Ok(Attempt::Judged);
        }
        let mut reading = Verification::new(&self.life.oracle, &self.scenario.check);
        let mut asked: BTreeMap<RequestId, Token> = BTreeMap::new();
        while !reading.is_done() {
            while let Some((token, request)) = reading.next_request(&self.life.oracle) {
                asked.insert(self.life.ask(request), token);
            }
            if reading.is_done() {
                break;
            }
            if self.life.world.events() >= crash_at {
                let seen = reading.finish();
                let kind = self.crash_in_recovery();
                self.life.oracle.interrupted(&seen);
                return Ok(Attempt::Crashed(kind));
            }
            if let Progress::Reply(reply) = self.life.step("being read after a recovery")?
                && let Some(token) = asked.remove(&reply.id)
            {
                reading.reply(&self.life.oracle, token, &reply);
            }
        }
        self.recovery_events = self.life.world.events() - began_events;
        Ok(Attempt::Read(reading.finish()))
    }

    /// Lets clients work, reads back, and judges both.
    fn work_unread(&mut self, events: u64) -> Result<(), Halt> {
        let now = self.life.now();
        self.life.oracle.defer(now);
        self.work_and_settle(events)?;
        self.life.note_read();
        let known = self.life.oracle.for_late_reading();
        let mut reading = Verification::new(&known, &self.scenario.check);
        let mut asked: BTreeMap<RequestId, Token> = BTreeMap::new();
        while !reading.is_done() {
            while let Some((token, request)) = reading.next_request(&known) {
                asked.insert(self.life.ask(request), token);
            }
            if reading.is_done() {
                break;
            }
            if let Progress::Reply(reply) = self.life.step("being read after a recovery")?
                && let Some(token) = asked.remove(&reply.id)
            {
                reading.reply(&known, token, &reply);
            }
        }
        let truth = self.life.truth();
        let judged = self.life.oracle.judge_late(&reading.finish(), &truth);
        judged.map_err(Halt::Violation)?;
        self.tally.read_late += 1;
        Ok(())
    }

    fn crash_in_recovery(&mut self) -> CrashKind {
        let kind = self.clock.kind();
        self.life.crash(kind, Ending::of(kind), &mut self.tally);
        self.tally.crashes_in_recovery += 1;
        self.control.count_crash();
        kind
    }

    fn judge(&mut self, observation: &Observation, twin: Option<&Observation>) -> Result<(), Halt> {
        let truth = self.life.truth();
        let oracle = &mut self.life.oracle;
        if let Some(twin) = twin {
            oracle
                .same_recovery(twin, observation, &truth)
                .map_err(Halt::Violation)?;
            self.tally.recovered_twice += 1;
        }
        let recovery = oracle.judge(observation, &truth).map_err(Halt::Violation)?;
        let before = *oracle.counts();
        oracle.adopt(self.life.world.now(), &recovery, observation, &truth);
        let checked =
            |counts: &kvsim_oracle::Counts| counts.durable_checked + counts.relaxed_checked;
        self.control
            .count_checked(checked(oracle.counts()) - checked(&before));
        Ok(())
    }

    /// Recovers a copy of the crashed device, undisturbed, and tells what it shows; nothing if it will not open, which the
    /// device itself will be judged by.
    fn recover_twin(&mut self) -> Result<Option<Observation>, Halt> {
        let crashes = self.life.crashes;
        let fail =
            |error: &kvsim_sim::GuestError| guest_error(error, crashes, "recovering a second time");
        let mut world: World = self.life.world.fork();
        if world.open().is_err() {
            return Ok(None);
        }
        loop {
            match world.step().map_err(|error| fail(&error))? {
                Step::Reply(reply) if reply.id == OPENING => match reply.status {
                    kvsim_sim::api::Status::Ok => break,
                    _ => return Ok(None),
                },
                Step::Quiet => return Ok(None),
                Step::Reply(_) | Step::Event => {}
            }
        }
        let oracle = &self.life.oracle;
        let mut reading = Verification::new(oracle, &self.scenario.check);
        let mut asked: BTreeMap<RequestId, Token> = BTreeMap::new();
        while !reading.is_done() {
            while let Some((token, request)) = reading.next_request(oracle) {
                let now = world.now();
                asked.insert(world.submit(now, request), token);
            }
            match world.step().map_err(|error| fail(&error))? {
                Step::Reply(reply) => {
                    if let Some(token) = asked.remove(&reply.id) {
                        reading.reply(oracle, token, &reply);
                    }
                }
                Step::Quiet => return Ok(None),
                Step::Event => {}
            }
        }
        Ok(Some(reading.finish()))
    }
}

fn blame_the_crash(mut halt: Halt, twin_opened: bool) -> Halt {
    if let Halt::Violation(violation) = &mut halt {
        case::blame_the_crash(violation, twin_opened);
    }
    halt
}
