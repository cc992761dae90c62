//! The scenario's `[workload]` table.
//!
//! `kind` names a workload and so sets every other field; a field that the scenario states wins over its kind. What is kept,
//! printed and run is the table with all fields filled in.

use super::kinds::preset;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Largest key that the guest ABI allows.
pub const KEY_BYTES_MAX: usize = 1_024;
const _: () = assert!(KEY_BYTES_MAX as u64 == kvsim_api::limits::KEY_BYTES_SURE);
/// Largest value that a workload may write.
pub const VALUE_BYTES_MAX: u64 = 64 << 20;
/// Most mutations in one batch.
pub const BATCH_WRITES_MAX: u32 = 4_096;

/// A ready-made workload.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// Puts only, each acknowledged when durable.
    #[default]
    Durable,
    /// YCSB A: half reads, half updates.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB C: reads only.
    YcsbC,
    /// YCSB D: 95 % reads of the latest, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % short scans, 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half read-modify-writes.
    YcsbF,
    /// 80 % puts, 20 % gets, uniform.
    #[serde(rename = "write_mix_80_20")]
    WriteMix8020,
    /// Puts and gets of values of 64 KiB and 2,932 KiB in turn.
    LargeValues,
    /// Half puts, nearly as many deletes.
    DeleteHeavy,
    /// Mostly batches of puts and deletes.
    Batch,
    /// Scans both ways and snapshots that are read again, amid puts and deletes.
    ScanMix,
    /// Whatever `operations` says.
    Custom,
}

impl WorkloadKind {
    /// All of them.
    pub const ALL: [WorkloadKind; 13] = [
        WorkloadKind::Durable,
        WorkloadKind::YcsbA,
        WorkloadKind::YcsbB,
        WorkloadKind::YcsbC,
        WorkloadKind::YcsbD,
        WorkloadKind::YcsbE,
        WorkloadKind::YcsbF,
        WorkloadKind::WriteMix8020,
        WorkloadKind::LargeValues,
        WorkloadKind::DeleteHeavy,
        WorkloadKind::Batch,
        WorkloadKind::ScanMix,
        WorkloadKind::Custom,
    ];
}

/// How often each operation is drawn, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperationWeights {
    /// Sets a key of the key space.
    pub put: u32,
    /// Sets a key that was never written before.
    pub insert: u32,
    /// Removes a key.
    pub delete: u32,
    /// Reads a key.
    pub get: u32,
    /// Reads a range.
    pub scan: u32,
    /// Writes several keys at once.
    pub batch: u32,
    /// Reads a key, then sets it.
    pub read_modify_write: u32,
    /// Takes a snapshot, reads it, writes, reads it again, and releases it.
    pub snapshot: u32,
    /// Makes everything accepted so far durable.
    pub sync: u32,
}

impl OperationWeights {
    /// The sum of all.
    #[must_use]
    pub fn total(&self) -> u64 {
        let OperationWeights {
            put,
            insert,
            delete,
            get,
            scan,
            batch,
            read_modify_write,
            snapshot,
            sync,
        } = *self;
        [
            put,
            insert,
            delete,
            get,
            scan,
            batch,
            read_modify_write,
            snapshot,
            sync,
        ]
        .into_iter()
        .map(u64::from)
        .sum()
    }
}

/// Which keys are drawn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Popularity {
    /// Each as often as any other.
    #[default]
    Uniform,
    /// Zipfian, the popular keys scattered over the key space.
    Zipfian,
    /// Zipfian, the most popular being the one inserted last.
    Latest,
}

/// What keys look like.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum KeyShape {
    /// `k` and a number, all of one length.
    #[default]
    Numbered,
    /// Of all lengths and any bytes: one byte, prefixes of each other, long ones that differ at their end.
    Mixed,
}

/// A length with a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedBytes {
    /// The length.
    pub bytes: u64,
    /// How often, relative to the others.
    pub weight: u32,
}

/// How long values are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a number of bytes, a table { min, max }, a list of lengths or a list of tables { bytes, weight }"
)]
pub enum ValueBytes {
    /// All of one length: `1024`.
    Fixed(u64),
    /// One after the other, over and over: `[65536, 3002368]`.
    InTurn(Vec<u64>),
    /// Drawn by weight: `[{ bytes = 100, weight = 9 }, { bytes = 100000, weight = 1 }]`.
    Weighted(Vec<WeightedBytes>),
    // After the lists: serde would take `[1, 2]` for a table's fields.
    /// Uniform from `min` to `max`: `{ min = 1, max = 4096 }`.
    Range(ByteRange),
}

