//! The openings for programs, under a versioned schema name.

use kvsim_store::memory::Memory;
use serde::Serialize;

use super::report::time;
use super::{Cold, GETS, Opening, Row, Table};
use crate::counters::Counters;
use crate::numbers::whole;
use crate::rounds::Spread;

const SCHEMA: &str = "kvsim.openings/1";

/// All tables of one call.
#[derive(Debug, Serialize)]
pub struct Document {
    /// Name and version of the schema.
    schema: &'static str,
    /// Version of kvsim.
    kvsim: &'static str,
    /// One for each scenario.
    tables: Vec<TableJson>,
}

#[derive(Debug, Serialize)]
struct TableJson {
    /// Its name.
    scenario: String,
    /// When a write is acknowledged in the database that is opened after the crash.
    durability: crate::store::Durability,
    /// Keys that each database has.
    keys: u64,
    /// Bytes of these keys and their values.
    data_bytes: u64,
    /// Bytes of keys and values that are made durable before each kill, at least.
    log_bytes: u64,
    /// Keys that are read after each opening.
    gets: u64,
    /// All memory that the process of an engine could take, the page cache included; `null` where there was no bound.
    memory_limit_bytes: Option<u64>,
    /// The seed of the values, of the keys that are read, and of the moments of the kills.
    seed: u64,
    /// One for each engine.
    engines: Vec<EngineJson>,
}

#[derive(Debug, Serialize)]
struct EngineJson {
    /// Its name.
    name: &'static str,
    /// Its version.
    version: String,
    /// How it was set up.
    configuration: Vec<(String, String)>,
    /// The device under the file.
    device: Option<String>,
    /// What its figures rest on.
    caveat: Option<String>,
    /// What was durable and is not there, or is there and was never written.
    wrong: Option<String>,
    /// Why it could not be measured, or not as often as was asked for.
    failed: Option<String>,
    /// How long the openings took, in nanoseconds.
    open_ns: Option<Spread>,
    /// What its directory takes.
    space_bytes: u64,
    /// One for each opening.
    openings: Vec<OpeningJson>,
}

#[derive(Debug, Serialize)]
struct OpeningJson {
    /// Until the engine had opened the database.
    open_ns: u64,
    /// From then until the first get had its value.
    first_get_ns: u64,
    /// From then until all gets had theirs, one after the other.
    gets_ns: u64,
    /// From then until a write of another thread was durable.
    put_ns: u64,
    /// What the opening found in the system's memory.
    cold: Cold,
    /// The memory of the process when gets and put were done.
    memory: Option<Memory>,
    /// What system and device counted while it opened.
    counters_opening: Counters,
    /// What they counted from the opening's begin until gets and put were done.
    counters_until_used: Counters,
    /// The engine's own counts then.
    engine_counters: Vec<(String, u64)>,
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
    let of = &table.plan.of;
    TableJson {
        scenario: of.scenario.name.clone(),
        durability: of.durability,
        memory_limit_bytes: of.memory_bytes,
        keys: table.keys,
        data_bytes: table.data_bytes,
        log_bytes: table.plan.log_bytes,
        gets: GETS,
        seed: of.scenario.run.seeds.start,
        engines: table.rows.iter().map(engine).collect(),
    }
}

fn engine(row: &Row) -> EngineJson {
    EngineJson {
        name: row.engine,
        version: row.version.clone(),
        configuration: row.configuration.clone(),
        device: row.device.clone(),
        caveat: row.caveat.clone(),
        wrong: row.wrong.clone(),
        failed: row.failed.as_ref().map(ToString::to_string),
        open_ns: row.spread(|one| time(one.open)),
        space_bytes: row.space_bytes,
        openings: row.openings.iter().map(opening).collect(),
    }
}

fn opening(opening: &Opening) -> OpeningJson {
    let ns = |it| whole(time(it));
    OpeningJson {
        open_ns: ns(opening.open),
        first_get_ns: ns(opening.first_get),
        gets_ns: ns(opening.gets),
        put_ns: ns(opening.put),
        cold: opening.cold,
        memory: opening.memory,
        counters_opening: opening.opening,
        counters_until_used: opening.until_used,
        engine_counters: opening.own.clone(),
    }
}
