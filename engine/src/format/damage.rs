//! Damage: two values that should agree and do not, and where on the device.

/// What is wrong with a place that cannot be read.
const UNREADABLE: &str = "a sector that cannot be read";

/// Two values that should agree and do not: what a parser found wrong, before anyone knows where on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// What was compared.
    pub what: &'static str,
    /// What it should have been.
    pub expected: u64,
    /// What it is.
    pub found: u64,
}

impl Mismatch {
    pub(crate) fn check(what: &'static str, expected: u64, found: u64) -> Result<(), Mismatch> {
        if expected == found {
            Ok(())
        } else {
            Err(Mismatch {
                what,
                expected,
                found,
            })
        }
    }

    /// An entry refers to this position of the log, which has no such segment.
    pub(crate) fn outside_log(lsn: u64) -> Mismatch {
        Mismatch {
            what: "value in a segment that the log does not have",
            expected: 0,
            found: lsn,
        }
    }

    pub(crate) fn at(self, offset: u64) -> Corruption {
        Corruption {
            offset,
            mismatch: self,
        }
    }
}

/// Damage on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damage at byte {offset}: {what}: expected {expected}, found {found}",
    what = mismatch.what, expected = mismatch.expected, found = mismatch.found)]
pub struct Corruption {
    /// Where on the device.
    pub offset: u64,
    /// What is wrong there.
    pub mismatch: Mismatch,
}

/// Damage of a sector at this device offset.
pub(crate) fn unreadable_at(offset: u64) -> Corruption {
    Mismatch {
        what: UNREADABLE,
        expected: 0,
        found: offset,
    }
    .at(offset)
}

/// Whether the device did not return what is missing there.
pub(crate) fn is_unreadable(mismatch: &Mismatch) -> bool {
    mismatch.what == UNREADABLE
}
