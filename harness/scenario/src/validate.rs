//! What is well formed and yet cannot be: ranges, and combinations that contradict each other.

use std::collections::BTreeMap;

use kvsim_sim::GuestPolicies;
use kvsim_simdisk::ConfigError;

use crate::scenario::{Expect, Scenario};
use kvsim_api::units::{OptionText, bytes, thousands};
use kvsim_workload::ValueBytes;

/// More processors than this are a slip of the pen.
const PROCESSORS_MAX: u32 = 4096;

/// No commit takes this much of a processor.
const COMMIT_NS_MAX: u64 = 1_000_000_000;

/// What is wrong, and the fields to point at, the likeliest culprit first.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) fields: Vec<String>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

type Checked = Result<(), Problem>;

fn problem(fields: &[&str], message: impl Into<String>, help: Option<&str>) -> Checked {
    Err(Problem {
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        message: message.into(),
        help: help.map(str::to_owned),
    })
}

/// Everything that can be known to be wrong without running.
pub(crate) fn validate(scenario: &Scenario) -> Checked {
    run(scenario)?;
    guest(scenario)?;
    host(scenario)?;
    if let Err(error) = scenario.workload.validate() {
        return problem(
            &[&format!("workload.{}", error.field)],
            format!("`workload.{}` {}", error.field, error.message),
            None,
        );
    }
    if let Err((field, message)) = scenario.check.validate() {
        return problem(
            &[&format!("check.{field}")],
            format!("`check.{field}` {message}"),
            None,
        );
    }
    if let Err((field, message)) = scenario.explore.validate() {
        return problem(
            &[&format!("explore.{field}")],
            format!("`explore.{field}` {message}"),
            None,
        );
    }
    if let Some(files) = &scenario.files {
        files.validate().map_err(from_device)?;
    }
    scenario.device.validate().map_err(from_device)?;
    scenario
        .faults
        .validate(&scenario.device)
        .map_err(from_device)?;
    together(scenario)
}

fn from_device(error: ConfigError) -> Problem {
    let mut fields = vec![error.field.clone()];
    // A contradiction between a fault and the device is the fault's doing; the device may come from a profile.
    if error.field.starts_with("faults.") {
        fields.push("device.cache".to_owned());
    }
    Problem {
        fields,
        message: error.to_string(),
        help: None,
    }
}

fn fraction(field: &str, value: f64) -> Checked {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    problem(
        &[field],
        format!("`{field}` is {value}"),
        Some("a probability is from 0.0 to 1.0"),
    )
}

fn at_least_one(field: &str, value: u64) -> Checked {
    if value > 0 {
        Ok(())
    } else {
        problem(&[field], format!("`{field}` must be at least 1"), None)
    }
}

fn run(scenario: &Scenario) -> Checked {
    let run = &scenario.run;
    fraction("run.seek_pending", run.seek_pending)?;
    fraction("run.clean_close", run.clean_close)?;
    fraction("run.crash_in_recovery", run.crash_in_recovery)?;
    fraction("run.crash_in_creation", run.crash_in_creation)?;
    fraction("run.recover_twice", run.recover_twice)?;
    fraction("run.work_before_reading", run.work_before_reading)?;
    at_least_one("run.events_per_crash", run.events_per_crash)?;
    at_least_one("run.events_max", run.events_max)?;
    if run.events_per_crash > u64::MAX / 64 {
        return problem(
            &["run.events_per_crash"],
            "`run.events_per_crash` is more than a run can ever reach",
            None,
        );
    }
    if run.power_weight == 0 && run.process_weight == 0 && run.crashes > 0 {
        let help = "give one of them a weight, or set `run.crashes = 0` for a run without a crash";
        return problem(
            &["run.power_weight", "run.process_weight", "run.crashes"],
            "both kinds of crash have weight 0",
            Some(help),
        );
    }
    if (run.crash_in_recovery > 0.0 || run.crash_in_creation > 0.0) && run.recovery_crash_depth == 0
    {
        let help = "set `run.recovery_crash_depth` to at least 1, or `run.crash_in_recovery = 0.0` and `run.crash_in_creation = 0.0`";
        let fields = [
            "run.recovery_crash_depth",
            "run.crash_in_recovery",
            "run.crash_in_creation",
        ];
        return problem(
            &fields,
            "recoveries are to be crashed, to a depth of 0",
            Some(help),
        );
    }
    if scenario.failure.is_some() && run.seeds.count() != 1 {
        return problem(&["run.seeds"], "a failing case has exactly one seed", None);
    }
    Ok(())
}

fn guest(scenario: &Scenario) -> Checked {
    let guest = &scenario.guest;
    at_least_one("guest.fuel_per_call", guest.fuel_per_call)?;
    at_least_one("guest.events_per_answer", guest.events_per_answer)?;
    at_least_one("guest.idle_ns_per_answer", guest.idle_ns_per_answer)?;
    const WASM_MEMORY_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 30;
    if !WASM_MEMORY_BYTES.contains(&guest.memory_bytes_max) {
        let help = "a guest's memory is from 65536 (one page) to 4294967296 bytes";
        return problem(
            &["guest.memory_bytes_max"],
            format!("`guest.memory_bytes_max` is {}", guest.memory_bytes_max),
            Some(help),
        );
    }
    if !guest.client_turn.is_sound() {
        return problem(
            &["guest.client_turn"],
            "`guest.client_turn` must not fall from min_ns to max_ns, with means_ns in between",
            None,
        );
    }
    if let Err((name, message)) = guest.policies(GuestPolicies::default()) {
        let help =
            "`[guest.policies]` says what the guest is held to in place of what it states itself";
        return problem(&[&format!("guest.policies.{name}")], message, Some(help));
    }
    for (name, options) in &guest.options_for {
        names(&format!("guest.options_for.{name}"), options)?;
    }
    for (name, tables) in &guest.reopen_for {
        let field = format!("guest.reopen_for.{name}");
        for options in tables {
            names(&field, options)?;
            let limit = options
                .keys()
                .find(|option| JUDGED_BY.contains(&option.as_str()));
            if let Some(limit) = limit {
                let help = "what a guest must hold, take or keep is judged by one value for the whole run; set it in `[guest.options_for]`";
                return problem(
                    &[&field],
                    format!("`{field}` changes the option `{limit}`"),
                    Some(help),
                );
            }
        }
    }
    names("guest.options", &guest.options)
}

