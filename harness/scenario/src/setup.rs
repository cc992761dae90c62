//! From a scenario and a seed to the world that they describe.

use kvsim_fs::FileFault;
use kvsim_sim::{
    CommitOrder, GuestLimits, Order, Program, StorageFault, TraceMode, WorldConfig, split_script,
};
use kvsim_simdisk::{FaultKind, FlushKind};

use crate::scenario::Scenario;
use kvsim_oracle::{Limits, OracleConfig};
use kvsim_workload::{Workload, WorkloadError};

/// What the world of this seed is made from.
pub fn world_config(
    scenario: &Scenario,
    program: &dyn Program,
    seed: u64,
    trace: TraceMode,
) -> WorldConfig {
    let options = scenario.guest.options_of(program.options_name());
    WorldConfig {
        seed,
        device: scenario.device.clone(),
        faults: scenario.faults.clone(),
        files: scenario.files.clone().unwrap_or_default(),
        limits: GuestLimits {
            memory_bytes_max: scenario.guest.memory_bytes_max,
            fuel_per_call: scenario.guest.fuel_per_call,
            events_per_answer: scenario.guest.events_per_answer,
            idle_ns_per_answer: scenario.guest.idle_ns_per_answer,
        },
        fuel_ps: scenario.guest.cpu_ps_per_fuel,
        options: options
            .into_iter()
            .map(|(name, text)| (name, text.0))
            .collect(),
        reopen: scenario
            .guest
            .reopen_of(program.options_name())
            .map(|table| {
                let options = table.iter();
                options
                    .map(|(name, text)| (name.clone(), text.0.clone()))
                    .collect()
            })
            .collect(),
        db_id: database_id(seed),
        trace,
    }
}

/// How the oracle judges this guest in this scenario; `lies` if the device is asked for any.
pub fn oracle_config(scenario: &Scenario, program: &dyn Program, lies: bool) -> OracleConfig {
    let stated = program.policies();
    // A scenario that was loaded has only policies that there are.
    let mut policies = scenario.guest.policies(stated).unwrap_or(stated);
    let offers = program.offers();
    if offers.order == Order::Each {
        policies.commit_order = CommitOrder::Each;
    }
    let on_device = scenario.files.is_none();
    let flush_only_orders = on_device && scenario.device.flush == FlushKind::Barrier;
    let block_bytes = u64::from(scenario.device.physical_block_bytes);
    let options = scenario.guest.options_of(program.options_name());
    let option = |name: &str| options.get(name).map(|text| text.0.as_str());
    let window_ns = policies.relaxed_window_ns(option("relaxed_window_ns"));
    OracleConfig {
        keep_history: lies || flush_only_orders,
        flush_only_orders,
        relaxed_window_ns: scenario.check.relaxed_window_ns.or(window_ns),
        relaxed_slack_ns: scenario.check.relaxed_slack_ns,
        policies,
        limits: Limits::of(&policies, block_bytes, option),
        offers,
    }
}

/// The clients of this seed, which ask only for what the guest offers.
///
/// # Errors
/// The field of `[workload]` that makes it impossible with this guest.
pub fn workload(
    scenario: &Scenario,
    program: &dyn Program,
    seed: u64,
) -> Result<Workload, WorkloadError> {
    Workload::new(&scenario.workload, seed)?.offered(program.offers())
}

/// The identity that a database made on this device gets.
fn database_id(seed: u64) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128_with_seed(b"database", seed).to_le_bytes()
}

/// Whether the scenario, with these faults beside its own, asks its storage to lie.
pub fn lies(scenario: &Scenario, script: &[StorageFault]) -> bool {
    let (device, files) = split_script(script);
    match &scenario.files {
        Some(own) => {
            let mut faults = own.faults.clone();
            faults.script.extend(files);
            faults.asked().into_iter().any(FileFault::is_lie)
        }
        None => {
            let mut faults = scenario.faults.clone();
            faults.script.extend(device);
            faults.read_errors_stay() || faults.asked().into_iter().any(FaultKind::is_lie)
        }
    }
}

/// Adds faults at named operations to what a world is made from.
pub fn add_script(config: &mut WorldConfig, script: &[StorageFault]) {
    let (device, files) = split_script(script);
    config.faults.script.extend(device);
    config.files.faults.script.extend(files);
}

impl Scenario {
    /// The faults at named operations.
    #[must_use]
    pub fn script(&self) -> Vec<StorageFault> {
        match &self.files {
            Some(files) => {
                let script = files.faults.script.iter().cloned();
                script.map(StorageFault::from).collect()
            }
            None => {
                let script = self.faults.script.iter().cloned();
                script.map(StorageFault::from).collect()
            }
        }
    }

    /// Puts other faults at named operations in the place of those that there are.
    pub fn set_script(&mut self, script: &[StorageFault]) {
        let (device, files) = split_script(script);
        self.faults.script = device;
        if let Some(own) = &mut self.files {
            own.faults.script = files;
        }
    }

    /// Lets nothing go wrong but these faults and what power cuts do.
    pub fn script_only(&mut self, script: &[StorageFault]) {
        let (device, files) = split_script(script);
        self.faults = self.faults.scripted(device);
        if let Some(own) = &mut self.files {
            own.faults = own.faults.scripted(files);
        }
    }
}
