//! A violation: which property broke, a sentence for a person, and the same as facts for a program.
//!
//! The [`Class`] of a failure is what shrinking must keep: symptoms that one mistake of a guest shows in turn.

use crate::property::Property;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The shape in which a property was seen to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Symptom {
    /// An acknowledged write is not there, nor anything later on its key.
    LostWrite,
    /// Some mutations of a batch are there and some are not.
    PartialBatch,
    /// A write is there although one before it is not.
    Hole,
    /// A write that was refused with a definite failure is there.
    FailedWriteApplied,
    /// A key shows a value older than the one that must be there.
    StaleValue,
    /// A deleted key is back.
    DeletedKeyBack,
    /// A write that an earlier recovery did not show is there.
    DeadWriteBack,
    /// What an earlier recovery showed is gone.
    TakenBack,
    /// A key that nobody ever wrote.
    UnknownKey,
    /// An intact value that was written to another key.
    ForeignValue,
    /// A value cut short or with something behind its end.
    ResizedValue,
    /// Bytes that no one wrote.
    DamagedValue,
    /// A get or a scan, at run time, that does not show the state at its place in the order.
    WrongRead,
    /// A scan not in order, with a key twice, outside its range or beyond its limit.
    MalformedScan,
    /// A snapshot that is gone although nobody released it.
    SnapshotGone,
    /// A snapshot's number that another snapshot has had in the same process run.
    SnapshotReused,
    /// Two reads of the same state that differ.
    ReadsDiffer,
    /// Two recoveries of the same image that differ.
    RecoveriesDiffer,
    /// Damage or a device failure reported although the device did nothing wrong.
    FalseAlarm,
    /// The guest refuses to open what it must open.
    RefusedToOpen,
    /// A well-formed request that the guest refuses, and has no reason to.
    FalseRefusal,
    /// The guest says that there is no space, although it would have enough if it gave back what is not needed any more.
    SpaceKept,
    /// An ill-formed request that the guest does not refuse.
    IllFormedTaken,
    /// A reply of the wrong kind, or to a request that is not open.
    WrongReply,
    /// The guest panicked.
    Panic,
    /// The guest trapped.
    Trap,
    /// A call did not end within its fuel.
    OutOfFuel,
    /// The guest works and works, and answers nothing.
    Endless,
    /// The guest sleeps, and answers nothing.
    Idle,
    /// The guest outgrew its memory.
    OutOfMemory,
    /// The guest broke the rules of the ABI.
    AbiAbuse,
    /// Requests are unanswered and nothing will ever happen.
    Stalled,
}

/// What a program wants to know of a violation. What does not apply is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The key concerned, in quotes and escaped as a person is shown it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The write concerned, by its operation number (requests of clients count from 1, in arrival order).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<u64>,
    /// The client that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<u32>,
    /// When it was handed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_in_ns: Option<u64>,
    /// When it was acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_ns: Option<u64>,
    /// What should have come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The read that showed it, by its operation number; absent when verification after a recovery did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_op: Option<u64>,
    /// How many crashes had happened.
    pub crashes: u64,
    /// How many keys disagree with the nearest legal state.
    pub keys_wrong: u64,
    /// Acknowledged writes that had to survive and are lost.
    pub acknowledged_lost: u64,
    /// The guest's functions that were running, innermost first, where it trapped or hung.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// A property that does not hold, and how that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which.
    pub property: Property,
    /// In what shape.
    pub symptom: Symptom,
    /// What a person needs to know, one or two sentences.
    pub sentence: String,
    /// The same for a program.
    pub facts: Facts,
}

/// What a smaller case has to have in common with the larger one that it is made from. What is lost may show in many shapes, which depend on what is asked
/// before and after the crash: lost, a hole, an older value, back from the dead, shown once and taken back, half of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What recovery shows is not what had to survive.
    Loss,
    /// Bytes that nobody wrote there.
    Damage,
    /// What the running guest answers is not the state at its place in the order.
    Reading,
    /// The guest does not open, or reports damage that is none.
    Refusal,
    /// Any other shape stands for itself.
    Other(Symptom),
}

/// The class of a failure, and one that a smaller form of it may have: that of what lies behind it, and never the other way round. What is lost is not shrunk to what
/// cannot be opened, which may be another mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes {
    /// Its own.
    pub own: Class,
    /// The other.
    pub other: Option<Class>,
}

impl Classes {
    /// Whether this is one of them.
    #[must_use]
    pub fn has(self, class: Class) -> bool {
        self.own == class || self.other == Some(class)
    }
}

/// Which failures count as the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    /// Those of these classes,
    pub classes: Classes,
    /// whose sentence has this text, if there is one. An engine may have several mistakes of one class, and tells them apart by what it says.
    pub says: Option<Arc<str>>,
}

impl Likeness {
    /// Whether this is one of them.
    #[must_use]
    pub fn has(&self, violation: &Violation) -> bool {
        let says = self.says.as_deref();
        self.classes.has(violation.class()) && says.is_none_or(|it| violation.sentence.contains(it))
    }
}