/// Options that a policy of the guest may name, so that what is right depends on them.
const JUDGED_BY: [&str; 5] = [
    "max_key_bytes",
    "max_value_bytes",
    "data_percent",
    "usable_percent",
    "relaxed_window_ns",
];

fn host(scenario: &Scenario) -> Checked {
    let host = &scenario.host;
    if !host.client.is_sound() {
        return problem(
            &["host.client"],
            "`host.client` must not fall from min_ns to max_ns, with means_ns in between",
            None,
        );
    }
    if host.processors > PROCESSORS_MAX {
        return problem(
            &["host.processors"],
            format!("`host.processors` is {}", host.processors),
            Some("0 for a machine that nobody measured, at most 4096"),
        );
    }
    if host.commit_ns > COMMIT_NS_MAX {
        return problem(
            &["host.commit_ns"],
            format!("`host.commit_ns` is {}", thousands(host.commit_ns)),
            Some("at most a second, 1000000000"),
        );
    }
    names("host.options", &host.options)
}

/// Names of options.
fn names(field: &str, options: &BTreeMap<String, OptionText>) -> Checked {
    for name in options.keys() {
        if name.is_empty() || name.contains(['=', '\n', '\r']) {
            return problem(
                &[field],
                format!("`{name}` cannot be the name of an option"),
                Some("no `=` and no line break"),
            );
        }
    }
    Ok(())
}

/// What each table allows alone and the others do not.
fn together(scenario: &Scenario) -> Checked {
    if scenario.expect == Expect::DamageReported && scenario.run.crashes == 0 {
        return problem(
            &["expect", "run.crashes"],
            "damage is reported by recoveries, and there is no crash",
            None,
        );
    }
    let workload = &scenario.workload;
    let longest = match &workload.value_bytes {
        ValueBytes::Fixed(bytes) => *bytes,
        ValueBytes::Range(range) => range.max,
        ValueBytes::InTurn(lengths) => lengths.iter().copied().max().unwrap_or(0),
        ValueBytes::Weighted(lengths) => {
            lengths.iter().map(|length| length.bytes).max().unwrap_or(0)
        }
    };
    let (limit, room) = limit(scenario);
    if longest >= limit {
        let message = format!(
            "values of up to {} do not fit a {} of {}",
            bytes(longest),
            room.what,
            bytes(limit)
        );
        return problem(
            &["workload.value_bytes", room.field, "workload.kind"],
            message,
            Some(room.help),
        );
    }
    let shortest = match &workload.value_bytes {
        ValueBytes::Fixed(bytes) => *bytes,
        ValueBytes::Range(range) => range.min,
        ValueBytes::InTurn(lengths) => lengths.iter().copied().min().unwrap_or(0),
        ValueBytes::Weighted(lengths) => {
            lengths.iter().map(|length| length.bytes).min().unwrap_or(0)
        }
    };
    let preloaded = workload
        .preload
        .saturating_mul(shortest + u64::from(workload.key_bytes));
    if preloaded >= limit {
        let message = format!(
            "{} records to preload are {}, and the {} holds {}",
            thousands(workload.preload),
            bytes(preloaded),
            room.what,
            bytes(limit)
        );
        return problem(
            &[
                "workload.preload",
                "workload.keys",
                room.field,
                "workload.kind",
            ],
            message,
            Some(room.help),
        );
    }
    if longest > scenario.guest.memory_bytes_max / 2 {
        let message = format!(
            "values of up to {} and a guest memory of {}: one request would take more than half of it",
            bytes(longest),
            bytes(scenario.guest.memory_bytes_max)
        );
        return problem(
            &[
                "guest.memory_bytes_max",
                "workload.value_bytes",
                "workload.kind",
            ],
            message,
            Some("give the guest more memory"),
        );
    }
    Ok(())
}

/// How much room there is, and where that is said.
fn limit(scenario: &Scenario) -> (u64, Room) {
    match &scenario.files {
        None => (scenario.device.limit_bytes(), DEVICE),
        Some(files) if files.capacity_bytes == 0 => (u64::MAX, FILES),
        Some(files) => (files.capacity_bytes, FILES),
    }
}

struct Room {
    what: &'static str,
    field: &'static str,
    help: &'static str,
}

const DEVICE: Room = Room {
    what: "device",
    field: "device.capacity_bytes",
    help: "give `device.capacity_bytes` or `device.max_capacity_bytes` more",
};

const FILES: Room = Room {
    what: "file system",
    field: "files.capacity_bytes",
    help: "give `files.capacity_bytes` more, or 0 for no limit",
};
