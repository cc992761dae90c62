//! `kvsim run`, and the prediction of `kvsim bench`: loads everything first, so that a mistake is known before anything runs.

use kvsim_harness::scenario::{self, Scenario, SeedRange};

use crate::args::{BenchArgs, CommonArgs, OutputArgs, RunArgs};
use crate::campaigns::{Job, execute};
use crate::exit::Exit;
use crate::loading::load;

/// `kvsim run`
pub(crate) fn run(args: &RunArgs) -> Exit {
    let scenarios = match load(&args.scenarios, &args.common.set) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    execute(&Job {
        scenarios,
        seeds: args.seed.map(SeedRange::one).or(args.seeds),
        shard: args.shard,
        duration: args.duration,
        guest: args.common.guest.clone(),
        common: &args.common,
        output: &args.output,
        strict: args.strict,
        failures: Some(args.failures.clone()),
    })
}

/// Events of one prediction: enough for caches to be warm and for checkpoints to be seen.
const PREDICTED_EVENTS: u64 = 400_000;

/// `kvsim bench` without a real disk: the same workload on the simulated device, with no crash before its end.
pub(crate) fn predict(scenarios: &[Scenario], args: &BenchArgs) -> Exit {
    let mut scenarios = scenarios.to_vec();
    for scenario in &mut scenarios {
        scenario.run.seeds = SeedRange::one(scenario.run.seeds.start);
        scenario.run.crashes = 1;
        scenario.run.crash_in_recovery = 0.0;
        scenario.run.events_per_crash = PREDICTED_EVENTS;
        scenario.run.crash_clock = scenario::CrashClock::Fixed;
    }
    let common = CommonArgs::default();
    let output = OutputArgs {
        json: args.json,
        ..OutputArgs::default()
    };
    execute(&Job {
        scenarios,
        seeds: None,
        shard: None,
        duration: None,
        guest: None,
        common: &common,
        output: &output,
        strict: false,
        failures: None,
    })
}
