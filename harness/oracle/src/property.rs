//! The eleven properties that must hold after every recovery, by name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What must hold. The numbers and the order are those of the design and the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// 1: every acknowledged durable write reads back, with the right bytes.
    AcknowledgedDurable,
    /// 2: an unacknowledged write is wholly there or wholly not; a batch is atomic.
    AtomicWrites,
    /// 3: what survives is a prefix of the commit order.
    Prefix,
    /// 4: nothing comes back from the dead, and what one recovery has shown the next does not take back.
    NoResurrection,
    /// 5: scans and gets agree, in order, and a snapshot does not move.
    ReadsAgree,
    /// 6: recovering twice gives the same answer, and a crash during recovery changes nothing.
    RecoveryIdempotent,
    /// 7: work after recovery survives the next crash.
    WorkAfterRecovery,
    /// 8: damaged acknowledged data is reported, never returned as a value and never silently dropped.
    DamageReported,
    /// 9: the guest neither panics nor hangs, nor outgrows its memory.
    #[serde(alias = "sane_guest")] // its name in cases that were saved by version 0.1.0
    GuestBehaves,
    /// 10: a well-formed request is refused only for a reason that the oracle knows; an ill-formed one is always refused and changes nothing.
    NoFalseRefusal,
    /// 11: the space of dead data becomes usable again.
    SpaceReturns,
}

impl Property {
    /// All of them, in order.
    pub const ALL: [Property; 11] = [
        Property::AcknowledgedDurable,
        Property::AtomicWrites,
        Property::Prefix,
        Property::NoResurrection,
        Property::ReadsAgree,
        Property::RecoveryIdempotent,
        Property::WorkAfterRecovery,
        Property::DamageReported,
        Property::GuestBehaves,
        Property::NoFalseRefusal,
        Property::SpaceReturns,
    ];

    /// The name used in scenarios, results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Property::AcknowledgedDurable => "acknowledged_durable",
            Property::AtomicWrites => "atomic_writes",
            Property::Prefix => "prefix",
            Property::NoResurrection => "no_resurrection",
            Property::ReadsAgree => "reads_agree",
            Property::RecoveryIdempotent => "recovery_idempotent",
            Property::WorkAfterRecovery => "work_after_recovery",
            Property::DamageReported => "damage_reported",
            Property::GuestBehaves => "guest_behaves",
            Property::NoFalseRefusal => "no_false_refusal",
            Property::SpaceReturns => "space_returns",
        }
    }

    /// What it demands, in one line.
    #[must_use]
    pub fn demand(self) -> &'static str {
        match self {
            Property::AcknowledgedDurable => {
                "every acknowledged durable write reads back, with the right bytes"
            }
            Property::AtomicWrites => "a write, and so a batch, is wholly there or wholly not",
            Property::Prefix => "what survives is a prefix of the commit order",
            Property::NoResurrection => {
                "nothing comes back from the dead, and no recovery takes back what one before it showed"
            }
            Property::ReadsAgree => "scans and gets agree, in order, and a snapshot does not move",
            Property::RecoveryIdempotent => "recovering twice gives the same answer",
            Property::WorkAfterRecovery => "work after a recovery survives the next crash",
            Property::DamageReported => {
                "damaged data is reported, never returned and never silently dropped"
            }
            Property::GuestBehaves => "the guest neither panics nor hangs, nor outgrows its memory",
            Property::NoFalseRefusal => {
                "a request is refused only for a reason, and an ill-formed one always is"
            }
            Property::SpaceReturns => "the space of dead data becomes usable again",
        }
    }

    /// The property of this name. `sane_guest`, the former name of `guest_behaves`, is understood.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Property> {
        if name == "sane_guest" {
            return Some(Property::GuestBehaves);
        }
        Property::ALL
            .into_iter()
            .find(|property| property.name() == name)
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Property;

    /// Goal: a name typed by a person and one read from a file mean the same. Method: all of them, through both ways.
    #[test]
    fn the_name_is_the_serialised_form() {
        for property in Property::ALL {
            assert_eq!(
                serde_json::to_string(&property).unwrap(),
                format!("\"{}\"", property.name())
            );
            assert_eq!(Property::from_name(property.name()), Some(property));
        }
        assert_eq!(Property::from_name("prefixes"), None);
    }

    /// Goal: cases that were saved before a property was renamed are still read. Method: the former name, through both ways.
    #[test]
    fn a_former_name_is_understood() {
        let read: Property = serde_json::from_str("\"sane_guest\"").unwrap();
        assert_eq!(read, Property::GuestBehaves);
        assert_eq!(Property::from_name("sane_guest"), Some(read));
    }
}
