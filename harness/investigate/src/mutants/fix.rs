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
    /// Nothing of order: what is written (a frame that states too much, for instance), what is trusted, what is done about an error, or what the running
    /// engine reads wrong without any cut.
    NoOrder,
}

impl Fix {
    /// What blame has to say, in words.
    #[must_use]
    pub const fn wanted(self) -> &'static str {
        match self {
            Fix::Durable => "a flush or a write-through",
            Fix::Wait => "a write or an answer held back, a flush or a write-through",
            Fix::LaterAnswer => "a later answer, or a flush before it",
            Fix::LaterReuse => "space used again too early",
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
            Fix::NoOrder => !blame.is_ordering() && !blame.exhausted,
        }
    }
}

/// What fixes this one.
#[must_use]
pub const fn fix(mutant: Mutant) -> Fix {
    use Mutant::{
        AcknowledgedBeforeFlush, CheckpointBeforeLogFlush, CheckpointPagesNotFlushed,
        CloseDoesNotFlush, EmptyBatchDoesNotWait, FlushBeforeWriteCompletes, FlushOnATimer,
        FreedBeforeSuperblock, HalfPublishedTrusted, HalvesNotFlushedApart, LogFreedUnproven,
        LogReusedBeforePagesFlushed, NewEpochNotFlushed, NewerFrameBeforeOlder,
        PlainWriteTakenForDurable, PointerBeforeValue, RecoveryReclaimsTooEarly,
        RelaxedDeadlineDropped, RelaxedFramesNotFlushed, RelaxedWindowForgotten,
        SuperblockBeforePages, SyncDoesNotWait, TailRewriteNotFlushed, VictimFreedAtOnce,
    };
    match mutant {
        AcknowledgedBeforeFlush
        | CheckpointBeforeLogFlush
        | CheckpointPagesNotFlushed
        | TailRewriteNotFlushed
        | HalvesNotFlushedApart
        | NewEpochNotFlushed
        | PlainWriteTakenForDurable
        | RelaxedFramesNotFlushed => Fix::Durable,
        FlushBeforeWriteCompletes
        | NewerFrameBeforeOlder
        | PointerBeforeValue
        | SuperblockBeforePages => Fix::Wait,
        CloseDoesNotFlush
        | EmptyBatchDoesNotWait
        | FlushOnATimer
        | RelaxedDeadlineDropped
        | RelaxedWindowForgotten
        | SyncDoesNotWait => Fix::LaterAnswer,
        FreedBeforeSuperblock
        | HalfPublishedTrusted
        | LogReusedBeforePagesFlushed
        | RecoveryReclaimsTooEarly
        | LogFreedUnproven
        | VictimFreedAtOnce => Fix::LaterReuse,
        _ => Fix::NoOrder,
    }
}
