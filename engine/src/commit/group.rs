//! Group commit: when a group starts, what it waits for, and when it is acknowledged.
//!
//! With a volatile cache and no faster write-through, one group is under way at a time: seal, write, flush,
//! acknowledge. Otherwise a frame is durable when its write completes. Several frames are in flight and acknowledged in
//! order; a further frame starts only if it is worth a write of its own. Frames that no client waits for are written
//! without write-through, more of them at a time, and one flush makes many of them durable. The flush comes when their
//! window is over, when memory gets short, or when a client waits behind them.
//!
//! After a group was acknowledged, its clients tend to come back at once. A short wait, from the first of them on, puts
//! all clients into one group per flush instead of half of them. The wait is 0.15 of the time of a commit, or the time
//! that a few threads take to come back. The wait ends when as many clients wait as were concurrent before. It switches
//! itself off for a while when it gains nothing.
//!
//! Invariants: a write is acknowledged only when the durable position has passed it. The durable position passes a
//! frame only when the frame and the extents it points to have completed; with a volatile cache, a flush that was
//! submitted after that must have completed too.

use std::sync::Arc;

use crate::api::config::CommitMode;
use crate::api::error::Error;
use crate::api::port::{DiskOp, Nanos, Reply, RequestId};
use crate::commit::state::{COMMITS_PAUSE_NS, FlushUnderWay, Gather, Waiter};
use crate::core::Core;
use crate::log::append::{FlushNeed, Frame, FrameState};
use crate::mutant::{Mutant, mutant};
use crate::runtime::flight::Owner;
use crate::runtime::handle::Handle;

/// Writes in flight at most when a flush for the whole group follows.
const WRITES_IN_FLIGHT_MAX: usize = 8;
/// The same for frames that no client waits for, where others are written through. Two frames of usual size keep a
/// device busy. A flush or a commit that comes meanwhile waits for no more than these two.
const PLAIN_WRITES_IN_FLIGHT_MAX: usize = 2;
/// Groups without a wait after a wait that gained nothing, at most.
const BACKOFF_MAX: u32 = 64;
const MARK_DELAY_NS_MIN: Nanos = 1_000_000;
/// A group smaller than this does not start while another is being written.
const OVERLAP_WAITING_MIN: u32 = 8;
/// How long several threads take to come back with their next commit on a few processors. The wait may last as long, up
/// to half a commit's time.
const RETURN_NS: Nanos = 60_000;

impl Core {
    /// A client waits for `lsn` to be durable.
    pub(crate) fn wait_durable(&mut self, id: RequestId, lsn: u64) {
        if lsn >= self.group.covered {
            self.group.waiting += 1;
        }
        self.waiters.push_back(Waiter { lsn, id });
    }

    /// A relaxed write was accepted.
    pub(crate) fn note_relaxed(&mut self) {
        self.group.relaxed_since.get_or_insert(self.now);
    }

    /// Frames are durable when their write completes.
    fn is_through(&self) -> bool {
        match self.settings.options.commit {
            CommitMode::Flush => false,
            _ if mutant(Mutant::PlainWriteTakenForDurable) => true,
            CommitMode::WriteThrough => true,
            CommitMode::Auto => !self.settings.device.volatile_cache || self.through_is_faster,
        }
    }

    /// Whether writes of log and extents must ask for write-through.
    pub(crate) fn write_through(&self) -> bool {
        let asks = !mutant(Mutant::PlainWriteTakenForDurable);
        self.settings.device.volatile_cache && self.is_through() && asks
    }

    /// Does whatever can be done for the commits. Called at the end of every call.
    pub(crate) fn pump(&mut self) {
        loop {
            if self.poisoned.is_some() || !self.is_serving() {
                return;
            }
            let before = self.activity;
            self.switch_mode();
            // First of all, so that the next frame states what is durable by now.
            if self.is_through() {
                self.advance_through();
                self.flush_relaxed();
            }
            if self.should_start() {
                self.start_group();
            }
            self.submit_frames();
            if mutant(Mutant::AcknowledgedBeforeFlush) {
                self.acknowledge();
            }
            if !self.is_through() {
                self.flush_group();
            }
            if self.activity == before {
                return;
            }
        }
    }

    /// Takes over a new measurement while nothing is under way.
    fn switch_mode(&mut self) {
        if self.log.frames.is_empty() && !self.group.active && self.log.open.is_none() {
            self.through_is_faster = self.through_measured_faster;
        }
    }

