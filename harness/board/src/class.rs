//! The classes of verdicts.

use serde::{Deserialize, Serialize};

use kvsim_oracle::{Facts, Symptom, Violation};

/// What a cell of the board comes to, or one finding. In the order of severity: the later counts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictClass {
    /// No state within the bounds breaks a property.
    CleanWithinBounds,
    /// Nothing was acknowledged, or no crash point had anything to lose: it proves nothing.
    ProvesNothing,
    /// Some recoveries are neither legal nor a violation, or it ended early.
    Undecided,
    /// The module could not be loaded, or it does not take its configuration.
    CannotBeRun,
    /// It breaks a rule of requests and answers.
    BreaksTheRules,
    /// It refuses a request that it has to take.
    RefusesARequest,
    /// A write is there although one before it is not.
    Hole,
    /// What was deleted, overwritten or refused is there again.
    BackFromTheDead,
    /// Some mutations of a batch are there and some are not.
    HalfABatch,
    /// An acknowledged write is not there.
    LosesAcknowledgedWrites,
    /// It panics, traps, hangs or outgrows its memory.
    PanicsOrHangs,
    /// The database cannot be opened any more.
    CannotBeOpened,
    /// It shows what nobody wrote there, and says nothing.
    WrongValue,
}

impl VerdictClass {
    /// All of them, the least severe first.
    pub const ALL: [VerdictClass; 13] = [
        VerdictClass::CleanWithinBounds,
        VerdictClass::ProvesNothing,
        VerdictClass::Undecided,
        VerdictClass::CannotBeRun,
        VerdictClass::BreaksTheRules,
        VerdictClass::RefusesARequest,
        VerdictClass::Hole,
        VerdictClass::BackFromTheDead,
        VerdictClass::HalfABatch,
        VerdictClass::LosesAcknowledgedWrites,
        VerdictClass::PanicsOrHangs,
        VerdictClass::CannotBeOpened,
        VerdictClass::WrongValue,
    ];

    /// The class of a violation.
    #[must_use]
    pub fn of(violation: &Violation) -> VerdictClass {
        VerdictClass::of_symptom(violation.symptom, &violation.facts)
    }

    fn of_symptom(symptom: Symptom, facts: &Facts) -> VerdictClass {
        match symptom {
            // A hole that costs an acknowledged write is a loss.
            Symptom::Hole if facts.acknowledged_lost == 0 => VerdictClass::Hole,
            Symptom::Hole | Symptom::LostWrite | Symptom::StaleValue | Symptom::TakenBack => {
                VerdictClass::LosesAcknowledgedWrites
            }
            Symptom::PartialBatch => VerdictClass::HalfABatch,
            Symptom::FailedWriteApplied | Symptom::DeletedKeyBack | Symptom::DeadWriteBack => {
                VerdictClass::BackFromTheDead
            }
            Symptom::UnknownKey
            | Symptom::ForeignValue
            | Symptom::ResizedValue
            | Symptom::DamagedValue
            | Symptom::WrongRead
            | Symptom::MalformedScan
            | Symptom::SnapshotGone
            | Symptom::SnapshotReused
            | Symptom::ReadsDiffer
            | Symptom::RecoveriesDiffer => VerdictClass::WrongValue,
            // A request has a number; what has none is an opening.
            Symptom::FalseAlarm | Symptom::FalseRefusal if facts.op.is_some() => {
                VerdictClass::RefusesARequest
            }
            Symptom::SpaceKept => VerdictClass::RefusesARequest,
            Symptom::RefusedToOpen | Symptom::FalseAlarm | Symptom::FalseRefusal => {
                VerdictClass::CannotBeOpened
            }
            Symptom::IllFormedTaken | Symptom::WrongReply | Symptom::AbiAbuse => {
                VerdictClass::BreaksTheRules
            }
            Symptom::Panic
            | Symptom::Trap
            | Symptom::OutOfFuel
            | Symptom::Endless
            | Symptom::Idle
            | Symptom::OutOfMemory
            | Symptom::Stalled => VerdictClass::PanicsOrHangs,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            VerdictClass::CleanWithinBounds => "clean within bounds",
            VerdictClass::ProvesNothing => "proves nothing",
            VerdictClass::Undecided => "undecided",
            VerdictClass::CannotBeRun => "cannot be run",
            VerdictClass::BreaksTheRules => "breaks the rules of the messages",
            VerdictClass::RefusesARequest => "refuses a request",
            VerdictClass::Hole => "a later write without an earlier one",
            VerdictClass::BackFromTheDead => "comes back from the dead",
            VerdictClass::HalfABatch => "half a batch",
            VerdictClass::LosesAcknowledgedWrites => "loses acknowledged writes",
            VerdictClass::PanicsOrHangs => "panics or hangs",
            VerdictClass::CannotBeOpened => "cannot be opened",
            VerdictClass::WrongValue => "wrong value",
        }
    }

    /// For names of files.
    #[must_use]
    pub fn slug(self) -> String {
        self.words().replace(' ', "_")
    }

    /// Whether a property was violated.
    #[must_use]
    pub fn is_violation(self) -> bool {
        self > VerdictClass::CannotBeRun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(symptom: Symptom, lost: u64, op: Option<u64>) -> VerdictClass {
        let facts = Facts {
            acknowledged_lost: lost,
            op,
            ..Facts::default()
        };
        VerdictClass::of_symptom(symptom, &facts)
    }

    /// Goal: each shape of a failure has its class. Method: one shape of each class, and the shapes whose class depends on more.
    #[test]
    fn symptoms_have_their_classes() {
        use VerdictClass as C;
        for (symptom, wanted) in [
            (Symptom::LostWrite, C::LosesAcknowledgedWrites),
            (Symptom::TakenBack, C::LosesAcknowledgedWrites),
            (Symptom::StaleValue, C::LosesAcknowledgedWrites),
            (Symptom::PartialBatch, C::HalfABatch),
            (Symptom::DeletedKeyBack, C::BackFromTheDead),
            (Symptom::DeadWriteBack, C::BackFromTheDead),
            (Symptom::DamagedValue, C::WrongValue),
            (Symptom::RecoveriesDiffer, C::WrongValue),
            (Symptom::RefusedToOpen, C::CannotBeOpened),
            (Symptom::SpaceKept, C::RefusesARequest),
            (Symptom::Panic, C::PanicsOrHangs),
            (Symptom::Endless, C::PanicsOrHangs),
            (Symptom::Idle, C::PanicsOrHangs),
            (Symptom::WrongReply, C::BreaksTheRules),
        ] {
            assert_eq!(class(symptom, 0, None), wanted, "{symptom:?}");
        }
        assert_eq!(class(Symptom::Hole, 0, None), C::Hole);
        assert_eq!(class(Symptom::Hole, 1, None), C::LosesAcknowledgedWrites);
        for symptom in [Symptom::FalseAlarm, Symptom::FalseRefusal] {
            assert_eq!(class(symptom, 0, None), C::CannotBeOpened);
            assert_eq!(class(symptom, 0, Some(3)), C::RefusesARequest);
        }
    }

    /// Goal: severity is the order of the list, and only the violations count as such. Method: the list, and its ends.
    #[test]
    fn classes_are_in_the_order_of_their_severity() {
        assert!(VerdictClass::ALL.is_sorted());
        let violations = VerdictClass::ALL.iter().filter(|it| it.is_violation());
        assert_eq!(violations.count(), 9);
        assert!(!VerdictClass::Undecided.is_violation());
    }
}
