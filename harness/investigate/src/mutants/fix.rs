//! What fixes each mutant, read off its site in the engine: the answers that blame is held against.
//!
//! A mutant is one of *order* if it leaves out or misplaces a flush, a write-through or a wait for one. Then blame has to name something that becomes durable
//! too late, or an answer that is given too early. For every other one it must not.

use super::Mutant;
use kvsim_findings::blame::{Blame, Missing};

/// What fixes a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// A flush, a write-through, or waiting for one, at a place where what is written is not durable yet.
    Durable,
    /// Waiting for writes before another is submitted. Nobody waits for those that are under way, so a flush or a write-through may come too early.
    Wait,
    /// An answer that waits: it is given before anything is written for it.
    LaterAnswer,
    /// Space that is used again later, when what no longer needs it is durable.
    LaterReuse,
    /// Space that is not used again as long as it is referred to, which may be for ever. From outside nobody can tell whether it is used too early or should not be
    /// used at all, so blame may say either.
    StillNeeded,
    /// A recovery that checks what it finds, or else what it trusts durable before what refers to it. From outside nobody can tell which of the two the guest meant
    /// to do, so blame may say either.
    Checked,
    /// Nothing of order: what is written, what is trusted, what is done about an error, or what the running engine does wrong without any cut.
    NoOrder,
}

impl Fix {
    /// What blame has to say of a case with so many crashes. Without a crash nothing is lost that order could save, whatever else the mutant does: a guest that never
    /// answers, for instance, goes on to do so with every write durable at once.
    #[must_use]
    pub const fn of_crashes(self, crashes: u64) -> Fix {
        match crashes {
            0 => Fix::NoOrder,
            _ => self,
        }
    }

    /// What blame has to say, in words.
    #[must_use]
    pub const fn wanted(self) -> &'static str {
        match self {
            Fix::Durable => "a flush or a write-through",
            Fix::Wait => "a write or an answer held back, a flush or a write-through",
            Fix::LaterAnswer => "a later answer, or a flush before it",
            Fix::LaterReuse => "space used again too early",
            Fix::StillNeeded => "no ordering bug, or space used again too early",
            Fix::Checked => "no ordering bug, or a write or flush before what refers to it",
            Fix::NoOrder => "no ordering bug",
        }
    }

    /// Whether this is what blame says.
    #[must_use]
    pub fn is_named_by(self, blame: &Blame) -> bool {
        let names = |kinds: &[Missing]| {
            let mut named = blame.fixes.iter().map(|fix| fix.missing);
            named.any(|missing| kinds.contains(&missing))
        };
        match self {
            Fix::Durable => names(&[Missing::WriteThrough, Missing::Flush]),
            Fix::Wait => names(&[
                Missing::WriteThrough,
                Missing::Flush,
                Missing::Barrier,
                Missing::LaterAnswer,
            ]),
            Fix::LaterAnswer => {
                names(&[Missing::LaterAnswer, Missing::WriteThrough, Missing::Flush])
            }
            // A write that has to wait until what was submitted before it is durable goes to space that is used again too early: said of the write, the same.
            Fix::LaterReuse => names(&[
                Missing::LaterReuse,
                Missing::Barrier,
                Missing::WriteThrough,
                Missing::Flush,
            ]),
            Fix::StillNeeded => Fix::NoOrder.is_named_by(blame) || names(&[Missing::LaterReuse]),
            Fix::Checked => {
                let decided = !blame.exhausted || !blame.fixes.is_empty();
                decided && !names(&[Missing::LaterAnswer, Missing::LaterReuse])
            }
            Fix::NoOrder => !blame.is_ordering() && !blame.exhausted,
        }
    }
}

/// What fixes this one.
#[must_use]
pub const fn fix(mutant: Mutant) -> Fix {
    use Mutant::{
        AcknowledgedBeforeFlush, CheckpointBeforeLogFlush, CheckpointPagesNotFlushed,
        CloseDoesNotFlush, DurableStatedTooEarly, EmptyBatchDoesNotWait, ExtentFreedAtOnce,
        ExtentsNotChecked, FlushBeforeWriteCompletes, FlushOnATimer, FreedBeforeSuperblock,
        HalfPublishedTrusted, HalvesNotFlushedApart, LogFreedUnproven, LogReusedBeforePagesFlushed,
        NewEpochNotFlushed, NewerFrameBeforeOlder, OlderRunsFreed, OpeningUnordered,
        PlainWriteTakenForDurable, PointerBeforeValue, RecoveryReclaimsTooEarly,
        RelaxedDeadlineDropped, RelaxedFramesNotFlushed, RelaxedWindowForgotten,
        RepublishedTooEarly, SuperblockBeforePages, SyncDoesNotWait, TailRewriteNotFlushed,
        VictimFreedAtOnce,
    };
    match mutant {
        AcknowledgedBeforeFlush
        | CheckpointPagesNotFlushed
        | TailRewriteNotFlushed
        | NewEpochNotFlushed
        | OpeningUnordered
        | PlainWriteTakenForDurable
        | RelaxedFramesNotFlushed => Fix::Durable,
        // These state as durable, or rely on, what is only submitted: a frame the one before it, a superblock its pages or the end of the log, the second half of the
        // superblocks the first. Nothing is wrong with that once whoever states it waits.
        CheckpointBeforeLogFlush
        | DurableStatedTooEarly
        | FlushBeforeWriteCompletes
        | HalvesNotFlushedApart
        | NewerFrameBeforeOlder
        | PointerBeforeValue
        | RepublishedTooEarly
        | SuperblockBeforePages => Fix::Wait,
        // A frame does not wait until its large values are durable, which is why recovery checks them. An engine that waited would do without the check.
        ExtentsNotChecked => Fix::Checked,
        // The superblock in force refers to these runs, and so does the next one.
        OlderRunsFreed => Fix::StillNeeded,
        CloseDoesNotFlush
        | EmptyBatchDoesNotWait
        | FlushOnATimer
        | RelaxedDeadlineDropped
        | RelaxedWindowForgotten
        | SyncDoesNotWait => Fix::LaterAnswer,
        // What is overwritten lies in a segment that the checkpoint in force, and replay, still refer to.
        ExtentFreedAtOnce
        | FreedBeforeSuperblock
        | HalfPublishedTrusted
        | LogReusedBeforePagesFlushed
        | RecoveryReclaimsTooEarly
        | LogFreedUnproven
        | VictimFreedAtOnce => Fix::LaterReuse,
        _ => Fix::NoOrder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blame(missing: Option<Missing>, exhausted: bool) -> Blame {
        let fix = |missing| kvsim_findings::blame::Fix {
            missing,
            process_run: 1,
            sentence: "operation 1".to_owned(),
            after_call: None,
            file: None,
        };
        Blame {
            fixes: missing.map(fix).into_iter().collect(),
            exhausted,
            ..Blame::default()
        }
    }

    /// Goal: of space that is still needed, blame may say that it is used too early or that nothing is of order, and nothing else. Method: each thing that it can
    /// say.
    #[test]
    fn space_that_is_still_needed_is_named_in_two_ways() {
        let named = |missing, exhausted| Fix::StillNeeded.is_named_by(&blame(missing, exhausted));
        assert!(named(Some(Missing::LaterReuse), false));
        assert!(named(None, false));
        assert!(!named(None, true), "undecided");
        assert!(!named(Some(Missing::Flush), false));
        assert!(!named(Some(Missing::LaterAnswer), false));
    }
}
