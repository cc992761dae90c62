//! When checkpoints, garbage collection and growth are due. How much space each may take is in `segments/space.rs`.

use crate::api::port::Nanos;
use crate::checkpoint::write::checkpoint;
use crate::core::{Core, Phase};
use crate::gc::collect::collect_garbage;
use crate::gc::log_free::republish_log_freed;
use crate::gc::state::{Counting, FUTILE_ROUNDS_MAX};
use crate::runtime::executor::Executor;
use crate::runtime::handle::Handle;
use crate::segments::grow::grow;

/// Work that has given way goes on after this time if nobody has called.
const RESUME_NS: Nanos = 50_000;
/// Work that nobody waits for pauses so long while something is read for a client.
const BESIDE_READS_NS: Nanos = 500_000;
/// A checkpoint that has failed is tried again after this time if nobody has called and a client waits, and not before where it could not read something.
const RETRY_NS: Nanos = 10_000_000;

impl Core {
    /// Whether commits that go on are to be held up as little as can be by what makes space.
    pub(crate) fn commits_come_first(&self) -> bool {
        self.commits_go_on() && !self.is_pressed()
    }

    /// Whether work that gave way in this call may go on. It goes on in the next call, or now if no commit would be
    /// delayed or clients wait for space.
    pub(crate) fn may_go_on(&mut self, gave_way_in: u64) -> bool {
        let running = self.phase == Phase::Running && self.poisoned.is_none();
        let bound = self.entries_bytes();
        let wanted = !running || !self.commits_come_first() || self.is_crowded(bound);
        let on = self.calls != gave_way_in || wanted;
        if !on {
            self.resume_at = Some(self.now + RESUME_NS);
        }
        on
    }

    /// The same for a checkpoint. Where entries may leave memory, it goes on at the pace at which changes fill memory, a little in each call: so neither reads nor the subtraction of
    /// what blind writes have replaced wait for it.
    pub(crate) fn checkpoint_may_go_on(&mut self, gave_way_in: u64, gave_way_at: Nanos) -> bool {
        let running = self.phase == Phase::Running && self.poisoned.is_none();
        if !self.forgets() || !running || self.is_pressed() {
            return self.may_go_on(gave_way_in);
        }
        let idle = self.reads.is_idle() && self.lookups.are_idle();
        let pause = match idle || self.is_checkpoint_behind() {
            true => 0,
            false => BESIDE_READS_NS,
        };
        let on = self.calls != gave_way_in && self.now >= gave_way_at + pause;
        if !on {
            let at = gave_way_at + pause.max(RESUME_NS);
            self.resume_at = Some(self.resume_at.map_or(at, |other| other.min(at)));
        }
        on
    }

    /// Whether changes fill memory faster than the checkpoint under way gets on.
    fn is_checkpoint_behind(&self) -> bool {
        let pace = &self.maintenance.pace;
        if pace.written >= pace.to_write {
            return true;
        }
        let room = self.entries_bytes().saturating_sub(pace.changed_bytes);
        let used = self
            .index
            .changed_bytes()
            .saturating_sub(pace.changed_bytes);
        u128::from(used) * u128::from(pace.to_write) > u128::from(pace.written) * u128::from(room)
    }

    /// The same for work that nobody is held up by, and that gave way at this time. It pauses, whoever calls: else the end of each read would be held up by some of it.
    pub(crate) fn may_go_on_unhurried(&mut self, gave_way_at: Nanos) -> bool {
        let pause = match self.reads.is_idle() && self.lookups.are_answered() {
            true => RESUME_NS,
            false => BESIDE_READS_NS,
        };
        let (at, running) = (gave_way_at + pause, self.phase == Phase::Running);
        let on = self.now >= at || !running || self.poisoned.is_some() || !self.queue.is_empty();
        if !on {
            self.resume_at = Some(self.resume_at.map_or(at, |other| other.min(at)));
        }
        on
    }

    /// Whether what has changed takes more of memory than this. It cannot leave memory before a checkpoint has written it.
    pub(crate) fn is_crowded(&self, bytes: u64) -> bool {
        self.forgets() && !self.maintenance.checkpoint_failed && self.index.changed_bytes() > bytes
    }