    fn should_start(&mut self) -> bool {
        let frames = self.log.frames.iter();
        let in_flight = frames.filter(|frame| !frame.is_written());
        let (busy, overlaps) = if self.is_through() {
            let in_flight = in_flight.count();
            (in_flight >= self.writes_in_flight_max(), in_flight > 0)
        } else {
            (self.group.active, false)
        };
        // Sealed frames are under way by themselves, but where a flush makes them durable, someone has to ask for it.
        let nothing = self.log.open.is_none() && (self.is_through() || self.log.frames.is_empty());
        if busy || nothing {
            return false;
        }
        if self.group.force || self.relaxed_deadline().is_some_and(|at| at <= self.now) {
            return true;
        }
        if self.group.waiting == 0 {
            return false;
        }
        if overlaps {
            let half = self.group.waiting >= self.group.concurrent.div_ceil(2);
            return half && self.group.waiting >= OVERLAP_WAITING_MIN;
        }
        match self.gather_until() {
            Some(until) if self.now < until => {
                let waiting_then = self.group.waiting;
                self.group.gather.get_or_insert(Gather {
                    started_at: self.now,
                    waiting_then,
                });
                false
            }
            _ => true,
        }
    }

    /// Half of the window is left for the write and the flush.
    fn relaxed_deadline(&self) -> Option<Nanos> {
        self.group
            .relaxed_since
            .filter(|_| !mutant(Mutant::RelaxedWindowForgotten))
            .map(|since| since + self.settings.options.relaxed_window_ns / 2)
    }

    /// Until when it is worth waiting for company; `None`: not at all.
    fn gather_until(&self) -> Option<Nanos> {
        let group = &self.group;
        if group.waiting >= group.concurrent {
            return None;
        }
        let began = group.gather.map_or(self.now, |gather| gather.started_at);
        match self.settings.options.group_wait_ns {
            Some(wait) => Some(began + wait),
            None if group.skip > 0 => None,
            None => {
                let usual = group.flush_ns * 3 / 20;
                Some(began + usual.max(RETURN_NS.min(group.flush_ns * 2 / 3)))
            }
        }
    }

    /// Weighs what a wait cost those who waited against what it brought those who came.
    fn judge_gather(&mut self) {
        let group = &mut self.group;
        let Some(gather) = group.gather.take() else {
            group.skip = group.skip.saturating_sub(1);
            return;
        };
        let waited = self.now - gather.started_at;
        let came = group.waiting.saturating_sub(gather.waiting_then);
        let gain = u64::from(came) * group.flush_ns / 2;
        let cost = u64::from(gather.waiting_then) * waited;
        if gain >= cost {
            group.backoff = 0;
        } else {
            group.backoff = (group.backoff * 2).clamp(2, BACKOFF_MAX);
            group.skip = group.backoff;
        }
    }

    fn start_group(&mut self) {
        self.judge_gather();
        self.take_live_records();
        self.log.seal(&mut self.segments);
        let last = self.log.frames.back().expect("a group has a frame");
        self.group.covered = last.end;
        self.group.active = !self.is_through();
        self.group.waiting = 0;
        self.group.force = false;
        let since = self.group.relaxed_since.take();
        self.group.unflushed_since = self.group.unflushed_since.or(since);
        self.group.mark_at = None;
        self.activity += 1;
    }

    /// Write-through writes take longer side by side on devices that flush for each. Where no client waits, writes are plain, and one flush covers them.
    fn writes_in_flight_max(&self) -> usize {
        match (self.is_through(), self.waiters.is_empty()) {
            (true, false) => crate::format::to_usize(self.settings.options.commit_depth),
            (true, true) => PLAIN_WRITES_IN_FLIGHT_MAX,
            (false, _) => WRITES_IN_FLIGHT_MAX,
        }
    }

    fn submit_frames(&mut self) {
        let depth = self.writes_in_flight_max();
        let awaited = !self.waiters.is_empty();
        let through_asked = self.write_through();
        let mut writing = self
            .log
            .frames
            .iter()
            .filter(|frame| frame.state == FrameState::Writing)
            .count();
        for at in 0..self.log.frames.len() {
            if writing >= depth {
                return;
            }
            let frame = &mut self.log.frames[at];
            if frame.state != FrameState::Queued {
                continue;
            }
            frame.state = FrameState::Writing;
            writing += 1;
            let fua = through_asked && (awaited || frame.is_mark);
            if through_asked && !fua {
                frame.flush = FlushNeed::Yes;
            }
            let (lsn, offset, data) = (frame.lsn, frame.offset, frame.data.clone());
            self.stats.log_bytes += data.len() as u64;
            self.stats.frames += 1;
            let submitted_at = self.now;
            self.submit(
                Owner::Frame { lsn, submitted_at },
                DiskOp::Write {
                    offset,
                    data,
                    through: fua,
                },
            );
        }
    }

    pub(crate) fn frame_written(&mut self, lsn: u64, submitted_at: Nanos) {
        let at = self.log.frames.partition_point(|frame| frame.lsn < lsn);
        let frame = &mut self.log.frames[at];
        assert_eq!(frame.lsn, lsn, "a frame stays until its write completes");
        frame.state = FrameState::Written;
        if self.is_through() && self.log.frames[at].flush == FlushNeed::No {
            self.note_flush_ns(self.now - submitted_at);
        }
    }

