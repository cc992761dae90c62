//! What is known of checkpoints, garbage collection and growth: which of them is under way, what they have gained, and who waits for space. When they are due is in
//! `engine/schedule.rs`.

use std::cell::Cell;
use std::collections::VecDeque;

use crate::api::error::Error;
use crate::api::port::Nanos;

/// Full rounds of checkpointing without progress before a stalled write is told that there is no space.
pub(crate) const FUTILE_ROUNDS_MAX: u32 = 4;

/// How far it is to count the index exactly.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Nobody waits for it.
    #[default]
    No,
    /// A write waits for a checkpoint that writes everything anew.
    Awaited,
    /// That found no room.
    FoundNoRoom,
    /// That has failed.
    Failed(Error),
}

#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    /// A checkpoint is being written, or what the superblock states as durable.
    pub(crate) checkpointing: bool,
    /// The last checkpoint was not published: nobody waits for the next one.
    pub(crate) checkpoint_failed: bool,
    /// The call in which that was. In the same one nothing has changed that would help.
    pub(crate) failed_in_call: Option<u64>,
    /// Whether all keys have to be written anew, so that what is counted is exact.
    pub(crate) counting: Counting,
    /// When what it had to read could not be read, and what that was.
    pub(crate) unread: Option<(Nanos, String)>,
    /// Segments that hold nothing live, and of what state that was counted.
    pub(crate) dead: Cell<((u64, u64, u64), u64)>,
    /// Segments that the checkpoint under way will free, beside the pages of the one before.
    pub(crate) freeing: u64,
    pub(crate) collecting: bool,
    pub(crate) piggyback: Option<Piggyback>,
    /// Segments freed through the log whose records are not proven, in the order of these.
    pub(crate) leaving: VecDeque<Leaving>,
    /// Where the next record was to stand when the checkpoint under way began; without bound where only the superblock is written.
    pub(crate) began_at_lsn: u64,
    /// There is no room for what would give dead segments back, so a checkpoint has to.
    pub(crate) log_free_stuck: bool,
    /// Changes of segments up to which everything that could be released was.
    pub(crate) looked_at: u64,
    pub(crate) growing: bool,
    /// The device has refused to grow, and is not asked again before then; and how long it is left alone after the next refusal.
    pub(crate) grow_again_at: Nanos,
    pub(crate) grow_pause_ns: Nanos,
    /// So many bytes a client has to write, and waits until enough of what is not durable yet is; 0 if none does.
    pub(crate) buffer_awaited: u64,
    /// A client waits for space.
    pub(crate) stalled: bool,
    /// How many segments it asks for.
    pub(crate) stalled_for: u64,
    /// How many more an opening would take with it.
    pub(crate) stalled_tail_rewrite: u64,
    /// What checkpoints gained since it began to wait.
    pub(crate) asked: Gain,
    /// What they gained since clients had written so many bytes. Without this bound, garbage collection would never end on a device that is fuller than its target.
    pub(crate) unasked: (u64, Gain),
    /// Garbage collection cannot go on before the next checkpoint: nothing to gain, or no room to move anything to.
    pub(crate) gc_futile: bool,
    /// Log position at which the last checkpoint began, in bytes written.
    pub(crate) checkpointed_at: u64,
    pub(crate) checkpoint_size: u64,
    /// How far the checkpoint under way is.
    pub(crate) pace: Pace,
    /// Bytes that garbage collection moved and that the log took since garbage collection began.
    pub(crate) gc_bytes: u64,
    pub(crate) gc_began_at: u64,
}

/// How far a checkpoint is.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes that it will write, about, and those that it has.
    pub(crate) to_write: u64,
    pub(crate) written: u64,
    /// What changed entries took of memory when it began.
    pub(crate) changed_bytes: u64,
}

/// What a checkpoint left free; nothing if it failed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Free {
    pub(crate) segments: u64,
    /// The same in sixteenths of a segment, with what is left of those that garbage collection writes to. Where most is live, one round gains less than a segment, and clients
    /// that wait have to wait for several.
    pub(crate) sixteenths: u64,
}

/// What a sequence of checkpoints gained.
#[derive(Debug, Default)]
pub(crate) struct Gain {
    /// What was free after the best of them.
    pub(crate) most_free: u64,
    /// Those since then.
    pub(crate) futile_rounds: u32,
}

impl Gain {
    /// A checkpoint left so much free.
    fn note(&mut self, free: u64) {
        if free > self.most_free {
            self.most_free = free;
            self.futile_rounds = 0;
        } else {
            self.futile_rounds += 1;
        }
    }

    fn is_futile(&self) -> bool {
        self.futile_rounds >= FUTILE_ROUNDS_MAX
    }
}

impl Maintenance {
    pub(crate) fn note_progress(&mut self) {
        self.stalled = false;
        self.stalled_for = 0;
        self.stalled_tail_rewrite = 0;
        self.asked = Gain::default();
        self.counting = Counting::No;
    }

    /// Data is dead now although no client overwrote it: a snapshot was released.
    pub(crate) fn note_let_go(&mut self) {
        self.unasked = Default::default();
    }

    /// A checkpoint has been published, and clients have written so many bytes.
    pub(crate) fn note_round(&mut self, free: Free, user_bytes: u64) {
        self.gc_futile = false;
        if self.unasked.0 != user_bytes {
            self.unasked = (user_bytes, Gain::default());
        }
        self.unasked.1.note(free.segments);
        if self.stalled {
            self.asked.note(free.sixteenths);
        }
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    pub(crate) fn reclaim_exhausted(&self) -> bool {
        self.asked.is_futile()
    }

    /// Nobody waits for space, and making it has gained nothing since clients last changed anything.
    pub(crate) fn gc_idle(&self, user_bytes: u64) -> bool {
        let (changed_at, gain) = &self.unasked;
        gain.is_futile() && !self.stalled && *changed_at == user_bytes
    }
}

/// A victim whose live records go with the commits.
#[derive(Debug)]
pub(crate) struct Piggyback {
    pub(super) victim: u32,
    /// The first of its residents that was not looked at.
    pub(super) from: usize,
    /// No more of them can go this way.
    pub(super) ended: bool,
}

/// A segment freed through the log that waits for its record to be proven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    /// Position of the record.
    pub(super) lsn: u64,
    pub(super) physical: u32,
}
