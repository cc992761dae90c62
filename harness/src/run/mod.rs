//! One seed: open, check, work, crash, again and again; at the end a close in good order, and a last look.
//!
//! Everything that happens follows from the scenario, the guest and the seed. A device that is given up after damage is
//! replaced by a new one with a seed of its own; the devices of a seed are its *lives*.

mod cases;
mod clock;
mod life;
mod recovery;
mod truth;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_sim::Program;
use kvsim_simdisk::ScriptedFault;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::case::Case;
use crate::control::Control;
use crate::oracle::{Ending, Violation};
use crate::scenario::Scenario;
use crate::summary::{Tally, Times};
use crate::timeline::{Recording, lines};
use crate::workload::OpKind;
use clock::Clock;
use life::Life;
use recovery::Recovered;
use work::Turns;

/// What is kept of a run's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracing {
    /// Their hash.
    HashOnly,
    /// All of them, a line each.
    Keep,
    /// All of them, with who asked what and what each cut did.
    Record,
}

/// How a seed ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedEnd {
    /// All crashes were done and nothing was violated.
    Done,
    /// The guest reported damage, and the scenario ends there.
    DamageReported,
    /// A property was violated.
    Violation(Box<Violation>),
    /// It took more events than the scenario grants.
    OutOfEvents,
    /// Nobody wanted it any more.
    Cancelled,
    /// The guest does not take its options.
    Rejected(String),
    /// Something of ours failed.
    InvalidRun(String),
}

impl SeedEnd {
    /// Whether a property was violated.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        matches!(self, SeedEnd::Violation(_))
    }
}

/// What one seed came to.
#[derive(Debug, Clone)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// How it ended.
    pub end: SeedEnd,
    /// What was counted.
    pub tally: Tally,
    /// A hash of all its events.
    pub trace_hash: String,
    /// The events, if they were kept.
    pub trace: Option<Vec<String>>,
    /// The traces of its devices, if they were recorded.
    pub recording: Option<Recording>,
}

/// Why a seed goes no further.
enum Halt {
    Violation(Box<Violation>),
    Damaged,
    OutOfEvents,
    Cancelled,
    Rejected(String),
    Invalid(String),
}

/// One seed under way.
struct SeedRun<'a> {
    scenario: &'a Scenario,
    program: &'a Arc<dyn Program>,
    control: &'a Control,
    seed: u64,
    tracing: Tracing,
    clock: Clock,
    life: Life,
    turns: Turns,
    lives: u64,
    /// Whether this device was opened before, so that opening it is a recovery.
    opened_before: bool,
    /// Events that the last recovery and reading back took.
    recovery_events: u64,
    tally: Tally,
    latency: BTreeMap<(OpKind, Option<bool>), Times>,
    trace_hash: Xxh3,
    trace: Vec<String>,
    recording: Recording,
}

/// Runs one seed of a scenario.
#[must_use]
pub fn run_seed(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
    control: &Control,
    tracing: Tracing,
) -> SeedResult {
    if let Some(case) = &scenario.case {
        return cases::run(scenario, case, program, seed, tracing);
    }
    carry_out(scenario, program, seed, control, tracing, false, |run| {
        run.run()
    })
    .0
}

/// A run as a case: what was done to the device on which it ended.
pub(crate) struct Steps {
    /// Step by step.
    pub(crate) case: Case,
    /// The seed of that device, if it was not the first.
    pub(crate) seed: u64,
    /// The faults that befell it.
    pub(crate) script: Vec<ScriptedFault>,
}

/// Runs one seed of a scenario once more, and writes down what is done.
pub(crate) fn run_noting_steps(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
    control: &Control,
) -> (SeedResult, Steps) {
    let tracing = Tracing::HashOnly;
    carry_out(scenario, program, seed, control, tracing, true, |run| {
        run.run()
    })
}

/// Lets the clients of a scenario work on a new device, and ends there: what a benchmark is about.
#[must_use]
pub fn run_work(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
    control: &Control,
) -> SeedResult {
    let work = |run: &mut SeedRun<'_>| {
        run.switch_on(false)?;
        run.work(run.scenario.run.events_per_crash, 0)
    };
    let tracing = Tracing::HashOnly;
    carry_out(scenario, program, seed, control, tracing, false, work).0
}

