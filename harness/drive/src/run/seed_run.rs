//! A seed under way: all that its run knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_scenario::Scenario;
use kvsim_sim::Program;
use kvsim_workload::OpKind;
use xxhash_rust::xxh3::Xxh3;

use super::clock::Clock;
use super::device_run::DeviceRun;
use super::result::{Halt, Tracing};
use super::turns::Turns;
use crate::control::Control;
use crate::tally::{Tally, Times};
use crate::timeline::Recording;

/// One seed under way.
pub(super) struct SeedRun<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) program: &'a Arc<dyn Program>,
    pub(super) control: &'a Control,
    pub(super) seed: u64,
    pub(super) tracing: Tracing,
    pub(super) clock: Clock,
    pub(super) device_run: DeviceRun,
    pub(super) turns: Turns,
    pub(super) devices: u64,
    /// Whether this device was opened before, so that opening it is a recovery.
    pub(super) opened_before: bool,
    /// Events that the last recovery and reading back took.
    pub(super) recovery_events: u64,
    pub(super) tally: Tally,
    pub(super) latency: BTreeMap<(OpKind, Option<bool>), Times>,
    pub(super) trace_hash: Xxh3,
    pub(super) trace: Vec<String>,
    pub(super) recording: Recording,
}

impl SeedRun<'_> {
    /// Whether it is to go on.
    pub(super) fn check_wanted(&self) -> Result<(), Halt> {
        if self.tally.events + self.device_run.pump.world.events() > self.scenario.run.events_max {
            return Err(Halt::OutOfEvents);
        }
        if self.control.wants(self.seed) {
            Ok(())
        } else {
            Err(Halt::Cancelled)
        }
    }
}
