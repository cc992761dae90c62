//! One seed: open, check, work, crash, again and again; at the end a clean close, and a last look.
//!
//! Everything that happens follows from the scenario, the guest and the seed. A device that is given up after damage is
//! replaced by a new one with a seed of its own. A seed has one *device run* after the other.

mod cases;
mod clock;
mod device_run;
mod recovery;
mod result;
mod seed_run;
mod truth;
mod turns;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_sim::{Program, StorageFault};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::control::Control;
use crate::tally::Tally;
use crate::timeline::{Recording, lines};
use clock::Clock;
use device_run::DeviceRun;
use kvsim_oracle::Ending;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;
use recovery::Recovered;
use result::Halt;
use seed_run::SeedRun;
use turns::Turns;

pub use result::{SeedEnd, SeedResult, Tracing, first_difference};

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
pub struct Steps {
    /// Step by step.
    pub case: Case,
    /// The seed of that device, if it was not the first.
    pub seed: u64,
    /// The faults that affected it.
    pub script: Vec<StorageFault>,
}

/// Runs one seed of a scenario once more, and writes down what is done.
#[must_use]
pub fn run_noting_steps(
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
    let device_run = match DeviceRun::new(
        scenario,
        program,
        device_seed(seed, 0),
        tracing,
        keeps_steps,
    ) {
        Ok(device_run) => device_run,
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
        device_run,
        turns: Turns::new(seed, scenario.guest.client_turn),
        devices: 0,
        opened_before: false,
        recovery_events: 100,
        tally: Tally::default(),
        latency: BTreeMap::new(),
        trace_hash: Xxh3::new(),
        trace: Vec::new(),
        recording: Recording::default(),
    };
    let end = course(&mut run).err().map_or(SeedEnd::Done, SeedEnd::from);
    run.end_device();
    for ((kind, durable), times) in std::mem::take(&mut run.latency) {
        run.tally.latency.insert(work::label(kind, durable), times);
    }
    if let Some(kept) = run.device_run.steps.take() {
        steps.case.process_runs = kept.process_runs;
        steps.seed = device_seed(seed, run.devices);
        steps.script = run.device_run.pump.world.storage().fired_script(0);
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
                self.device_run
                    .crash(kind, Ending::of(kind), &mut self.tally);
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
        self.device_run.crash(kind, Ending::Close, &mut self.tally);
        Ok(())
    }

    fn replace_device(&mut self) -> Result<(), Halt> {
        self.devices += 1;
        let device_run = DeviceRun::new(
            self.scenario,
            self.program,
            device_seed(self.seed, self.devices),
            self.tracing,
            self.device_run.steps.is_some(),
        )?;
        self.end_device();
        self.device_run = device_run;
        self.opened_before = false;
        self.tally.devices_replaced += 1;
        Ok(())
    }

    /// Counts the device and its trace.
    fn end_device(&mut self) {
        let (world, counts) = (
            &self.device_run.pump.world,
            self.device_run.pump.oracle.counts(),
        );
        truth::count_storage(&mut self.tally, world.storage(), self.scenario);
        self.tally.events += world.events();
        self.tally.virtual_ns += world.now();
        self.tally.coverage_points.add(world.coverage_points());
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
}

/// The first device has the seed's own number, so that a person can make the same one by hand.
fn device_seed(seed: u64, device: u64) -> u64 {
    if device == 0 {
        seed
    } else {
        xxh3_64_with_seed(&device.to_le_bytes(), seed)
    }
}