/// Lengths from `min` to `max`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
}

/// Counts from `min` to `max`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountRange {
    /// The smallest.
    pub min: u32,
    /// The largest.
    pub max: u32,
}

/// The `[workload]` table, complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stated")]
pub struct WorkloadConfig {
    /// The ready-made workload that the other fields begin from.
    pub kind: WorkloadKind,
    /// Clients, each with one operation in flight.
    pub clients: u32,
    /// Keys in the key space.
    pub keys: u64,
    /// Records written before the clients begin: keys 0 to `preload` − 1.
    pub preload: u64,
    /// Length of a key; of the longest where they differ.
    pub key_bytes: u32,
    /// What keys look like.
    pub key_shape: KeyShape,
    /// Length of a value.
    pub value_bytes: ValueBytes,
    /// Share of each value that compresses away, in percent.
    pub compressible_percent: u8,
    /// Fraction of the writes that are acknowledged only when durable.
    pub durable_fraction: f64,
    /// Virtual time that a client waits between an answer and its next request.
    pub think_time_ns: u64,
    /// Which keys are drawn.
    pub popularity: Popularity,
    /// Skew of the Zipfian distributions, from 0 to below 1.
    pub zipf_theta: f64,
    /// Entries that a scan asks for.
    pub scan_entries: CountRange,
    /// Bytes that a scan asks for at most.
    pub scan_bytes_max: u32,
    /// Fraction of the scans that go from the largest key to the smallest.
    pub reverse_fraction: f64,
    /// Fraction of the scans with a bound at both ends.
    pub bounded_fraction: f64,
    /// Mutations in a batch.
    pub batch_writes: CountRange,
    /// Fraction of a batch's mutations that delete.
    pub batch_delete_fraction: f64,
    /// How often a snapshot is read again before it is released.
    pub snapshot_reads: CountRange,
    /// Fraction of the operations before which a client sends an edge case: an ill-formed request, or a well-formed one at a limit.
    pub edge_cases: f64,
    /// Fraction of the operations before which a client sends a well-formed request at a limit: the longest and shortest keys, the largest batch.
    pub at_limits: f64,
    /// How often each operation is drawn.
    pub operations: OperationWeights,
}

impl Default for WorkloadConfig {
    fn default() -> Self {
        preset(WorkloadKind::default())
    }
}

/// The table as a person writes it: whatever is not stated comes from the kind.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename = "workload")]
#[derive(Default)]
struct Stated {
    kind: WorkloadKind,
    clients: Option<u32>,
    keys: Option<u64>,
    preload: Option<u64>,
    key_bytes: Option<u32>,
    key_shape: Option<KeyShape>,
    value_bytes: Option<ValueBytes>,
    compressible_percent: Option<u8>,
    durable_fraction: Option<f64>,
    think_time_ns: Option<u64>,
    popularity: Option<Popularity>,
    zipf_theta: Option<f64>,
    scan_entries: Option<CountRange>,
    scan_bytes_max: Option<u32>,
    reverse_fraction: Option<f64>,
    bounded_fraction: Option<f64>,
    batch_writes: Option<CountRange>,
    batch_delete_fraction: Option<f64>,
    snapshot_reads: Option<CountRange>,
    edge_cases: Option<f64>,
    at_limits: Option<f64>,
    operations: Option<OperationWeights>,
}