    /// Growing is for live data that comes near to what the present size can hold, and for when rounds of garbage collection gained nothing. Everything
    /// else is what garbage collection is for: a file that grew instead would never shrink.
    fn should_grow(&self) -> bool {
        let now = u64::from(self.segments.count());
        if now >= self.segments_max() {
            return false;
        }
        let options = &self.settings.options;
        let percent = options.grow_percent.min(options.usable_percent);
        // So much ahead that clients that write small values need not wait for the growth, and are promised room for them meanwhile.
        let next = self.behind(self.wanted_room);
        let pages = next.pages_bytes + next.pages_bytes / 16;
        self.maintenance.asked.futile_rounds >= FUTILE_ROUNDS_MAX / 2
            || self
                .live_bytes_in(now, pages, next.reserve)
                .is_none_or(|max| {
                    next.live_bytes > max
                        || self.live_bytes() > max / options.usable_percent * percent
                })
    }

    /// Starts what is due.
    pub(crate) fn maintain(&mut self, executor: &mut Executor, handle: &Handle) {
        if self.phase != Phase::Running || self.poisoned.is_some() {
            return;
        }
        if self.loading.is_none() {
            self.log_free();
        }
        let shortage = self.shortage();
        if !self.maintenance.growing && self.should_grow() {
            self.maintenance.growing = true;
            self.activity += 1;
            executor.spawn(grow(handle.clone()));
        }
        // What is live where is not known before the index is loaded. That takes no longer than a checkpoint.
        if self.loading.is_some() {
            return;
        }
        let shortage = match self.maintenance.gc_idle(self.stats.user_bytes) {
            true => 0,
            false => shortage,
        };
        let checkpointing = self.maintenance.checkpointing;
        let since = self.log.written_bytes - self.maintenance.checkpointed_at;
        let threshold = self
            .settings
            .options
            .checkpoint_bytes
            .max(2 * self.maintenance.checkpoint_size);
        let stalled = self.maintenance.stalled;
        // What the log gives back comes sooner than what a checkpoint would, and would have to wait for that.
        let log_frees = !self.maintenance.leaving.is_empty();
        let crowded = self.is_crowded(self.entries_bytes() / 2);
        let counts = self.maintenance.counting == Counting::Awaited;
        let mut due = !checkpointing && (since >= threshold || crowded || counts);
        if !due && shortage > 0 && !self.maintenance.growing {
            let (reclaimable, worth) = (self.reclaimable(), self.worth_a_checkpoint());
            due = reclaimable >= worth
                || (self.is_pressed() && reclaimable >= worth.div_ceil(2))
                || (reclaimable > 0 && stalled && !log_frees)
                || self.maintenance.log_free_stuck;
            let maintenance = &self.maintenance;
            let idle = !maintenance.collecting && !maintenance.gc_futile;
            if !due && idle && !self.collected_enough() {
                self.maintenance.collecting = true;
                self.maintenance.gc_bytes = 0;
                self.maintenance.gc_began_at = self.log.written_bytes;
                self.activity += 1;
                executor.spawn(collect_garbage(handle.clone()));
            }
            // Even with nothing to free: a new checkpoint may be smaller than the old one.
            due |= self.maintenance.gc_futile && !log_frees && (reclaimable > 0 || stalled);
        }
        let unread_at = self.maintenance.unread.as_ref().map(|(at, _)| *at);
        let pauses = unread_at.is_some_and(|at| self.now < at + RETRY_NS);
        if due && !checkpointing && (pauses || self.maintenance.failed_in_call == Some(self.calls))
        {
            if stalled || !self.queue.is_empty() {
                let at = unread_at.filter(|_| pauses).unwrap_or(self.now) + RETRY_NS;
                self.resume_at = Some(self.resume_at.map_or(at, |other| other.min(at)));
            }
        } else if due && !checkpointing {
            self.maintenance.checkpointing = true;
            self.maintenance.log_free_stuck = false;
            self.activity += 1;
            executor.spawn(checkpoint(handle.clone()));
        } else if !checkpointing && shortage > 0 && self.log_freed_would_last() {
            self.begin_republishing();
            executor.spawn(republish_log_freed(handle.clone()));
        }
    }
}
