//! Mutants: each is a mechanism by which some real engine once lost data, put into this engine. They show whether crash
//! testing finds such bugs.
//!
//! In an ordinary build only the table below exists: no site can be switched on, the compiler drops them, and there is
//! no option `mutant`. With the feature `mutants` the option names one of them, for as long as the engine is open. A
//! mutant takes away one mechanism. Where two mechanisms guard the same thing it takes away both, since one alone is no
//! bug.
//!
//! The numbers are those of the list of historic crash bugs in the book's chapter "Mutants".

macro_rules! mutants {
    ($($(#[doc = $sentence:literal])+ $mutant:ident = $name:literal [$($bug:literal),*];)*) => {
        /// A mutant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Mutant {
            $($(#[doc = $sentence])+ $mutant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Mutant] = &[$(Mutant::$mutant),*];

            /// What the option `mutant` calls it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Mutant::$mutant => $name,)*
                }
            }

            /// The historic bugs that it stands for, by their numbers; none if it is a mechanism of this engine's own.
            #[must_use]
            pub const fn bugs(self) -> &'static [u8] {
                match self {
                    $(Mutant::$mutant => &[$($bug),*],)*
                }
            }

            /// What it does.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Mutant::$mutant => concat!($($sentence),+).trim(),)*
                }
            }
        }
    };
}

