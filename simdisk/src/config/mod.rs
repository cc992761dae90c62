//! What a device is and how it misbehaves: the `[device]` and `[faults]` tables of a scenario.
//!
//! Units are in the names; probabilities are from 0 to 1. Every field has a default; the default device is honest.

mod device;
mod faults;

pub use device::{Cache, DeviceConfig, FlushKind};
pub use faults::{FaultConfig, ScriptedFault};
pub use kvsim_crash::config::{ConfigError, CrashBias};
use kvsim_crash::config::{probability, wrong};
pub use kvsim_crash::timing::{LatencyConfig, TimingConfig};
