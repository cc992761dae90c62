//! What a device is and how it misbehaves: the `[device]` and `[faults]` tables of a scenario.
//!
//! Units are in the names; probabilities are from 0 to 1. Every field has a default; the default device is honest.

mod device;
mod faults;
mod timing;

pub use device::{Cache, DeviceConfig, FlushKind};
pub use faults::{CrashBias, FaultConfig, ScriptedFault};
pub use timing::{LatencyConfig, TimingConfig};

/// A value out of range or an impossible combination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {message}")]
#[non_exhaustive]
pub struct ConfigError {
    /// Dotted path of the field, e.g. `device.sector_bytes`.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

fn wrong<T>(field: &str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        field: field.to_owned(),
        message: message.into(),
    })
}

fn probability(field: &str, value: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    wrong(
        field,
        format!("is {value}; a probability is from 0.0 to 1.0"),
    )
}