impl From<Stated> for WorkloadConfig {
    fn from(stated: Stated) -> Self {
        let base = preset(stated.kind);
        let keys = stated.keys.unwrap_or(base.keys);
        // A kind that begins with all records loaded does so whatever their number.
        let preload = if base.preload == base.keys {
            keys
        } else {
            base.preload
        };
        WorkloadConfig {
            kind: stated.kind,
            clients: stated.clients.unwrap_or(base.clients),
            keys,
            preload: stated.preload.unwrap_or(preload),
            key_bytes: stated.key_bytes.unwrap_or(base.key_bytes),
            key_shape: stated.key_shape.unwrap_or(base.key_shape),
            value_bytes: stated.value_bytes.unwrap_or(base.value_bytes),
            compressible_percent: stated
                .compressible_percent
                .unwrap_or(base.compressible_percent),
            durable_fraction: stated.durable_fraction.unwrap_or(base.durable_fraction),
            think_time_ns: stated.think_time_ns.unwrap_or(base.think_time_ns),
            popularity: stated.popularity.unwrap_or(base.popularity),
            zipf_theta: stated.zipf_theta.unwrap_or(base.zipf_theta),
            scan_entries: stated.scan_entries.unwrap_or(base.scan_entries),
            scan_bytes_max: stated.scan_bytes_max.unwrap_or(base.scan_bytes_max),
            reverse_fraction: stated.reverse_fraction.unwrap_or(base.reverse_fraction),
            bounded_fraction: stated.bounded_fraction.unwrap_or(base.bounded_fraction),
            batch_writes: stated.batch_writes.unwrap_or(base.batch_writes),
            batch_delete_fraction: stated
                .batch_delete_fraction
                .unwrap_or(base.batch_delete_fraction),
            snapshot_reads: stated.snapshot_reads.unwrap_or(base.snapshot_reads),
            edge_cases: stated.edge_cases.unwrap_or(base.edge_cases),
            at_limits: stated.at_limits.unwrap_or(base.at_limits),
            operations: stated.operations.unwrap_or(base.operations),
        }
    }
}

/// A workload that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadError {
    /// The field of `[workload]`.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workload.{} {}", self.field, self.message)
    }
}

impl std::error::Error for WorkloadError {}

impl WorkloadConfig {
    /// The workload of this kind, with nothing changed.
    #[must_use]
    pub fn of_kind(kind: WorkloadKind) -> WorkloadConfig {
        preset(kind)
    }

