//! A deterministic model of a block device that loses, tears, reorders, fails and lies.
//!
//! Modelled: logical sectors above a volatile write cache. A write is *pending* when submitted, *complete* when its
//! completion is handed out, and *durable* when a flush that was submitted after its completion has completed, or when it
//! was write-through (or the device has no volatile cache) and has completed. A power cut keeps what is durable and, of the
//! rest, what a [`CrashState`] says; a crash state is legal only if the configured device could have left it.
//!
//! Invariants:
//! - pure: no clock, no thread, no I/O; time comes in as a number;
//! - each decision is drawn from the seed, the purpose and the number of the operation alone, so that switching one fault
//!   off does not move another;
//! - what is durable changes only by a fault that the configuration asks for and that [`FaultCounts`] has counted.

mod config;
mod counts;
mod crash;
mod damage;
mod damaged_writes;
mod device;
mod effects;
mod inject;
mod medium;
mod met;
mod op;
mod order;
mod persistence;
mod slowest;
mod timing;

pub use config::{
    Cache, ConfigError, CrashBias, DeviceConfig, FaultConfig, FlushKind, LatencyConfig,
    ScriptedFault, TimingConfig,
};
pub use counts::{DeviceStats, Failures, FaultCount, FaultCounts, FaultKind};
pub use device::Device;
pub use kvsim_crash::{
    CrashError, CrashKind, CrashReport, CrashState, CrashStates, Effect, Effects, Excerpt,
    FileRole, Image, Nanos, Persisted, Role, Sectors, Tears, rng,
};
pub use op::{Capabilities, Completion, DiskError, Op, OpId, OpNote, SubmitError};
pub use persistence::{PendingKind, PendingWrite, Persistence};
pub use slowest::Slowest;
