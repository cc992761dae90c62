//! Why a process run ends before all is asked and answered.

use kvsim_oracle::{GuestFault, Violation, misbehaved};
use kvsim_sim::GuestError;

/// Why a process run ended early.
#[derive(Debug)]
pub enum Stop {
    /// A property does not hold.
    Violation(Box<Violation>),
    /// The guest reports damage, and the device's faults explain it.
    Damaged(String),
    /// The guest met a device error while it opened.
    DeviceError(String),
    /// The guest does not take its options.
    Rejected(String),
    /// Something of ours failed.
    Invalid(String),
    /// It takes too many events.
    OutOfEvents,
    /// The event has come at which it is to be cut.
    Cut,
}

impl Stop {
    /// What a guest's failure means, `crashes` crashes after the first opening; `doing` is what the guest was at.
    pub(crate) fn of(error: &GuestError, crashes: u64, doing: &str) -> Stop {
        match GuestFault::of(error) {
            Some(fault) => Stop::Violation(misbehaved(&fault, crashes, doing)),
            None => Stop::Invalid(error.to_string()),
        }
    }
}

impl From<Box<Violation>> for Stop {
    fn from(violation: Box<Violation>) -> Stop {
        Stop::Violation(violation)
    }
}
