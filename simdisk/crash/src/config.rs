//! Errors of configurations, and how a random power cut chooses: the parts that the tables of a device and of a file system share.

use serde::{Deserialize, Serialize};

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

/// An error at a field.
///
/// # Errors
/// Always: this one.
pub fn wrong<T>(field: &str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        field: field.to_owned(),
        message: message.into(),
    })
}

/// Checks that a field is a probability.
///
/// # Errors
/// If it is not from 0 to 1.
pub fn probability(field: &str, value: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    wrong(
        field,
        format!("is {value}; a probability is from 0.0 to 1.0"),
    )
}

/// How a random power cut chooses what survives: the relative weights of the ways to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrashBias {
    /// Nothing that is not durable.
    pub none: u32,
    /// Everything.
    pub all: u32,
    /// Everything but one write.
    pub all_but_one: u32,
    /// One write alone.
    pub one: u32,
    /// The writes up to some point, in order of submission.
    pub prefix: u32,
    /// Each write on the toss of a coin.
    pub subset: u32,
}

impl Default for CrashBias {
    fn default() -> Self {
        CrashBias {
            none: 2,
            all: 2,
            all_but_one: 2,
            one: 2,
            prefix: 2,
            subset: 5,
        }
    }
}
