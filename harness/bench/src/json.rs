//! The same figures for programs, under a versioned schema name.

use serde::Serialize;

use super::amplification::Amplification;
use super::counters::Counters;
use super::load::Seen;
use super::predict::Prediction;
use super::report::share;
use super::rounds::{Load, Memory, Row, Spread, Table};

const SCHEMA: &str = "kvsim.bench/2";
const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p999", 0.999),
    ("p9999", 0.9999),
    ("max", 1.0),
];

/// All tables of one call.
#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    kvsim: &'static str,
    tables: Vec<TableJson>,
}

#[derive(Debug, Serialize)]
struct TableJson {
    scenario: String,
    durability: super::store::Durability,
    clients: u32,
    tasks: bool,
    keys: u64,
    seed: u64,
    rate: Option<f64>,
    /// All memory that the process of an engine could take, the page cache included; `null` where there was no bound.
    memory_limit_bytes: Option<u64>,
    seconds_measured: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
    engines: Vec<EngineJson>,
}

#[derive(Debug, Serialize)]
struct EngineJson {
    name: &'static str,
    version: String,
    configuration: Vec<(String, String)>,
    durable_as_asked: bool,
    device: Option<String>,
    caveat: Option<String>,
    failed: Option<String>,
    operations_per_second: Option<Spread>,
    space_bytes: u64,
    live_bytes: u64,
    memory: Option<Memory>,
    /// How the keys came in that are there before the first round; `null` where there are none, or it failed.
    load: Option<Load>,
    rounds: Vec<RoundJson>,
}

#[derive(Debug, Serialize)]
struct RoundJson {
    operations: u64,
    operations_per_second: f64,
    commits: u64,
    user_bytes: u64,
    flushes_per_commit: Option<f64>,
    write_amplification: Option<f64>,
    amplification: Amplification,
    counters: Counters,
    engine_counters: Vec<(String, u64)>,
    latency: Vec<LatencyJson>,
}

#[derive(Debug, Serialize)]
struct LatencyJson {
    operation: &'static str,
    count: u64,
    quantiles_ns: Vec<(&'static str, u64)>,
}

/// The document of these tables.
#[must_use]
pub fn document(tables: &[Table]) -> Document {
    Document {
        schema: SCHEMA,
        kvsim: env!("CARGO_PKG_VERSION"),
        tables: tables.iter().map(table).collect(),
    }
}

fn table(table: &Table) -> TableJson {
    let plan = &table.plan;
    TableJson {
        scenario: plan.scenario.name.clone(),
        durability: plan.durability,
        clients: plan.scenario.workload.clients,
        tasks: plan.pace.tasks,
        keys: plan.scenario.workload.keys,
        seed: plan.scenario.run.seeds.start,
        rate: plan.pace.rate,
        memory_limit_bytes: plan.memory_bytes,
        seconds_measured: plan.pace.measured.as_secs_f64(),
        prediction: table.prediction.clone(),
        engines: table.rows.iter().map(engine).collect(),
    }
}

fn engine(row: &Row) -> EngineJson {
    EngineJson {
        name: row.engine,
        version: row.version.clone(),
        configuration: row.configuration.clone(),
        durable_as_asked: row.durable_as_asked,
        device: row.device.clone(),
        caveat: row.caveat.clone(),
        failed: row.failed.as_ref().map(ToString::to_string),
        operations_per_second: row.spread(Seen::rate),
        space_bytes: row.space_bytes,
        live_bytes: row.live_bytes,
        memory: row.memory,
        load: row.load,
        rounds: row.rounds.iter().map(round).collect(),
    }
}

fn round(seen: &Seen) -> RoundJson {
    let latency = seen.latency.iter().map(|(action, histogram)| LatencyJson {
        operation: action.name(),
        count: histogram.len(),
        quantiles_ns: QUANTILES
            .map(|(name, quantile)| (name, histogram.value_at_quantile(quantile)))
            .to_vec(),
    });
    RoundJson {
        operations: seen.operations(),
        operations_per_second: seen.rate(),
        commits: seen.commits,
        user_bytes: seen.user_bytes,
        flushes_per_commit: share(seen.counters.device_flushes, seen.commits),
        write_amplification: share(seen.counters.device_written_bytes, seen.user_bytes),
        amplification: Amplification::of(seen),
        counters: seen.counters,
        engine_counters: seen.own.clone(),
        latency: latency.collect(),
    }
}
