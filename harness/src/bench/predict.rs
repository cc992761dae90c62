//! What the simulator says of a workload, to stand beside what was measured.
//!
//! One seed, one life of the guest, no crash before its end; time is the simulated device's and, by its fuel, the guest's. With a
//! profile of this disk and machine the figures should be those of the real disk: the book's chapter on calibration says within
//! what, and what is not modelled.

use std::sync::Arc;

use kvsim_sim::Program;
use kvsim_simdisk::FaultConfig;

use crate::control::Control;
use crate::run::{SeedEnd, run_work};
use crate::scenario::Scenario;
use crate::summary::Times;

/// World events of the clients' work: enough for tens of thousands of commits.
const EVENTS: u64 = 400_000;

/// A prediction.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// The profile that it rests on; empty for none.
    pub profile: String,
    /// Operations that were simulated.
    pub operations: u64,
    /// Operations a second of virtual time.
    pub operations_per_second: f64,
    /// Half of the latencies are below, in nanoseconds.
    pub p50_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// All but one in a thousand.
    pub p999_ns: u64,
}

/// The scenario as it is run for a prediction: its workload and its device, and nothing that goes wrong.
fn quiet(scenario: &Scenario) -> Scenario {
    let mut quiet = scenario.clone();
    quiet.run.events_per_crash = EVENTS;
    quiet.run.events_max = u64::MAX / 2;
    quiet.faults = FaultConfig::default();
    // What the engine has natively: its buffers and caches are shares of it.
    let native = kvsim_native::ENGINE_MEMORY_BYTES;
    quiet.guest.memory_bytes_max = quiet.guest.memory_bytes_max.max(native);
    quiet
}

/// Predicts.
///
/// # Errors
/// The run did not end well, in words.
pub fn predict(scenario: &Scenario, program: &Arc<dyn Program>) -> Result<Prediction, String> {
    let scenario = quiet(scenario);
    let seed = scenario.run.seeds.start;
    let result = run_work(&scenario, program, seed, &Control::default());
    if result.end != SeedEnd::Done {
        return Err(format!(
            "{}: the prediction did not end well: {:?}",
            scenario.name, result.end
        ));
    }
    let mut latency = Times::default();
    for times in result.tally.latency.values() {
        latency.add(times);
    }
    Ok(Prediction {
        profile: scenario.profile.clone().unwrap_or_default(),
        operations: result.tally.working_operations,
        operations_per_second: result.tally.operations_per_second(),
        p50_ns: latency.quantile_ns(0.5),
        p99_ns: latency.quantile_ns(0.99),
        p999_ns: latency.quantile_ns(0.999),
    })
}
