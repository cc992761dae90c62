//! What clients do: streams of requests that follow from a seed, as `[workload]` of a scenario says. Begin with [`Workload`].

mod at_limits;
mod client;
mod config;
mod edge;
mod keyspace;
mod kinds;
mod maker;
mod offered;
mod step;
#[cfg(test)]
mod tests;
mod workload;
pub mod zipf;

pub use config::{
    BATCH_WRITES_MAX, ByteRange, CountRange, KEY_BYTES_MAX, KeyShape, OperationWeights, Popularity,
    VALUE_BYTES_MAX, ValueBytes, WeightedBytes, WorkloadConfig, WorkloadError, WorkloadKind,
};
pub use step::{ClientId, OpKind, PRELOAD_WRITER, Step};
pub use workload::Workload;
