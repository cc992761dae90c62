//! `[run]` and `[guest]`: how often and how a seed is crashed, and what the guest may use.

use std::collections::BTreeMap;

use kvsim_sim::{GuestPolicies, WorldConfig};
use kvsim_simdisk::LatencyConfig;
use serde::{Deserialize, Serialize};

use kvsim_api::units::{OptionText, SeedRange};

/// How the moment of a crash is drawn, in world events since the clients began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashClock {
    /// Anywhere from 1 to twice the mean, each as likely.
    #[default]
    Uniform,
    /// Each event is as likely as any other to be the last, whatever came before it.
    Geometric,
    /// Always after the same number of events.
    Fixed,
}

/// What happens to a seed once a guest has reported damage that it cannot open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDamage {
    /// It goes on with a new device, as a person would after restoring a backup.
    #[default]
    Fresh,
    /// It ends there.
    Stop,
}

/// How often and how each seed is crashed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// The seeds to run.
    pub seeds: SeedRange,
    /// Crashes of each seed, those during recovery included.
    pub crashes: u64,
    /// Mean number of world events between the start of the clients and the crash.
    pub events_per_crash: u64,
    /// How the moment of the crash is drawn around that mean.
    pub crash_clock: CrashClock,
    /// Relative frequency of power cuts.
    pub power_weight: u32,
    /// Relative frequency of killed processes.
    pub process_weight: u32,
    /// Probability that a crash whose moment has come, in a recovery too, waits for one at which the device has something to lose.
    pub seek_pending: f64,
    /// Probability that a process run is closed cleanly instead of crashed.
    pub clean_close: f64,
    /// Probability that a recovery is itself crashed.
    pub crash_in_recovery: f64,
    /// Probability that the creation of a database is crashed, at a moment at which something of it is pending.
    pub crash_in_creation: f64,
    /// How many recoveries or creations in a row may be crashed.
    pub recovery_crash_depth: u32,
    /// Probability that a crashed device is recovered twice, side by side, to see that the answers agree.
    pub recover_twice: f64,
    /// Probability that clients work on after a recovery before anything is read back.
    pub work_before_reading: f64,
    /// What happens after a report of damage.
    pub on_damage: OnDamage,
    /// How often an opening that met a device error is tried again.
    pub open_retries: u32,
    /// World events that one seed may take before it is given up as inconclusive.
    pub events_max: u64,
}

impl Default for RunConfig {
    fn default() -> Self {
        RunConfig {
            seeds: SeedRange { start: 1, end: 9 },
            crashes: 100,
            events_per_crash: 500,
            crash_clock: CrashClock::Uniform,
            power_weight: 1,
            process_weight: 0,
            seek_pending: 0.5,
            clean_close: 0.02,
            crash_in_recovery: 0.1,
            crash_in_creation: 0.0,
            recovery_crash_depth: 2,
            recover_twice: 0.05,
            work_before_reading: 0.0,
            on_damage: OnDamage::Fresh,
            open_retries: 3,
            events_max: 100_000_000,
        }
    }
}

/// The machine on which the same engine runs natively: of use to predictions of a benchmark and to nothing else.
///
/// In a simulated run the guest has one processor, and its clients cost nothing but their
/// [turn](GuestConfig::client_turn). In a prediction, clients and engine share these processors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// Processors; 0: nobody measured them, and a prediction takes one, on which clients cost their turn.
    pub processors: u32,
    /// Processor time of a client that slept, from when it is told its answer until it hands in its next request.
    pub client: LatencyConfig,
    /// What a commit costs the client that waits for the disk, beyond the calls of the engine: until the kernel has the
    /// write, and after it. A prediction adds this time to the device's.
    pub commit_ns: u64,
    /// What the engine is told natively, beside the options of the guest.
    pub options: BTreeMap<String, OptionText>,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            processors: 0,
            client: LatencyConfig::fixed(0),
            commit_ns: 0,
            options: BTreeMap::new(),
        }
    }
}

/// What the guest may use, and what it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuestConfig {
    /// Memory that the guest may grow to.
    pub memory_bytes_max: u64,
    /// Fuel, about one per instruction, that one call may burn before it counts as hung.
    pub fuel_per_call: u64,
    /// World events that a request may be with the guest without an answer, before the guest counts as busy for ever.
    pub events_per_answer: u64,
    /// Virtual nanoseconds that a request may be with the guest without an answer while no operation is under way and nothing computes, before the guest counts as asleep.
    pub idle_ns_per_answer: u64,
    /// Virtual picoseconds that one unit of fuel takes.
    pub cpu_ps_per_fuel: u64,
    /// What passes until a client that waited for the disk, and then for the processor, is awake on it and hands its next request
    /// in. A guest has one processor, and clients come onto it one after the other.
    pub client_turn: LatencyConfig,
    /// Passed to any guest as they are. They are stronger than the options of a guest's own table.
    pub options: BTreeMap<String, OptionText>,
    /// Passed only to the guest of this name.
    pub options_for: BTreeMap<String, BTreeMap<String, OptionText>>,
    /// Passed only to the guest of this name, from its second opening on, on top of the other options: one table after the other in turn.
    pub reopen_for: BTreeMap<String, Vec<BTreeMap<String, OptionText>>>,
    /// Policies in place of those that the guest states.
    pub policies: BTreeMap<String, OptionText>,
}

impl GuestConfig {
    /// The options that the guest of this name is told.
    #[must_use]
    pub fn options_of(&self, guest: &str) -> BTreeMap<String, OptionText> {
        let tables = [self.options_for.get(guest), Some(&self.options)];
        let options = tables.into_iter().flatten().flatten();
        options
            .map(|(name, text)| (name.clone(), text.clone()))
            .collect()
    }

    /// What the guest of this name is told beside that when it is opened anew, one table after the other.
    pub fn reopen_of(&self, guest: &str) -> impl Iterator<Item = &BTreeMap<String, OptionText>> {
        self.reopen_for.get(guest).into_iter().flatten()
    }

    /// What a guest that states `stated` is held to.
    ///
    /// # Errors
    /// The name of a policy of this table that is wrong, and what is wrong with it.
    pub fn policies(&self, stated: GuestPolicies) -> Result<GuestPolicies, (String, String)> {
        let mut policies = stated;
        for (name, value) in &self.policies {
            let changed = policies.set(name, &value.0);
            changed.map_err(|error| (name.clone(), error))?;
        }
        Ok(policies)
    }
}

impl Default for GuestConfig {
    fn default() -> Self {
        let WorldConfig {
            limits, fuel_ps, ..
        } = WorldConfig::default();
        GuestConfig {
            memory_bytes_max: limits.memory_bytes_max,
            fuel_per_call: limits.fuel_per_call,
            events_per_answer: limits.events_per_answer,
            idle_ns_per_answer: limits.idle_ns_per_answer,
            cpu_ps_per_fuel: fuel_ps,
            client_turn: LatencyConfig::fixed(0),
            options: BTreeMap::new(),
            options_for: BTreeMap::new(),
            reopen_for: BTreeMap::new(),
            policies: BTreeMap::new(),
        }
    }
}
