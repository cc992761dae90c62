//! What a simulated device and a simulated file system have in common: effects that are pending, what a crash leaves of them, bytes that
//! are shared between copies, the timing of a device, and random numbers.
//!
//! A storage model keeps a list of *pending effects*, each with a number. A crash state names those that persist ([`CrashState`]), whole or
//! in part. Whether a state is possible is for the model to say ([`CrashError`]).
//!
//! Invariants:
//! - pure: no clock, no thread, no I/O;
//! - a crash state is a value: it can be drawn, listed, written down, replayed and made smaller.

pub mod config;
pub mod draw;
mod effects;
mod image;
pub mod ranges;
mod report;
pub mod rng;
mod state;
pub mod timing;

pub use config::{ConfigError, CrashBias};
pub use effects::{CrashStates, Effect, Effects, FileRole, Role};
pub use image::{Excerpt, Image};
pub use report::{CrashError, CrashReport, Tears};
pub use state::{CrashKind, CrashState, Fate, Persisted, Sectors};
pub use timing::{LatencyConfig, TimingConfig};

/// Virtual time and durations, in nanoseconds.
pub type Nanos = u64;