    /// Whether somebody waits for something to be durable; for what is written only now, or soon.
    fn is_awaited(&self) -> bool {
        !self.waiters.is_empty() || !self.log.is_durable_to(self.group.wanted)
    }

    /// Whether clients wait for commits, or did a moment ago.
    pub(crate) fn commits_go_on(&self) -> bool {
        let told = self.group.acknowledged_at;
        self.is_awaited() || told.is_some_and(|at| self.now - at < COMMITS_PAUSE_NS)
    }

    /// A task of the engine's waits until the log is durable beyond this position.
    pub(crate) fn want_durable(&mut self, lsn: u64) {
        self.group.wanted = self.group.wanted.max(lsn);
        let unsealed = self.log.open.as_ref().is_some_and(|open| open.lsn <= lsn);
        self.group.force |= unsealed || !(self.is_through() || self.group.active);
    }

    /// Flushes what was written without write-through, when that is due.
    fn flush_relaxed(&mut self) {
        if !self.may_flush() {
            return;
        }
        let much = self.settings.options.write_buffer_bytes / 4;
        let due = self.is_awaited()
            || self.log.volatile_bytes > much
            || self.flush_deadline().is_some_and(|at| at <= self.now);
        if !due {
            return;
        }
        let mut covers = None;
        for frame in &mut self.log.frames {
            if frame.flush == FlushNeed::Yes && frame.state == FrameState::Written {
                frame.flush = FlushNeed::UnderWay;
                covers = Some(frame.end);
            }
        }
        let Some(covers) = covers else {
            return;
        };
        let more = self.log.frames.iter().any(Frame::may_need_flush);
        if more == mutant(Mutant::RelaxedDeadlineDropped) {
            self.group.unflushed_since = None;
        }
        self.submit_flush(covers);
    }

    fn may_flush(&self) -> bool {
        self.group.flush.is_none() && !self.group.task_flush
    }

    /// Takes the turn for a task, when nobody has it. After a failure nobody is going to give it back.
    pub(crate) fn begin_task_flush(&mut self) -> Option<Result<(), Error>> {
        if mutant(Mutant::OthersFailureIgnored) {
            return Some(Ok(()));
        }
        if let Err(error) = self.unpoisoned() {
            return Some(Err(error));
        }
        self.may_flush().then(|| {
            self.group.task_flush = true;
            Ok(())
        })
    }

    pub(crate) fn end_task_flush(&mut self) {
        self.group.task_flush = false;
        self.activity += 1;
    }

    fn submit_flush(&mut self, covers: u64) {
        self.group.flush = Some(FlushUnderWay {
            covers,
            submitted_at: self.now,
        });
        self.stats.commit_flushes += 1;
        self.activity += 1;
        self.submit(Owner::CommitFlush, DiskOp::Flush);
    }

    /// Half of the window is left for the flush.
    fn flush_deadline(&self) -> Option<Nanos> {
        let since = self.group.unflushed_since?;
        Some(since + self.settings.options.relaxed_window_ns / 2)
    }

    /// A chunk has reached the device; `lsn` is the frame that points to it.
    pub(crate) fn chunk_written(&mut self, lsn: u64) {
        if mutant(Mutant::PointerBeforeValue) && self.log.is_retired(lsn) {
            return;
        }
        if let Some(open) = self.log.open.as_mut().filter(|open| open.lsn == lsn) {
            open.chunk_writes -= 1;
            return;
        }
        let at = self.log.frames.partition_point(|frame| frame.lsn < lsn);
        let frame = &mut self.log.frames[at];
        assert_eq!(frame.lsn, lsn, "a frame stays until its chunks are written");
        frame.chunk_writes -= 1;
    }

    fn advance_through(&mut self) {
        while self
            .log
            .frames
            .front()
            .is_some_and(crate::log::append::Frame::is_complete)
        {
            self.retire_frame();
        }
        self.acknowledge();
    }

    fn flush_group(&mut self) {
        if !self.group.active || !self.may_flush() {
            return;
        }
        let covered = self.group.covered;
        if self
            .log
            .frames
            .iter()
            .any(|frame| frame.end <= covered && !frame.is_complete())
            && !mutant(Mutant::FlushBeforeWriteCompletes)
        {
            return;
        }
        // What was sealed and written since the group started is covered as well.
        let complete = self
            .log
            .frames
            .iter()
            .take_while(|frame| frame.is_complete())
            .last();
        let covers = complete.map_or(covered, |frame| frame.end);
        self.submit_flush(covers);
    }