impl From<Classes> for Likeness {
    fn from(classes: Classes) -> Self {
        Likeness {
            classes,
            says: None,
        }
    }
}

impl From<Class> for Likeness {
    fn from(own: Class) -> Self {
        Classes::from(own).into()
    }
}

impl From<Class> for Classes {
    fn from(own: Class) -> Self {
        Classes { own, other: None }
    }
}

impl Symptom {
    fn class(self) -> Class {
        use Symptom::{
            DamagedValue, DeadWriteBack, DeletedKeyBack, FailedWriteApplied, FalseAlarm,
            ForeignValue, Hole, LostWrite, MalformedScan, PartialBatch, ReadsDiffer,
            RecoveriesDiffer, RefusedToOpen, ResizedValue, SnapshotGone, StaleValue, TakenBack,
            UnknownKey, WrongRead,
        };
        match self {
            LostWrite | Hole | StaleValue | DeletedKeyBack | DeadWriteBack | TakenBack
            | FailedWriteApplied | PartialBatch | RecoveriesDiffer => Class::Loss,
            UnknownKey | ForeignValue | ResizedValue | DamagedValue => Class::Damage,
            WrongRead | MalformedScan | SnapshotGone | ReadsDiffer => Class::Reading,
            RefusedToOpen | FalseAlarm => Class::Refusal,
            other => Class::Other(other),
        }
    }
}

impl Violation {
    /// What a smaller case has to have in common with this one.
    #[must_use]
    pub fn class(&self) -> Class {
        self.symptom.class()
    }

    /// The same, and what a smaller case may have in its place.
    #[must_use]
    pub fn classes(&self) -> Classes {
        let other = match (self.property, self.symptom) {
            // Who calls what had to survive damaged, and does not open, does not give it back. A request would have a number.
            (Property::AcknowledgedDurable | Property::RecoveryIdempotent, Symptom::FalseAlarm)
                if self.facts.op.is_none() =>
            {
                Some(Class::Loss)
            }
            // One of the reads shows what the device made of it.
            (Property::DamageReported, Symptom::ReadsDiffer) => Some(Class::Damage),
            _ => None,
        };
        Classes {
            own: self.class(),
            other,
        }
    }

    /// A property that does not hold, and how it shows.
    #[must_use]
    pub fn new(
        property: Property,
        symptom: Symptom,
        sentence: impl Into<String>,
        facts: Facts,
    ) -> Box<Self> {
        Box::new(Violation {
            property,
            symptom,
            sentence: sentence.into(),
            facts,
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.sentence)
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of two refusals only that which says the text is alike, and what says it in another class is not. Method: the answers of three violations.
    #[test]
    fn what_says_something_else_is_not_alike() {
        let says = |text: &str| Likeness {
            says: Some(text.into()),
            ..Classes::from(Class::Refusal).into()
        };
        let of = |symptom, sentence| {
            Violation::new(
                Property::NoFalseRefusal,
                symptom,
                sentence,
                Facts::default(),
            )
        };
        let checksum = of(
            Symptom::FalseAlarm,
            "answering `Corruption`: checksum error",
        );
        let size = of(
            Symptom::FalseAlarm,
            "answering `IoError`: file size too small",
        );
        let lost = of(Symptom::LostWrite, "the write `checksum error` is lost");
        assert!(says("checksum error").has(&checksum));
        assert!(!says("checksum error").has(&size));
        assert!(!says("checksum error").has(&lost));
        let any = Likeness::from(Class::Refusal);
        assert!(any.has(&checksum) && any.has(&size) && !any.has(&lost));
    }

    /// Goal: an opening that calls damaged what had to survive may be shrunk to a loss, and a read that the device damaged to damage; a loss to no refusal, and other false alarms and
    /// reads that differ to nothing else. Method: the classes of each.
    #[test]
    fn what_a_failure_may_be_shrunk_to_goes_by_the_property_too() {
        let classes = |property, symptom| {
            let classes = Violation::new(property, symptom, "", Facts::default()).classes();
            (classes.own, classes.other)
        };
        let durable = Property::AcknowledgedDurable;
        let alarm = (Class::Refusal, Some(Class::Loss));
        assert_eq!(classes(durable, Symptom::FalseAlarm), alarm);
        let cut_short = Property::RecoveryIdempotent;
        assert_eq!(classes(cut_short, Symptom::FalseAlarm), alarm);
        let refused = Property::NoFalseRefusal;
        assert_eq!(
            classes(refused, Symptom::FalseAlarm),
            (Class::Refusal, None)
        );
        let damaged = Property::DamageReported;
        let differ = (Class::Reading, Some(Class::Damage));
        assert_eq!(classes(damaged, Symptom::ReadsDiffer), differ);
        let agree = Property::ReadsAgree;
        assert_eq!(classes(agree, Symptom::ReadsDiffer), (Class::Reading, None));
        assert_eq!(classes(durable, Symptom::LostWrite), (Class::Loss, None));
    }
}
