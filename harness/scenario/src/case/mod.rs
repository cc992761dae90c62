//! A failing case step by step: what each client asks, where each process run is cut, and what each cut leaves.
//!
//! A case is a chain of *process runs*. A process run begins with a power on and a recovery, which is read back and
//! judged. Then its requests are sent, each client's in their order and one at a time. At the event that its crash
//! names, the plug is pulled, and exactly the listed persisted writes are kept. The last process run may go on to its
//! end.
//!
//! Invariants: nothing of a case is drawn from a seed but latencies. Every request makes sense in any state. A crash
//! whose event is never reached falls at the end of its process run. So a case remains a case if requests are left out,
//! crashes moved forward or persisted writes dropped. A minimiser does just that.

mod text;

use kvsim_sim::StorageFault;
use kvsim_simdisk::{CrashKind, CrashState, Persisted};
use serde::{Deserialize, Serialize};

pub use text::CaseRequest;

/// The steps that lead to a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// One after the other, on one device; the first finds it blank.
    #[serde(alias = "lives")]
    pub process_runs: Vec<CaseRun>,
    /// Faults that affect the device or the files, beside those of `[faults]` or `[files.faults]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<StorageFault>,
}

/// From a power on to the next cut.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseRun {
    /// What the clients ask, in the order in which they came to ask it.
    pub requests: Vec<CaseRequest>,
    /// It is closed cleanly from this event on: no client asks any more, and the crash comes when all is answered.
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
    /// It falls after so many events of its process run.
    pub after_event: u64,
    /// Power or process.
    pub kind: CrashKind,
    /// What survives of what is pending, in this order; all else is lost. Without meaning for a process.
    #[serde(default, alias = "survivors", skip_serializing_if = "Vec::is_empty")]
    pub persisted: Vec<Persisted>,
}

impl CaseRun {
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
            persisted: self.persisted.clone(),
        }
    }
}

impl Case {
    /// How many requests it has.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.process_runs
            .iter()
            .map(|process_run| process_run.requests.len())
            .sum()
    }

    /// All requests, process run by process run.
    pub fn all_requests(&self) -> impl Iterator<Item = &CaseRequest> {
        self.process_runs
            .iter()
            .flat_map(|process_run| &process_run.requests)
    }

    /// How many crashes it has.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.process_runs
            .iter()
            .filter(|process_run| process_run.crash.is_some())
            .count() as u64
    }

    /// Whether a process run of it is closed cleanly.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.process_runs
            .iter()
            .any(|process_run| process_run.close_after_event.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::Case;

    /// Goal: cases that were saved before their fields were renamed are still read. Method: the same case with both sets of names.
    #[test]
    fn former_names_of_fields_are_understood() {
        let case = |process_runs: &str, persisted: &str| -> Case {
            let text = format!(
                "[[{process_runs}]]\nrequests = [\"0 put a 1:40\"]\n[{process_runs}.crash]\nafter_event = 3\nkind = \"power\"\n{persisted} = [{{ id = 2, sectors = \"all\" }}]\n"
            );
            toml::from_str(&text).expect("it is a case")
        };
        let read = case("lives", "survivors");
        assert_eq!(read, case("process_runs", "persisted"));
        assert_eq!(
            read.process_runs[0]
                .crash
                .as_ref()
                .map(|crash| crash.persisted.len()),
            Some(1)
        );
    }
}
