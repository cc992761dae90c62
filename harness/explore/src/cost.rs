//! What judging took: coverage points of the guest that were reached, and work; and how often nothing came of it.
//!
//! *Work* is what a simulation costs, counted and not timed, so that a bound on it cuts off the same thing everywhere: the guest's fuel, with something for
//! each event of the world and each state of the device. A guest that hangs burns much fuel in few events; a long history is many events.

use kvsim_sim::World;

use kvsim_api::coverage::CoverageCounts;
use kvsim_scenario::Scenario;

/// What an event of a world costs beside the guest's own work.
const PER_EVENT: u64 = 3_000;
/// What a state costs that is judged: a world, an instance of the guest, reading back.
const PER_JUDGEMENT: u64 = 100_000;
/// What a crash point costs: a copy of what must survive, and of the device for a killed process.
pub const PER_POINT: u64 = 150_000;
/// What a state costs that is listed, its image hashed.
pub const PER_STATE: u64 = 10_000;

/// Work in a world so far.
pub fn work(world: &World) -> u64 {
    world.fuel() + PER_EVENT * world.events()
}

/// So many times the events of a case are waited for in another that is like it, and so many more.
const EVENT_MARGIN: (u64, u64) = (4, 20_000);

/// Events after which a process run of a case that is like the one of this world is given up. A guest that was asked for something else, or has other options, may
/// work for ever and never answer; nothing is to be found there.
pub fn event_limit(scenario: &Scenario, world: &World) -> u64 {
    let (times, more) = EVENT_MARGIN;
    scenario
        .run
        .events_max
        .min(world.events().saturating_mul(times).saturating_add(more))
}

/// What judging one state took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cost {
    pub(crate) coverage_points: CoverageCounts,
    pub(crate) work: u64,
    /// Recoveries that are undecided.
    pub(crate) undecided: u64,
}

impl Cost {
    /// Adds what was done in a world since it had done so much work.
    pub(crate) fn add(&mut self, world: &World, before: u64) {
        self.coverage_points.add(world.coverage_points());
        self.work += PER_JUDGEMENT + work(world).saturating_sub(before);
    }
}