fn carry_out(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    seed: u64,
    control: &Control,
    tracing: Tracing,
    keeps_steps: bool,
    course: impl FnOnce(&mut SeedRun<'_>) -> Result<(), Halt>,
) -> (SeedResult, Steps) {
    debug_assert!(!scenario.varies(), "only what a seed draws can be run");
    let mut steps = Steps {
        case: Case::default(),
        seed,
        script: Vec::new(),
    };
    let life = match Life::new(scenario, program, life_seed(seed, 0), tracing, keeps_steps) {
        Ok(life) => life,
        Err(halt) => {
            let end = halt.into();
            let result = SeedResult {
                seed,
                end,
                tally: Tally::default(),
                trace_hash: String::new(),
                trace: None,
                recording: None,
            };
            return (result, steps);
        }
    };
    let mut run = SeedRun {
        scenario,
        program,
        control,
        seed,
        tracing,
        clock: Clock::new(seed, &scenario.run),
        life,
        turns: Turns::new(seed, scenario.guest.client_turn),
        lives: 0,
        opened_before: false,
        recovery_events: 100,
        tally: Tally::default(),
        latency: BTreeMap::new(),
        trace_hash: Xxh3::new(),
        trace: Vec::new(),
        recording: Recording::default(),
    };
    let end = course(&mut run).err().map_or(SeedEnd::Done, SeedEnd::from);
    run.end_life();
    for ((kind, durable), times) in std::mem::take(&mut run.latency) {
        run.tally.latency.insert(work::label(kind, durable), times);
    }
    if let Some(kept) = run.life.steps.take() {
        steps.case.lives = kept.lives;
        steps.seed = life_seed(seed, run.lives);
        steps.script = run.life.world.device().fired_script().to_vec();
    }
    let result = SeedResult {
        seed,
        end,
        tally: run.tally,
        trace_hash: format!("{:032x}", run.trace_hash.digest128()),
        trace: (tracing == Tracing::Keep).then_some(run.trace),
        recording: (tracing == Tracing::Record).then_some(run.recording),
    };
    (result, steps)
}

/// The first event in which two runs of one seed differ.
#[must_use]
pub fn first_difference(one: &SeedResult, other: &SeedResult) -> Option<String> {
    let (Some(one), Some(other)) = (&one.trace, &other.trace) else {
        return None;
    };
    let at = one.iter().zip(other).position(|(one, other)| one != other);
    let at = at.or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))?;
    let shown = |trace: &[String]| {
        trace
            .get(at)
            .map_or("nothing more", String::as_str)
            .to_owned()
    };
    Some(format!(
        "event {at} is `{}` in one run and `{}` in another",
        shown(one),
        shown(other)
    ))
}

impl From<Halt> for SeedEnd {
    fn from(halt: Halt) -> SeedEnd {
        match halt {
            Halt::Violation(violation) => SeedEnd::Violation(violation),
            Halt::Damaged => SeedEnd::DamageReported,
            Halt::OutOfEvents => SeedEnd::OutOfEvents,
            Halt::Cancelled => SeedEnd::Cancelled,
            Halt::Rejected(message) => SeedEnd::Rejected(message),
            Halt::Invalid(what) => SeedEnd::InvalidRun(what),
        }
    }
}

impl SeedRun<'_> {
    fn run(&mut self) -> Result<(), Halt> {
        self.switch_on(false)?;
        while self.tally.crashes() < self.scenario.run.crashes {
            let (events, seek_pending) =
                (self.clock.events_until_crash(), self.clock.seek_pending());
            self.work(events, seek_pending)?;
            if self.clock.close_instead() {
                self.close_and_stop()?;
            } else {
                let kind = self.clock.kind();
                self.life.crash(kind, Ending::of(kind), &mut self.tally);
                self.control.count_crash();
            }
            self.check_wanted()?;
            self.switch_on(true)?;
        }
        self.work(self.scenario.run.events_per_crash, 0)?;
        self.close_and_stop()?;
        self.switch_on(true)
    }

    /// Switches on until a guest is open and read back; on a new device if the old one has to be given up.
    fn switch_on(&mut self, mut after_crash: bool) -> Result<(), Halt> {
        while let Recovered::GivenUp = self.recover(after_crash)? {
            self.replace_device()?;
            self.check_wanted()?;
            after_crash = false;
        }
        if !self.opened_before {
            self.opened_before = true;
            self.preload()?;
        }
        Ok(())
    }

    fn close_and_stop(&mut self) -> Result<(), Halt> {
        self.close()?;
        self.tally.clean_closes += 1;
        // A closed database must stand a power cut like any other; which of the two comes is the clock's.
        let kind = self.clock.kind();
        self.life.crash(kind, Ending::Close, &mut self.tally);
        Ok(())
    }

    fn replace_device(&mut self) -> Result<(), Halt> {
        self.lives += 1;
        let life = Life::new(
            self.scenario,
            self.program,
            life_seed(self.seed, self.lives),
            self.tracing,
            self.life.steps.is_some(),
        )?;
        self.end_life();
        self.life = life;
        self.opened_before = false;
        self.tally.devices_replaced += 1;
        Ok(())
    }

    /// Counts the device and its trace.
    fn end_life(&mut self) {
        let (world, counts) = (&self.life.world, self.life.oracle.counts());
        truth::count_device(&mut self.tally, world.device(), self.scenario);
        self.tally.events += world.events();
        self.tally.virtual_ns += world.now();
        self.tally.marks.add(world.marks());
        self.tally.durable_writes_checked += counts.durable_checked;
        self.tally.relaxed_writes_checked += counts.relaxed_checked;
        self.tally.reads_checked += counts.reads_judged;
        self.tally.writes_acknowledged += counts.acknowledged_durable + counts.acknowledged_relaxed;
        self.tally.reports_accepted += counts.reports_accepted;
        self.tally.excused_losses += counts.excused_losses;
        self.tally.undecided += counts.undecided;
        self.trace_hash
            .update(world.trace().hash().to_string().as_bytes());
        if self.tracing == Tracing::Keep {
            self.trace.extend(lines(world.trace()));
        }
        if self.tracing == Tracing::Record {
            self.recording.devices.push(world.trace().clone());
        }
    }

    fn check_wanted(&self) -> Result<(), Halt> {
        if self.tally.events + self.life.world.events() > self.scenario.run.events_max {
            return Err(Halt::OutOfEvents);
        }
        if self.control.wants(self.seed) {
            Ok(())
        } else {
            Err(Halt::Cancelled)
        }
    }
}

/// The first device has the seed's own number, so that a person can make the same one by hand.
fn life_seed(seed: u64, life: u64) -> u64 {
    if life == 0 {
        seed
    } else {
        xxh3_64_with_seed(&life.to_le_bytes(), seed)
    }
}
