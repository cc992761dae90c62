//! Property 9: a guest that panics, traps, hangs, outgrows its memory or breaks the ABI.

use super::{Facts, Property, Symptom, Violation};
use kvsim_sim::GuestError;
use serde::{Deserialize, Serialize};

/// What the world saw a guest do that no guest may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestFault {
    /// It panicked.
    Panic {
        /// What it said.
        message: String,
    },
    /// It trapped: an out-of-bounds access, an `unreachable`, a stack overflow.
    Trap {
        /// What the sandbox said.
        message: String,
    },
    /// A call did not return within its fuel.
    OutOfFuel,
    /// It is busy for ever, and answers nothing.
    Endless {
        /// So many events long.
        events: u64,
    },
    /// It asked for more memory than the scenario gives.
    OutOfMemory,
    /// It broke the rules of the ABI.
    Abi {
        /// Which, and how.
        what: String,
    },
    /// Requests are unanswered, and no completion, arrival or wake-up will ever come.
    Stalled {
        /// How many.
        unanswered: u64,
    },
}

impl GuestFault {
    /// What a guest did wrong; nothing if the host failed and not the guest.
    #[must_use]
    pub fn of(error: &GuestError) -> Option<GuestFault> {
        Some(match error {
            GuestError::Panic(message) => GuestFault::Panic {
                message: message.clone(),
            },
            GuestError::Trap(message) => GuestFault::Trap {
                message: message.clone(),
            },
            GuestError::OutOfFuel { .. } => GuestFault::OutOfFuel,
            GuestError::Endless { events, .. } => GuestFault::Endless { events: *events },
            GuestError::OutOfMemory { .. } => GuestFault::OutOfMemory,
            GuestError::Abi(what) => GuestFault::Abi { what: what.clone() },
            other if other.is_finding() => GuestFault::Abi {
                what: other.to_string(),
            },
            _ => return None,
        })
    }
}

/// The violation of [`Property::SaneGuest`] that `fault` is; `crashes` had happened before, and `doing` says what the guest was
/// doing ("recovering", "working").
#[must_use]
pub fn insane(fault: &GuestFault, crashes: u64, doing: &str) -> Box<Violation> {
    let (symptom, what) = match fault {
        GuestFault::Panic { message } => (Symptom::Panic, format!("panicked: {message}")),
        GuestFault::Trap { message } => (Symptom::Trap, format!("trapped: {message}")),
        GuestFault::OutOfFuel => (
            Symptom::OutOfFuel,
            "did not return within its fuel: it hangs".to_owned(),
        ),
        GuestFault::Endless { events } => (
            Symptom::Endless,
            format!("is busy for ever: {events} events (`guest.events_per_answer`) and no answer"),
        ),
        GuestFault::OutOfMemory => (Symptom::OutOfMemory, "outgrew its memory".to_owned()),
        GuestFault::Abi { what } => (
            Symptom::AbiAbuse,
            format!("broke the rules of the ABI: {what}"),
        ),
        GuestFault::Stalled { unanswered } => (
            Symptom::Stalled,
            format!("leaves {unanswered} requests unanswered, and nothing will ever happen again"),
        ),
    };
    let facts = Facts {
        crashes,
        ..Facts::default()
    };
    Violation::new(
        Property::SaneGuest,
        symptom,
        format!("the guest, {doing} after {crashes} crashes, {what}"),
        facts,
    )
}

#[cfg(test)]
mod tests {
    use super::{GuestFault, insane};
    use crate::oracle::{Property, Symptom};

    /// Goal: each way to be insane is that property and says which. Method: one of each.
    #[test]
    fn every_fault_of_a_guest_is_named() {
        let text = || "x".to_owned();
        for (fault, symptom) in [
            (GuestFault::Panic { message: text() }, Symptom::Panic),
            (GuestFault::Trap { message: text() }, Symptom::Trap),
            (GuestFault::OutOfFuel, Symptom::OutOfFuel),
            (GuestFault::Endless { events: 9 }, Symptom::Endless),
            (GuestFault::OutOfMemory, Symptom::OutOfMemory),
            (GuestFault::Abi { what: text() }, Symptom::AbiAbuse),
            (GuestFault::Stalled { unanswered: 3 }, Symptom::Stalled),
        ] {
            let violation = insane(&fault, 2, "recovering");
            assert_eq!(
                (violation.property, violation.symptom),
                (Property::SaneGuest, symptom)
            );
            assert!(
                violation.sentence.contains("recovering after 2 crashes"),
                "{}",
                violation.sentence
            );
        }
    }
}