    /// Whether the workload can be run.
    ///
    /// # Errors
    /// The first field that makes it impossible.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        let wrong = |field, message: &str| {
            Err(WorkloadError {
                field,
                message: message.to_owned(),
            })
        };
        if !(1..=1_024).contains(&self.clients) {
            return wrong("clients", "must be from 1 to 1024");
        }
        if !(1..=u64::from(u32::MAX)).contains(&self.keys) {
            return wrong("keys", "must be from 1 to 4294967295");
        }
        if self.preload > self.keys {
            return wrong("preload", "must not be more than `keys`");
        }
        if self.key_bytes as usize > KEY_BYTES_MAX {
            return wrong("key_bytes", "must be at most 1024");
        }
        if self.key_bytes < super::keyspace::key_bytes_min(self) {
            let least = super::keyspace::key_bytes_min(self);
            return Err(WorkloadError {
                field: "key_bytes",
                message: format!("must be at least {least} for so many keys"),
            });
        }
        self.validate_values()?;
        for (field, fraction) in [
            ("durable_fraction", self.durable_fraction),
            ("reverse_fraction", self.reverse_fraction),
            ("bounded_fraction", self.bounded_fraction),
            ("batch_delete_fraction", self.batch_delete_fraction),
            ("edge_cases", self.edge_cases),
            ("at_limits", self.at_limits),
        ] {
            if !(0.0..=1.0).contains(&fraction) {
                return wrong(field, "must be from 0.0 to 1.0");
            }
        }
        if !(0.0..1.0).contains(&self.zipf_theta) {
            return wrong("zipf_theta", "must be from 0.0 to below 1.0");
        }
        if self.compressible_percent > 100 {
            return wrong("compressible_percent", "must be at most 100");
        }
        for (field, range) in [
            ("scan_entries", self.scan_entries),
            ("snapshot_reads", self.snapshot_reads),
        ] {
            if range.min == 0 || range.min > range.max {
                return wrong(field, "needs 1 <= min <= max");
            }
        }
        // A batch may be empty: durable, it promises that all before it is durable.
        if self.batch_writes.min > self.batch_writes.max {
            return wrong("batch_writes", "needs min <= max");
        }
        if self.batch_writes.max > BATCH_WRITES_MAX {
            return wrong("batch_writes", "must be at most 4096");
        }
        if self.scan_bytes_max == 0 {
            return wrong("scan_bytes_max", "must be at least 1");
        }
        if self.operations.total() == 0 {
            return wrong(
                "operations",
                "must name at least one operation with a weight above 0",
            );
        }
        Ok(())
    }

    fn validate_values(&self) -> Result<(), WorkloadError> {
        let wrong = |message: String| {
            Err(WorkloadError {
                field: "value_bytes",
                message,
            })
        };
        let longest = match &self.value_bytes {
            ValueBytes::Fixed(bytes) => *bytes,
            ValueBytes::Range(range) if range.min > range.max => {
                return wrong("needs min <= max".into());
            }
            ValueBytes::Range(range) => range.max,
            ValueBytes::InTurn(lengths) if lengths.is_empty() => {
                return wrong("must name at least one length".into());
            }
            ValueBytes::InTurn(lengths) => lengths.iter().copied().max().unwrap_or(0),
            ValueBytes::Weighted(lengths) if lengths.iter().all(|length| length.weight == 0) => {
                return wrong("must name at least one length with a weight above 0".into());
            }
            ValueBytes::Weighted(lengths) => {
                lengths.iter().map(|length| length.bytes).max().unwrap_or(0)
            }
        };
        if longest > VALUE_BYTES_MAX {
            return wrong(format!("must be at most {VALUE_BYTES_MAX}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{OperationWeights, ValueBytes, WorkloadConfig, WorkloadKind};

    fn parse(text: &str) -> Result<WorkloadConfig, toml::de::Error> {
        toml::from_str(text)
    }

    /// Goal: every kind can be run as it is, and is printed as a table that means the same. Method: all kinds but custom.
    #[test]
    fn every_kind_is_valid_and_survives_being_printed() {
        for kind in WorkloadKind::ALL {
            let config = WorkloadConfig::of_kind(kind);
            assert_eq!(
                config.validate().is_ok(),
                kind != WorkloadKind::Custom,
                "{kind:?}"
            );
            assert_eq!(parse(&toml::to_string(&config).unwrap()).unwrap(), config);
        }
    }

    /// Goal: what is stated wins over the kind, and the rest follows from it. Method: one field of each sort.
    #[test]
    fn what_is_stated_wins_over_the_kind() {
        let config =
            parse("kind = 'ycsb_b'\nkeys = 77\nvalue_bytes = [1, 2]\n[operations]\nget = 3")
                .unwrap();
        assert_eq!(config.preload, 77);
        assert_eq!(config.value_bytes, ValueBytes::InTurn(vec![1, 2]));
        assert_eq!(
            config.operations,
            OperationWeights {
                get: 3,
                ..OperationWeights::default()
            }
        );
        assert_eq!(config.zipf_theta, 0.99);
        assert_eq!(
            parse("").unwrap(),
            WorkloadConfig::of_kind(WorkloadKind::Durable)
        );
        assert_eq!(
            parse("value_bytes = [{ bytes = 5, weight = 1 }]")
                .unwrap()
                .value_bytes,
            ValueBytes::Weighted(vec![crate::config::WeightedBytes {
                bytes: 5,
                weight: 1
            }])
        );
    }

    /// Goal: no impossible workload is run. Method: one wrong value per field, and the name of the field in the error.
    #[test]
    fn impossible_workloads_are_refused_by_field() {
        for (field, text) in [
            ("clients", "clients = 0"),
            ("keys", "keys = 0"),
            ("preload", "keys = 3\npreload = 4"),
            ("key_bytes", "key_bytes = 2000"),
            ("key_bytes", "key_bytes = 4\nkeys = 10000"),
            ("value_bytes", "value_bytes = { min = 2, max = 1 }"),
            ("value_bytes", "value_bytes = 100000000"),
            ("value_bytes", "value_bytes = []"),
            ("value_bytes", "value_bytes = [{ bytes = 2, weight = 0 }]"),
            ("durable_fraction", "durable_fraction = 1.5"),
            ("durable_fraction", "durable_fraction = nan"),
            ("reverse_fraction", "reverse_fraction = -0.1"),
            ("bounded_fraction", "bounded_fraction = 7.0"),
            ("batch_delete_fraction", "batch_delete_fraction = 2.0"),
            ("edge_cases", "edge_cases = 1.1"),
            ("zipf_theta", "zipf_theta = 1.0"),
            ("compressible_percent", "compressible_percent = 101"),
            ("scan_entries", "scan_entries = { min = 0, max = 2 }"),
            ("batch_writes", "batch_writes = { min = 1, max = 100000 }"),
            ("snapshot_reads", "snapshot_reads = { min = 3, max = 2 }"),
            ("scan_bytes_max", "scan_bytes_max = 0"),
            ("operations", "kind = 'custom'"),
        ] {
            let error = parse(text).unwrap().validate().expect_err(text);
            assert_eq!(error.field, field, "{text}");
        }
        assert!(parse("client = 1").is_err());
        assert!(
            parse("value_bytes = 'big'")
                .unwrap_err()
                .to_string()
                .contains("a number of bytes")
        );
    }
}