    pub(crate) fn commit_flushed(&mut self) {
        let flush = self.group.flush.take().expect("one flush at a time");
        if self.is_through() {
            for frame in &mut self.log.frames {
                if frame.flush == FlushNeed::UnderWay {
                    frame.flush = FlushNeed::No;
                }
            }
            return self.advance_through();
        }
        self.note_flush_ns(self.now - flush.submitted_at);
        while self
            .log
            .frames
            .front()
            .is_some_and(|frame| frame.end <= flush.covers)
        {
            self.retire_frame();
        }
        self.group.active = false;
        self.acknowledge();
    }

    /// The flush that failed is submitted again.
    pub(crate) fn retry_flush(&mut self) {
        if let Some(flush) = self.group.flush {
            self.submit_flush(flush.covers);
        }
    }

    pub(crate) fn note_flush_ns(&mut self, took: Nanos) {
        let smoothed = self.group.flush_ns;
        self.group.flush_ns = if smoothed == 0 {
            took
        } else {
            (smoothed * 7 + took) / 8
        };
    }

    fn retire_frame(&mut self) {
        let frame = self.log.retire();
        for offset in frame.chunks {
            let chunk = self
                .volatile_chunks
                .remove(&offset)
                .expect("a chunk is kept until its frame is durable");
            self.log.volatile_bytes -= chunk.len() as u64;
        }
        // A value may have been borrowed from it.
        if let Ok(buffer) = Arc::try_unwrap(frame.data) {
            self.log.pool.give(buffer);
        }
        self.activity += 1;
    }

    fn acknowledge(&mut self) {
        let mut acknowledged = 0;
        while let Some(waiter) = self.waiters.front()
            && (self.log.is_durable_to(waiter.lsn) || self.acknowledges_early(waiter.lsn))
        {
            let id = waiter.id;
            self.waiters.pop_front();
            self.reply(id, Reply::Done);
            acknowledged += 1;
        }
        if acknowledged > 0 {
            self.group.acknowledged_at = Some(self.now);
            self.group.concurrent =
                acknowledged + u32::try_from(self.waiters.len()).unwrap_or(u32::MAX - acknowledged);
            self.activity += 1;
        }
        if self.settings.options.durable_mark && self.log.is_unstated() {
            let delay = (2 * self.group.flush_ns).max(MARK_DELAY_NS_MIN);
            self.group.mark_at.get_or_insert(self.now + delay);
        }
    }

    /// Never, but for a mutant.
    fn acknowledges_early(&self, lsn: u64) -> bool {
        let before_flush = mutant(Mutant::AcknowledgedBeforeFlush);
        let out_of_order = mutant(Mutant::NewerFrameBeforeOlder);
        (before_flush || out_of_order)
            && self.log.frames.iter().any(|frame| {
                let written = frame.is_complete() || (before_flush && frame.is_written());
                written && (frame.start..frame.end).contains(&lsn)
            })
    }

    /// Records the durable position when nobody has wanted anything for a while.
    pub(crate) fn mark_if_idle(&mut self) {
        if self.group.mark_at.is_some_and(|at| at <= self.now) {
            self.group.mark_at = None;
            if self.poisoned.is_none() && self.may_mark() && self.log.mark(&mut self.segments) {
                self.group.covered = self.log.end();
            }
        }
    }

    /// Whether there is room for a frame that only states what is durable.
    pub(crate) fn may_mark(&self) -> bool {
        !self.log.needs_segment(0) || self.leaves_free(self.user_floor(), 1)
    }

    /// When the commit path wants to be called again if nothing else happens.
    pub(crate) fn group_wake_at(&self) -> Option<Nanos> {
        if self.poisoned.is_some() || !self.is_serving() {
            return None;
        }
        let gather = if self.group.gather.is_some() && !self.group.active {
            self.gather_until()
        } else {
            None
        };
        let relaxed = if self.group.active {
            None
        } else {
            self.relaxed_deadline()
        };
        let mark = if self.log.open.is_none() && self.log.frames.is_empty() {
            self.group.mark_at
        } else {
            None
        };
        let flush = if self.group.flush.is_some() {
            None
        } else {
            self.flush_deadline()
        };
        // What is due already waits for a completion.
        [gather, relaxed, flush, mark, self.resume_at]
            .into_iter()
            .flatten()
            .filter(|at| *at > self.now)
            .min()
    }
}

/// Makes everything handed in so far durable; returns the position up to which the log then reaches at least.
pub(crate) async fn log_durable(handle: &Handle) -> Result<u64, Error> {
    // Frames that only state a durable position are awaited too: one of them may have entered the segment that replay starts in.
    let end = handle.with(|core| core.log.end());
    handle
        .until(|core| {
            if let Err(error) = core.unpoisoned() {
                return Some(Err(error));
            }
            if core.log.durable >= end {
                return Some(Ok(core.log.durable));
            }
            core.want_durable(end - 1);
            None
        })
        .await
}