mutants! {
    /// 1: recovery goes on in the old epoch, and frames are not tied to the one before, so what lies beyond the cut replays.
    TailNotFenced = "tail_not_fenced" [1];
    /// 2: replay takes a whole frame wherever it was meant to be and whenever, so a segment used before replays.
    RecycledSegmentReplays = "recycled_segment_replays" [2];
    /// 3: the log ends where the chain ends, whatever states that it was longer.
    GapIsTheEnd = "gap_is_the_end" [3];
    /// 4: a frame's header is checked, its body is not.
    BodyNotTied = "body_not_tied" [4];
    /// 5: recovery leaves a torn frame in place and appends behind it.
    AppendAfterTornTail = "append_after_torn_tail" [5];
    /// 6: a frame without records counts as the end of the log.
    EmptyFrameEndsReplay = "empty_frame_ends_replay" [6];
    /// 7: a bad frame is skipped and whole ones after it are applied.
    BadFrameSkipped = "bad_frame_skipped" [7];
    /// 8: a torn tail makes the whole log unusable.
    TornTailRefused = "torn_tail_refused" [8];
    /// 9: a block of zeroes passes as a frame without records.
    ZeroesPassAsFrame = "zeroes_pass_as_frame" [9];
    /// 10: of a torn frame, the records that came through are applied: half of a batch.
    TornFrameAppliedInPart = "torn_frame_applied_in_part" [10];
    /// 11: a frame's length is trusted before anything of the frame is checked.
    LengthTrustedUnchecked = "length_trusted_unchecked" [11];
    /// 12: a durable write is acknowledged when its frame is written, before the flush.
    AcknowledgedBeforeFlush = "acknowledged_before_flush" [12];
    /// 13: a durable write is acknowledged at once, and flushed within the window of relaxed ones.
    FlushOnATimer = "flush_on_a_timer" [13];
    /// 14: a checkpoint does not wait for the log to be durable up to what its pages hold.
    CheckpointBeforeLogFlush = "checkpoint_before_log_flush" [14];
    /// 15: log segments are reused from the beginning of the checkpoint that makes them unneeded.
    LogReusedBeforePagesFlushed = "log_reused_before_pages_flushed" [15];
    /// 16: a segment that is used again keeps its old header.
    SegmentHeaderNotRewritten = "segment_header_not_rewritten" [16];
    /// 17: write-through frames are acknowledged each on its own, be those before them written or not.
    NewerFrameBeforeOlder = "newer_frame_before_older" [17];
    /// 18: a frame does not wait for the large values that it points to.
    PointerBeforeValue = "pointer_before_value" [18];
    /// 19: a checkpoint's pages are not flushed before the superblock refers to them.
    CheckpointPagesNotFlushed = "checkpoint_pages_not_flushed" [19];
    /// 21: a segment is free before the superblock that makes it unneeded is written.
    FreedBeforeSuperblock = "freed_before_superblock" [21];
    /// 22: the superblock refers to pages whose writes nobody has waited for.
    SuperblockBeforePages = "superblock_before_pages" [22];
    /// 23: when a superblock cannot be written, the copies that are left are wiped.
    FailedPublicationWipes = "failed_publication_wipes" [23];
    /// 24: only one half of the superblock's copies is ever looked at.
    NoFallbackToOlderRoot = "no_fallback_to_older_root" [24];
    /// 25: a superblock's checksum is not checked, and recovery writes a right one.
    TornRootMadeValid = "torn_root_made_valid" [25];
    /// 26: recovery publishes another superblock under a generation that was used before.
    GenerationReused = "generation_reused" [26];
    /// 27: a segment of large values is free as soon as the last of them is overwritten.
    ExtentFreedAtOnce = "extent_freed_at_once" [27];
    /// 28: the superblock's generation lies outside its checksum.
    GenerationOutsideChecksum = "generation_outside_checksum" [28];
    /// 29: sequence numbers start again at 1 after a recovery.
    SequencesStartAgain = "sequences_start_again" [29];
    /// 30: recovery reuses the pages of the checkpoint before while it is still the one in force.
    RecoveryReclaimsTooEarly = "recovery_reclaims_too_early" [30];
    /// 31: recovery does not flush the new epoch before it appends.
    NewEpochNotFlushed = "new_epoch_not_flushed" [31];
    /// 32: a flush that failed is tried again, and the next success counts for both.
    FailedFlushRetried = "failed_flush_retried" [32];
    /// 33: a commit that failed is reported as undone, and may survive.
    FailedCommitReportedUndone = "failed_commit_reported_undone" [33];
    /// 34: an error of a commit's flush is ignored.
    FlushErrorIgnored = "flush_error_ignored" [34];
    /// 35: on a device with a volatile cache, plain writes are taken for write-through ones.
    PlainWriteTakenForDurable = "plain_write_taken_for_durable" [35];
    /// 36: a value read back is not checked against the reference to it, so an old neighbour passes.
    OldNeighbourTaken = "old_neighbour_taken" [36];
    /// 37: replay drops a delete whose key it has seen no put of, though an older version is in the checkpoint.
    TombstoneDropped = "tombstone_dropped" [37];
    /// 38: a segment freed through the log is used again before the log is known to say that it is free.
    LogFreedUnproven = "log_freed_unproven" [38];
    /// 38: garbage collection frees a victim when its live records are appended elsewhere, before that is durable.
    VictimFreedAtOnce = "victim_freed_at_once" [38];
    /// 39: garbage collection moves what was overwritten meanwhile, and replay applies the move over the newer value.
    MoveOverwritesNewer = "move_overwrites_newer" [39];
    /// 40: a batch is split over two frames.
    BatchSplitOverFrames = "batch_split_over_frames" [40];
    /// The superblock has one copy, which is written in place.
    SingleRootCopy = "single_root_copy" [];
    /// A publication overwrites first the half that may be the only one on the medium.
    ProvenHalfWrittenFirst = "proven_half_written_first" [];
    /// A commit's flush is submitted before its writes have completed.
    FlushBeforeWriteCompletes = "flush_before_write_completes" [];
    /// A frame states itself as durable when it is written.
    DurableStatedTooEarly = "durable_stated_too_early" [];
    /// The superblock is published once more and states what was handed in and not what is durable.
    RepublishedTooEarly = "republished_too_early" [];
    /// Replay starts where the log is when a checkpoint is done, not where it was when it began.
    ReplayStartsTooLate = "replay_starts_too_late" [];
    /// The checkpoint's table of log segments lacks the last one.
    TableIncomplete = "table_incomplete" [];
    /// A checkpoint that writes what has changed leaves out the keys that were deleted.
    DeletesLeftOutOfCheckpoint = "deletes_left_out_of_checkpoint" [];
    /// A checkpoint that writes what has changed leaves out the values that garbage collection has moved.
    MovesLeftOutOfCheckpoint = "moves_left_out_of_checkpoint" [];
    /// A checkpoint takes a key that was deleted for deleted, though it was put again.
    ReturnedKeysTakenForDeleted = "returned_keys_taken_for_deleted" [];
    /// An entry leaves memory though it has changed since the last checkpoint.
    ChangedEntriesForgotten = "changed_entries_forgotten" [];
    /// A key that was removed since the last checkpoint is looked up in the runs.
    RemovedKeysLookedUp = "removed_keys_looked_up" [];
    /// A base that is merged from runs brings back keys that were removed.
    RemovedKeysMerged = "removed_keys_merged" [];
    /// A base that is merged from runs has what they had of a key that has changed.
    OlderEntriesMerged = "older_entries_merged" [];
    /// A run that is joined of older ones and what has changed leaves out that keys were removed.
    JoinedWithoutDeletes = "joined_without_deletes" [];
    /// What a blind write replaces is looked up and not subtracted.
    ReplacedStaysCounted = "replaced_stays_counted" [];
    /// Of what blind writes replaced, the oldest that the runs have is subtracted.
    OldestIsSubtracted = "oldest_is_subtracted" [];
    /// A checkpoint replaces the runs before what blind writes replaced is subtracted.
    RunsReplacedUnderBlindWrites = "runs_replaced_under_blind_writes" [];
    /// A write does not wait for the entry that it replaces though a snapshot reads it.
    BlindUnderSnapshot = "blind_under_snapshot" [];
    /// A write does not wait for the entry that it replaces though a get waits for it.
    BlindBesideGets = "blind_beside_gets" [];
    /// A blind delete leaves the key to the runs.
    BlindDeleteLost = "blind_delete_lost" [];
    /// A write is refused by what is counted, though less may be there.
    SurplusRefuses = "surplus_refuses" [];
    /// A key is looked up in the oldest of its runs first.
    OldestRunFirst = "oldest_run_first" [];
    /// What is live of entries that stay out of memory is not counted as the index is loaded.
    ForgottenNotCounted = "forgotten_not_counted" [];
    /// An opening believes that no value lies outside of the index, whatever the superblock says.
    OutsideLeftUncounted = "outside_left_uncounted" [];
    /// The list of partitions leads from each run to the filter of the next one.
    FilterOfNextNamed = "filter_of_next_named" [];
    /// The table of a checkpoint lacks the segments of extents, so an opening takes them for free.
    TableWithoutExtents = "table_without_extents" [];
    /// Segments in which nothing live was counted are freed before everything is counted.
    FreedBeforeCounted = "freed_before_counted" [];
    /// As the index is loaded, what the runs have of a key replaces what memory has.
    LoadedOverNewer = "loaded_over_newer" [];
    /// A delete of a key that is not loaded leaves it to the runs.
    UnloadedDeleteLost = "unloaded_delete_lost" [];
    /// What changes while a checkpoint is being written is not in the next one.
    ChangesMeanwhileForgotten = "changes_meanwhile_forgotten" [];
    /// A checkpoint frees all pages of the one before, though it refers to some of them.
    OlderRunsFreed = "older_runs_freed" [];
    /// A sync is answered without waiting.
    SyncDoesNotWait = "sync_does_not_wait" [];
    /// A clean close does not make the log durable.
    CloseDoesNotFlush = "close_does_not_flush" [];
    /// Relaxed writes are flushed when somebody asks for it, and not within their window.
    RelaxedWindowForgotten = "relaxed_window_forgotten" [];
    /// In write-through mode, frames written without it count as durable.
    RelaxedFramesNotFlushed = "relaxed_frames_not_flushed" [];
    /// Recovery trusts frames that it has read but that nothing states as durable, and does not write them anew.
    UnprovenTailTrusted = "unproven_tail_trusted" [];
    /// Recovery takes a frame whose large values are not there.
    ExtentsNotChecked = "extents_not_checked" [];
    /// A write is absorbed by a version that a snapshot reads.
    AbsorbedUnderSnapshot = "absorbed_under_snapshot" [];
    /// A write is absorbed by a record of a frame that is sealed already: in memory only.
    AbsorbedIntoSealedFrame = "absorbed_into_sealed_frame" [];
    /// A value that was absorbed stays in the cache in its older form.
    AbsorbedValueCached = "absorbed_value_cached" [];
    /// What a rewrite of the tail has written is not flushed before the new epoch refers to it.
    TailRewriteNotFlushed = "tail_rewrite_not_flushed" [];
    /// An opening writes without a flush before, though a killed process may have written to the same places, or have left a superblock in the cache only.
    OpeningUnordered = "opening_unordered" [];
    /// Flushes of checkpoints and commits are under way at once, and one counts although another has failed.
    OthersFailureIgnored = "others_failure_ignored" [];
    /// Deletes are left out of what replay applies.
    DeletesNotReplayed = "deletes_not_replayed" [];
    /// Recovery writes the tail anew without publishing its superblock once more, though the next power cut may bring back the one before.
    HalfPublishedTrusted = "half_published_trusted" [];
    /// The second half of a superblock's copies is written before the first half is flushed.
    HalvesNotFlushedApart = "halves_not_flushed_apart" [];
    /// A half of the superblock's copies that holds zeros is taken for one that was never written, and the other half is written first.
    BlankHalfSpared = "blank_half_spared" [];
    /// An opening that has found the newest superblock in one half only overwrites both copies of that half at once.
    NewestPairOverwritten = "newest_pair_overwritten" [];
    /// A durable batch without mutations is acknowledged without waiting.
    EmptyBatchDoesNotWait = "empty_batch_does_not_wait" [];
    /// In write-through mode, relaxed writes lose their deadline while frames still need a flush.
    RelaxedDeadlineDropped = "relaxed_deadline_dropped" [];
    /// A segment that is freed while it is read stays unusable when its last reader is done.
    DrainedSegmentKept = "drained_segment_kept" [];
    /// What is freed while a scan reads the index is handed out anew at once.
    ScanHoldsNothing = "scan_holds_nothing" [];
    /// Where both have a key, a scan takes what the runs have, and not what memory had when it arrived.
    ScanPrefersRuns = "scan_prefers_runs" [];
    /// A leaf that is kept in memory is taken for whatever leaf lies there by now.
    LeafKeptByPlace = "leaf_kept_by_place" [];
    /// Keys behind those of the last partition's base count as behind all others, whatever its other runs have.
    AppendedBehindBase = "appended_behind_base" [];
    /// A write that was acknowledged ahead and for which there is no room any more is dropped.
    PromisedWriteForgotten = "promised_write_forgotten" [];
    /// A write that was acknowledged ahead and is in memory alone counts as durable with the others.
    BrokenPromiseUnnoticed = "broken_promise_unnoticed" [];
    /// Runs that a checkpoint replaces are freed although something is still to be subtracted of them.
    ReplacedRunsNotHeld = "replaced_runs_not_held" [];
    /// Releasing a snapshot drops old versions and leaves their bytes counted as live.
    ReleasedVersionsStayLive = "released_versions_stay_live" [];
    /// A pointer to a large value is followed wherever it leads.
    PointerBoundsNotChecked = "pointer_bounds_not_checked" [];
}

/// The one that is switched on, counted from 1.
#[cfg(feature = "mutants")]
static ON: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether this mutant is switched on.
#[cfg(feature = "mutants")]
pub(crate) fn mutant(which: Mutant) -> bool {
    ON.load(std::sync::atomic::Ordering::Relaxed) == which as u8 + 1
}

/// Never: this is an ordinary build.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn mutant(_: Mutant) -> bool {
    false
}

/// Switches a mutant on, or whichever was on off.
#[cfg(feature = "mutants")]
pub(crate) fn switch_on(which: Option<Mutant>) {
    let number = which.map_or(0, |which| which as u8 + 1);
    ON.store(number, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// The mutant of this name.
    pub(crate) fn named(name: &str) -> Option<Mutant> {
        Mutant::ALL
            .iter()
            .copied()
            .find(|which| which.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a name means one mutant, and every mutant says what it does. Method: all of them.
    #[test]
    fn names_are_different_and_sentences_end() {
        for (at, which) in Mutant::ALL.iter().enumerate() {
            let others = Mutant::ALL[at + 1..].iter();
            assert!(others.into_iter().all(|other| other.name() != which.name()));
            assert!(which.sentence().ends_with('.'), "{which:?}");
        }
    }
}
