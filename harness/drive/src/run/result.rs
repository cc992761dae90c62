//! What one seed came to.

use kvsim_oracle::Violation;

use crate::stop::Stop;
use crate::tally::Tally;
use crate::timeline::Recording;

/// What is kept of a run's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracing {
    /// Their hash.
    HashOnly,
    /// All of them, a line each.
    Keep,
    /// All of them, with who asked what and what each cut did.
    Record,
}

/// How a seed ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedEnd {
    /// All crashes were done and nothing was violated.
    Done,
    /// The guest reported damage, and the scenario ends there.
    DamageReported,
    /// A property was violated.
    Violation(Box<Violation>),
    /// It took more events than the scenario grants.
    OutOfEvents,
    /// Nobody wanted it any more.
    Cancelled,
    /// The guest does not take its options.
    Rejected(String),
    /// Something of ours failed.
    InvalidRun(String),
}

impl SeedEnd {
    /// Whether a property was violated.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        matches!(self, SeedEnd::Violation(_))
    }
}

/// What one seed came to.
#[derive(Debug, Clone)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// How it ended.
    pub end: SeedEnd,
    /// What was counted.
    pub tally: Tally,
    /// A hash of all its events.
    pub trace_hash: String,
    /// The events, if they were kept.
    pub trace: Option<Vec<String>>,
    /// The traces of its devices, if they were recorded.
    pub recording: Option<Recording>,
}

/// Why a seed goes no further.
pub(super) enum Halt {
    Violation(Box<Violation>),
    Damaged,
    OutOfEvents,
    Cancelled,
    Rejected(String),
    Invalid(String),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Halt {
        match stop {
            Stop::Violation(violation) => Halt::Violation(violation),
            Stop::Damaged(_) | Stop::DeviceError(_) => Halt::Damaged,
            Stop::Rejected(message) => Halt::Rejected(message),
            Stop::Invalid(what) => Halt::Invalid(what),
            Stop::OutOfEvents => Halt::OutOfEvents,
            Stop::Cut => Halt::Invalid("a seed's run was cut as only a case is".to_owned()),
        }
    }
}

impl From<Box<Violation>> for Halt {
    fn from(violation: Box<Violation>) -> Halt {
        Halt::Violation(violation)
    }
}

/// The first event in which two runs of one seed differ.
#[must_use]
pub fn first_difference(one: &SeedResult, other: &SeedResult) -> Option<String> {
    let (Some(one), Some(other)) = (&one.trace, &other.trace) else {
        return None;
    };
    let at = one.iter().zip(other).position(|(one, other)| one != other);
    let at = at.or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))?;
    let shown = |trace: &[String]| {
        trace
            .get(at)
            .map_or("nothing more", String::as_str)
            .to_owned()
    };
    Some(format!(
        "event {at} is `{}` in one run and `{}` in another",
        shown(one),
        shown(other)
    ))
}

impl From<Halt> for SeedEnd {
    fn from(halt: Halt) -> SeedEnd {
        match halt {
            Halt::Violation(violation) => SeedEnd::Violation(violation),
            Halt::Damaged => SeedEnd::DamageReported,
            Halt::OutOfEvents => SeedEnd::OutOfEvents,
            Halt::Cancelled => SeedEnd::Cancelled,
            Halt::Rejected(message) => SeedEnd::Rejected(message),
            Halt::Invalid(what) => SeedEnd::InvalidRun(what),
        }
    }
}
