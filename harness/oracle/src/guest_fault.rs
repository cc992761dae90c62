//! Property 9: a guest that panics, traps, hangs, outgrows its memory or breaks the ABI.

use crate::property::Property;
use crate::violation::{Facts, Symptom, Violation};
use kvsim_api::units::nanoseconds;
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
        /// The functions that were running, innermost first, if the module names them.
        stack: Vec<String>,
    },
    /// It trapped: an out-of-bounds access, an `unreachable`, a stack overflow.
    Trap {
        /// What the sandbox said.
        message: String,
        /// The functions that were running, innermost first, if the module names them.
        stack: Vec<String>,
    },
    /// A call did not return within its fuel.
    OutOfFuel {
        /// The functions that were running, innermost first, if the module names them.
        stack: Vec<String>,
    },
    /// It is busy for ever, and answers nothing.
    Endless {
        /// So many events long.
        events: u64,
    },
    /// It waits for its timer while nothing is under way, and answers nothing.
    Idle {
        /// So many virtual nanoseconds long.
        ns: u64,
    },
    /// It asked for more memory than the scenario gives.
    OutOfMemory {
        /// The functions that were running, innermost first, if the module names them.
        stack: Vec<String>,
    },
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
            GuestError::Panic { message, stack } => GuestFault::Panic {
                message: message.clone(),
                stack: stack.0.clone(),
            },
            GuestError::Trap(trapped) => GuestFault::Trap {
                message: trapped.to_string(),
                stack: trapped.stack.0.clone(),
            },
            GuestError::OutOfFuel { stack, .. } => GuestFault::OutOfFuel {
                stack: stack.0.clone(),
            },
            GuestError::Endless { events, .. } => GuestFault::Endless { events: *events },
            GuestError::Idle { ns, .. } => GuestFault::Idle { ns: *ns },
            GuestError::OutOfMemory { stack, .. } => GuestFault::OutOfMemory {
                stack: stack.0.clone(),
            },
            GuestError::Abi(what) => GuestFault::Abi { what: what.clone() },
            other if other.is_finding() => GuestFault::Abi {
                what: other.to_string(),
            },
            _ => return None,
        })
    }
}

/// The violation of [`Property::GuestBehaves`] that `fault` is; `crashes` had happened before, and `doing` says what the guest was
/// doing ("recovering", "working").
#[must_use]
pub fn misbehaved(fault: &GuestFault, crashes: u64, doing: &str) -> Box<Violation> {
    let (symptom, what) = match fault {
        GuestFault::Panic { message, .. } => (Symptom::Panic, format!("panicked: {message}")),
        GuestFault::Trap { message, .. } => (Symptom::Trap, format!("trapped: {message}")),
        GuestFault::OutOfFuel { stack } => {
            let place = stack
                .first()
                .map_or_else(String::new, |function| format!(", in `{function}`"));
            let what = format!("did not return within its fuel: it hangs{place}");
            (Symptom::OutOfFuel, what)
        }
        GuestFault::Endless { events } => (
            Symptom::Endless,
            format!("is busy for ever: {events} events (`guest.events_per_answer`) and no answer"),
        ),
        GuestFault::Idle { ns } => (
            Symptom::Idle,
            format!(
                "sleeps: for more than {} no operation was under way (`guest.idle_ns_per_answer`), and no answer came to a request",
                nanoseconds(*ns)
            ),
        ),
        GuestFault::OutOfMemory { .. } => (Symptom::OutOfMemory, "outgrew its memory".to_owned()),
        GuestFault::Abi { what } => (
            Symptom::AbiAbuse,
            format!("broke the rules of the ABI: {what}"),
        ),
        GuestFault::Stalled { unanswered } => (
            Symptom::Stalled,
            format!("leaves {unanswered} requests unanswered, and nothing will ever happen again"),
        ),
    };
    let stack = match fault {
        GuestFault::Panic { stack, .. }
        | GuestFault::Trap { stack, .. }
        | GuestFault::OutOfFuel { stack }
        | GuestFault::OutOfMemory { stack } => stack.clone(),
        _ => Vec::new(),
    };
    let facts = Facts {
        crashes,
        stack,
        ..Facts::default()
    };
    let crashes = match crashes {
        0 => "before any crash".to_owned(),
        1 => "after 1 crash".to_owned(),
        many => format!("after {many} crashes"),
    };
    Violation::new(
        Property::GuestBehaves,
        symptom,
        format!("the guest, {doing} {crashes}, {what}"),
        facts,
    )
}

#[cfg(test)]
mod tests {
    use super::{GuestFault, misbehaved};
    use crate::property::Property;
    use crate::violation::Symptom;

    /// Goal: each way to misbehave is that property and says which. Method: one of each.
    #[test]
    fn every_fault_of_a_guest_is_named() {
        let text = || "x".to_owned();
        for (fault, symptom) in [
            (
                GuestFault::Panic {
                    message: text(),
                    stack: Vec::new(),
                },
                Symptom::Panic,
            ),
            (
                GuestFault::Trap {
                    message: text(),
                    stack: vec!["f".to_owned()],
                },
                Symptom::Trap,
            ),
            (
                GuestFault::OutOfFuel { stack: Vec::new() },
                Symptom::OutOfFuel,
            ),
            (GuestFault::Endless { events: 9 }, Symptom::Endless),
            (GuestFault::Idle { ns: 9 }, Symptom::Idle),
            (
                GuestFault::OutOfMemory { stack: Vec::new() },
                Symptom::OutOfMemory,
            ),
            (GuestFault::Abi { what: text() }, Symptom::AbiAbuse),
            (GuestFault::Stalled { unanswered: 3 }, Symptom::Stalled),
        ] {
            let violation = misbehaved(&fault, 2, "recovering");
            assert_eq!(
                (violation.property, violation.symptom),
                (Property::GuestBehaves, symptom)
            );
            assert!(
                violation.sentence.contains("recovering after 2 crashes"),
                "{}",
                violation.sentence
            );
        }
    }

    /// Goal: a hang says where, in its sentence and as facts. Method: one with two functions, one without names.
    #[test]
    fn a_hang_names_its_function() {
        let stack = vec!["replay::follow".to_owned(), "kv_open".to_owned()];
        let named = misbehaved(
            &GuestFault::OutOfFuel {
                stack: stack.clone(),
            },
            1,
            "recovering",
        );
        assert_eq!(
            named.sentence,
            "the guest, recovering after 1 crash, did not return within its fuel: it hangs, in `replay::follow`"
        );
        assert_eq!(named.facts.stack, stack);
        let unnamed = misbehaved(&GuestFault::OutOfFuel { stack: Vec::new() }, 0, "working");
        assert!(
            unnamed.sentence.ends_with("it hangs"),
            "{}",
            unnamed.sentence
        );
    }
}
