//! A failing case step by step, with the result of a seed: what replays one replays the other.

use std::sync::Arc;

use kvsim_sim::{Program, TraceMode};

use super::result::{SeedEnd, SeedResult, Tracing};
use super::truth;
use crate::case::{Stop, drive};
use crate::tally::Tally;
use crate::timeline::{Recording, lines};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::Case;

/// Runs a case.
pub(super) fn run(
    scenario: &Scenario,
    case: &Case,
    program: &Arc<dyn Program>,
    seed: u64,
    tracing: Tracing,
) -> SeedResult {
    let mode = match tracing {
        Tracing::HashOnly => TraceMode::Hash,
        Tracing::Keep | Tracing::Record => TraceMode::Full,
    };
    let mut result = SeedResult {
        seed,
        end: SeedEnd::Done,
        tally: Tally::default(),
        trace_hash: String::new(),
        trace: None,
        recording: None,
    };
    let driven = match drive(scenario, case, program, seed, mode) {
        Ok(driven) => driven,
        Err(stop) => {
            result.end = end(stop);
            return result;
        }
    };
    let (world, counts) = (&driven.world, driven.oracle.counts());
    let tally = &mut result.tally;
    truth::count_storage(tally, world.storage(), scenario);
    [tally.power_cuts, tally.process_kills] = driven.crashes;
    tally.recoveries = driven.recoveries;
    tally.events = world.events();
    tally.virtual_ns = world.now();
    tally.marks.add(world.marks());
    tally.durable_writes_checked = counts.durable_checked;
    tally.relaxed_writes_checked = counts.relaxed_checked;
    tally.reads_checked = counts.reads_judged;
    tally.undecided = counts.undecided;
    result.trace_hash = world.trace().hash().to_string();
    result.trace = (tracing == Tracing::Keep).then(|| lines(world.trace()));
    result.recording = (tracing == Tracing::Record).then(|| Recording {
        devices: vec![world.trace().clone()],
    });
    result.end = driven.end.err().map_or(SeedEnd::Done, end);
    result
}

fn end(stop: Stop) -> SeedEnd {
    match stop {
        Stop::Violation(violation) => SeedEnd::Violation(violation),
        Stop::Damaged(_) => SeedEnd::DamageReported,
        // A device error that stood in the way of an opening says nothing for or against the guest.
        Stop::DeviceError(_) | Stop::Cut => SeedEnd::Done,
        Stop::Rejected(message) => SeedEnd::Rejected(message),
        Stop::Invalid(what) => SeedEnd::InvalidRun(what),
        Stop::OutOfEvents => SeedEnd::OutOfEvents,
    }
}
