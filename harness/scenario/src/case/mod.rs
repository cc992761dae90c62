//! A failing case step by step: what each client asks, where each life of the device is cut, and what each cut leaves.
//!
//! A case is a chain of *lives*. A life begins with a power on and a recovery, which is read back and judged; then its requests
//! are sent, each client's in their order and one at a time; at the event that its crash names the plug is pulled, and exactly
//! the listed survivors are kept. The last life may go on to its end.
//!
//! Invariants: nothing of a case is drawn from a seed but latencies; every request makes sense in any state; a crash whose event
//! is never reached falls at the end of its life. So requests can be left out, crashes moved forward and survivors dropped, and what
//! remains is a case again: that is what a minimiser does with it.

mod text;

use kvsim_sim::StorageFault;
use kvsim_simdisk::{CrashKind, CrashState, Survivor};
use serde::{Deserialize, Serialize};

pub use text::CaseRequest;

/// The steps that lead to a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// One after the other, on one device; the first finds it blank.
    pub lives: Vec<CaseLife>,
    /// Faults that befall the device or the files, beside those of `[faults]` or `[files.faults]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<StorageFault>,
}

/// From a power on to the next cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseLife {
    /// What the clients ask, in the order in which they came to ask it.
    pub requests: Vec<CaseRequest>,
    /// It is closed in good order from this event on: no client asks any more, and the crash comes when all is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_after_event: Option<u64>,
    /// So many of the requests are sent, and answered, before the recovery is read back; it is read back first if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_after_requests: Option<u64>,
    /// How it ends; it goes on until all is quiet if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<CaseCrash>,
}

/// A cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCrash {
    /// It falls after so many events of its life.
    pub after_event: u64,
    /// Power or process.
    pub kind: CrashKind,
    /// What survives of what is pending, in this order; all else is lost. Without meaning for a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<Survivor>,
}

impl CaseLife {
    /// The requests that are sent before the recovery is read back, and the others.
    pub fn before_and_after_reading(&self) -> (&[CaseRequest], &[CaseRequest]) {
        let unread = usize::try_from(self.read_after_requests.unwrap_or(0)).unwrap_or(usize::MAX);
        self.requests.split_at(unread.min(self.requests.len()))
    }
}

impl CaseCrash {
    /// What the cut leaves.
    #[must_use]
    pub fn state(&self) -> CrashState {
        CrashState {
            survivors: self.survivors.clone(),
        }
    }
}

impl Case {
    /// How many requests it has.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.lives.iter().map(|life| life.requests.len()).sum()
    }

    /// All requests, process run by process run.
    pub fn all_requests(&self) -> impl Iterator<Item = &CaseRequest> {
        self.lives.iter().flat_map(|life| &life.requests)
    }

    /// How many crashes it has.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.lives
            .iter()
            .filter(|life| life.crash.is_some())
            .count() as u64
    }
}
