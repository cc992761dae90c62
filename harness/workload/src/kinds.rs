//! The ready-made workloads.
//!
//! YCSB A to F follow the property files of the YCSB core package (Cooper, Silberstein, Tam, Ramakrishnan and Sears,
//! *Benchmarking Cloud Serving Systems with YCSB*, SoCC 2010): their proportions, Zipfian requests with constant 0.99, `latest`
//! for D, and scans of 1 to 100 records, uniform, for E. Their records are 10 fields of 100 bytes; here one value of 1,000 bytes.

use super::config::{
    CountRange, KeyShape, OperationWeights, Popularity, ValueBytes, WorkloadConfig, WorkloadKind,
};

/// The two lengths of the large-value workload.
const LARGE_VALUES_BYTES: [u64; 2] = [64 << 10, 2_932 << 10];

/// The complete table of `kind`.
pub(crate) fn preset(kind: WorkloadKind) -> WorkloadConfig {
    let none = OperationWeights::default();
    let base = WorkloadConfig {
        kind,
        clients: 8,
        keys: 500,
        preload: 0,
        key_bytes: 16,
        key_shape: KeyShape::Numbered,
        value_bytes: ValueBytes::Fixed(1_024),
        compressible_percent: 0,
        durable_fraction: 1.0,
        think_time_ns: 0,
        popularity: Popularity::Uniform,
        zipf_theta: 0.99,
        scan_entries: CountRange { min: 1, max: 100 },
        scan_bytes_max: 1 << 20,
        reverse_fraction: 0.0,
        bounded_fraction: 0.0,
        batch_writes: CountRange { min: 2, max: 8 },
        batch_delete_fraction: 0.2,
        snapshot_reads: CountRange { min: 1, max: 3 },
        edge_cases: 0.0,
        at_limits: 0.0,
        operations: none,
    };
    let ycsb = |popularity, operations| WorkloadConfig {
        keys: 1_000,
        preload: 1_000,
        value_bytes: ValueBytes::Fixed(1_000),
        popularity,
        operations,
        ..base.clone()
    };
    match kind {
        WorkloadKind::Durable => WorkloadConfig {
            operations: OperationWeights { put: 1, ..none },
            ..base
        },
        WorkloadKind::YcsbA => ycsb(
            Popularity::Zipfian,
            OperationWeights {
                get: 50,
                put: 50,
                ..none
            },
        ),
        WorkloadKind::YcsbB => ycsb(
            Popularity::Zipfian,
            OperationWeights {
                get: 95,
                put: 5,
                ..none
            },
        ),
        WorkloadKind::YcsbC => ycsb(Popularity::Zipfian, OperationWeights { get: 100, ..none }),
        WorkloadKind::YcsbD => ycsb(
            Popularity::Latest,
            OperationWeights {
                get: 95,
                insert: 5,
                ..none
            },
        ),
        WorkloadKind::YcsbE => ycsb(
            Popularity::Zipfian,
            OperationWeights {
                scan: 95,
                insert: 5,
                ..none
            },
        ),
        WorkloadKind::YcsbF => ycsb(
            Popularity::Zipfian,
            OperationWeights {
                get: 50,
                read_modify_write: 50,
                ..none
            },
        ),
        WorkloadKind::WriteMix8020 => WorkloadConfig {
            operations: OperationWeights {
                put: 80,
                get: 20,
                ..none
            },
            ..base
        },
        WorkloadKind::LargeValues => WorkloadConfig {
            keys: 8,
            clients: 2,
            value_bytes: ValueBytes::InTurn(LARGE_VALUES_BYTES.to_vec()),
            scan_bytes_max: 8 << 20,
            operations: OperationWeights {
                put: 50,
                get: 50,
                ..none
            },
            ..base
        },
        WorkloadKind::DeleteHeavy => WorkloadConfig {
            keys: 100,
            operations: OperationWeights {
                put: 50,
                delete: 40,
                get: 8,
                scan: 2,
                ..none
            },
            ..base
        },
        WorkloadKind::Batch => WorkloadConfig {
            operations: OperationWeights {
                batch: 70,
                put: 10,
                delete: 5,
                get: 15,
                ..none
            },
            ..base
        },
        WorkloadKind::ScanMix => WorkloadConfig {
            keys: 200,
            durable_fraction: 0.5,
            scan_entries: CountRange { min: 1, max: 50 },
            reverse_fraction: 0.5,
            bounded_fraction: 0.25,
            operations: OperationWeights {
                put: 35,
                delete: 10,
                batch: 5,
                get: 10,
                scan: 25,
                snapshot: 10,
                sync: 5,
                ..none
            },
            ..base
        },
        WorkloadKind::Custom => base,
    }
}
