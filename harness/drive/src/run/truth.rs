//! What the storage really did, for the report.

use kvsim_sim::Storage;
use kvsim_simdisk::FaultKind;

use crate::tally::{Fired, Tally};
use kvsim_scenario::Scenario;

/// What the scenario asks for and can happen in it: power cuts do nothing where the power is never cut.
fn asked(scenario: &Scenario) -> Vec<FaultKind> {
    use FaultKind::{ByteTear, Garbage, Loss, Reorder, Torn};
    let cuts = scenario.run.power_weight > 0 && scenario.run.crashes > 0;
    let mut asked = scenario.faults.asked();
    asked.retain(|kind| cuts || !matches!(kind, Loss | Reorder | Torn | Garbage | ByteTear));
    asked
}

/// Counts a storage that has come to its end.
pub(super) fn count_storage(tally: &mut Tally, storage: &Storage, scenario: &Scenario) {
    let asked = asked(scenario);
    for (kind, count) in storage.counts().iter() {
        let asked = asked.contains(&kind);
        if asked || count.fired > 0 {
            let sum = tally.faults.entry(kind.name().to_owned()).or_default();
            *sum = Fired {
                asked,
                possible: sum.possible + count.possible,
                fired: sum.fired + count.fired,
            };
        }
    }
    let (written, synced) = storage.written_and_synced();
    tally.device_bytes_written += written;
    tally.device_flushes += synced;
}
