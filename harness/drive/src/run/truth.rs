//! What the storage really did, for the report.

use kvsim_fs::FileFault;
use kvsim_sim::Storage;
use kvsim_simdisk::FaultKind;

use crate::tally::{Fired, Tally};
use kvsim_scenario::Scenario;

/// The names of what the scenario asks for and can happen in it: power cuts do nothing where the power is never cut.
fn asked(scenario: &Scenario) -> Vec<&'static str> {
    use FaultKind::{ByteTear, Garbage, Loss, Reorder, Torn};
    let cuts = scenario.run.power_weight > 0 && scenario.run.crashes > 0;
    if let Some(files) = &scenario.files {
        let asked = files.faults.asked().into_iter();
        return asked
            .filter(|kind| cuts || !kind.is_of_a_cut())
            .map(FileFault::name)
            .collect();
    }
    let asked = scenario.faults.asked().into_iter();
    asked
        .filter(|kind| cuts || !matches!(kind, Loss | Reorder | Torn | Garbage | ByteTear))
        .map(FaultKind::name)
        .collect()
}

/// Counts a storage that has come to its end.
pub(super) fn count_storage(tally: &mut Tally, storage: &Storage, scenario: &Scenario) {
    let asked = asked(scenario);
    for (kind, count) in storage.fault_counts() {
        let asked = asked.contains(&kind);
        if asked || count.fired > 0 {
            let sum = tally.faults.entry(kind.to_owned()).or_default();
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
