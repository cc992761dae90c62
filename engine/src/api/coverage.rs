//! Coverage points: named points of the engine that a test wants to know were come to. Whoever tests the engine sees which of them were reached,
//! and, more to the point, which never.
//!
//! Invariant: a coverage point changes nothing. It leaves through the port like a log line, and a port that does not care drops it.

/// Declares the coverage points once: variant, name, meaning.
macro_rules! coverage_points {
    ($($(#[doc = $meaning:literal])+ $point:ident = $name:literal,)+) => {
        /// A named point. The numbers are the places in [`CoveragePoint::ALL`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum CoveragePoint {
            $($(#[doc = $meaning])+ $point,)+
        }

        impl CoveragePoint {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [CoveragePoint] = &[$(CoveragePoint::$point,)+];

            /// Its name: the part of the engine, a full stop, and what happened there.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(CoveragePoint::$point => $name,)+
                }
            }

            /// What it means that the engine came there, as one sentence; the book's table has the same.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(CoveragePoint::$point => concat!($($meaning),+),)+
                }
            }
        }
    };
}

coverage_points! {
    /// A blank device was formatted.
    Created = "create.blank",
    /// What an interrupted creation had left was formatted over.
    CreatedAgain = "create.interrupted",
    /// One half of the superblock's copies is newer than the other.
    SuperblockHalfNewer = "superblock.half_newer",
    /// A copy of the superblock is blank, and another one is not.
    SuperblockBlankCopy = "superblock.blank_copy",
    /// A copy of the superblock is damaged or torn, and another one is not.
    SuperblockTornCopy = "superblock.torn_copy",
    /// Only the half that was written last has the newest superblock: the other was damaged later.
    SuperblockSecondOnly = "superblock.second_half_only",
    /// The superblock that was chosen was published once more, before a tail was written anew.
    SuperblockPublishedAgain = "superblock.published_again",
    /// A checkpoint was read.
    CheckpointRead = "recovery.checkpoint_read",
    /// A checkpoint that was read had runs of changes behind its bases.
    CheckpointChangesRead = "recovery.changes_read",
    /// A checkpoint's tree had pages above its leaves.
    CheckpointInnerPage = "recovery.checkpoint_inner_page",
    /// Replay went on from one segment to the next.
    ReplayLink = "replay.segment_link",
    /// A segment was entered and no frame followed its header.
    ReplayEmptySegment = "replay.empty_segment",
    /// Replay applied frames of the log.
    ReplayFrames = "replay.frames_applied",
    /// A torn tail was cut off.
    ReplayTornTail = "replay.torn_tail",
    /// Beyond the end of the chain, a header of the present epoch states what was durable.
    ReplayStrayDurabilityRecord = "replay.stray_durability_record",
    /// Frames that nothing proves held commits.
    ReplayUnproven = "replay.unproven_commits",
    /// Frames that nothing proves held no commit, only moves, and were cut off.
    ReplayMovesCut = "replay.moves_cut",
    /// The extents of a frame that nothing proves were read and found whole.
    ReplayExtentChecked = "replay.extent_checked",
    /// A frame points to an extent that is not there, and was cut off.
    ReplayExtentMissing = "replay.extent_missing",
    /// A segment was given back between checkpoints, by the log.
    ReplaySegmentFreed = "replay.segment_freed",
    /// Unproven values were written anew, and a checkpoint refers to them.
    TailRewritten = "recovery.tail_rewritten",
    /// Among them was a large value.
    TailRewrittenExtent = "recovery.tail_rewritten_extent",
    /// A new epoch was made durable over a tail that is proven.
    EpochMade = "recovery.epoch_made",
    /// A read failed and was tried again.
    ReadRetried = "read.retried",
    /// The database was refused because it is damaged.
    RefusedDamaged = "recovery.refused_damaged",
    /// The database could not be opened because the device failed.
    RefusedDevice = "recovery.refused_device_error",
    /// The database could not be opened for want of space.
    RefusedNoSpace = "recovery.refused_no_space",
    /// A write or a flush failed, and the database became read-only.
    Poisoned = "write.poisoned",
    /// Writes were taken that had been promised.
    PromiseKept = "write.promise_kept",
    /// What had been promised could no longer be written, and took effect in memory.
    PromiseKeptInMemory = "write.promise_kept_in_memory",
    /// A checkpoint was published while clients were at work.
    CheckpointPublished = "checkpoint.published",
    /// A checkpoint wrote only what had changed, at least of some keys.
    CheckpointChanges = "checkpoint.changes",
    /// A checkpoint wrote keys that came behind all others as partitions of their own.
    CheckpointAppended = "checkpoint.appended",
    /// A checkpoint sorted what had changed, and did not look at all keys.
    CheckpointSorted = "checkpoint.changes_sorted",
    /// Entries of the index left memory.
    EntriesForgotten = "index.entries_forgotten",
    /// An entry of the index was read from a run, since it was not in memory.
    EntryRead = "index.entry_read",
    /// The page of a run was read for a key that the run does not have.
    EntryNotInRun = "index.entry_not_in_run",
    /// A checkpoint was published while an entry was read, which was then looked up in the new runs.
    EntryReadAgain = "index.entry_read_again",
    /// A client's write waited for an entry of the index.
    WriteAwaitedEntry = "index.write_awaited_entry",
    /// A client's write did not wait for the entry of the index that it replaced.
    WrittenBlindly = "index.written_blindly",
    /// What many such writes had replaced was read and subtracted together.
    BlindWritesSubtracted = "index.blind_writes_subtracted",
    /// A checkpoint replaced the runs before everything that such writes had replaced was subtracted.
    BlindWritesOutlivedRuns = "index.blind_writes_outlived_runs",
    /// A client's write left counted what it replaced.
    ReplacedLeftCounted = "index.replaced_left_counted",
    /// A checkpoint bounded what is counted by what stands in the runs.
    CountsBounded = "index.counts_bounded",
    /// All keys were written anew for a write that would not fit by what was counted.
    CountedAnew = "index.counted_anew",
    /// The keys of a range were read for a driver that asks for them.
    RangeRead = "index.range_read",
    /// A scan joined runs with what memory knew.
    ScanJoined = "index.scan_joined",
    /// A get outside the engine found an entry, and the engine learnt of it.
    EntryFoundOutside = "index.entry_found_outside",
    /// A scan outside the engine had joined the runs, and was shown where the values are.
    ScanJoinedOutside = "index.scan_joined_outside",
    /// A scan found a leaf in memory that another scan had read.
    LeafKept = "index.leaf_kept",
    /// A part of the index was read into memory to be written anew.
    PartitionRead = "index.partition_read",
    /// A part of the index was written anew though it did not fit into memory.
    PartitionMerged = "index.partition_merged",
    /// A checkpoint joined runs of a partition with what had changed.
    RunsJoined = "index.runs_joined",
    /// Garbage collection waited for entries of the index.
    CollectionAwaitedEntries = "index.collection_awaited_entries",
    /// The index was loaded behind an opening, while clients were at work.
    LoadedBehind = "index.loaded_behind",
    /// An index that does not fit into memory, and has all values, was loaded by the filters of its runs.
    LoadedByFilters = "index.loaded_by_filters",
    /// The filter of a run was read from the device.
    FilterRead = "index.filter_read",
    /// The filter of a run is damaged, and was made anew from its leaves.
    FilterMadeAnew = "index.filter_made_anew",
    /// The superblock was published once more, without a checkpoint, so that openings can use what the log has released.
    SuperblockRepublished = "superblock.republished",
    /// A sector failed all reads in an opening, on a device that otherwise reads.
    SectorUnreadable = "read.sector_unreadable",
}

#[cfg(test)]
mod tests {
    use super::CoveragePoint;

    /// Goal: a coverage point's number finds its name, and no two share one. Method: all of them.
    #[test]
    fn numbers_and_names_are_unique() {
        for (number, point) in (0..).zip(CoveragePoint::ALL) {
            assert_eq!(*point as u32, number);
        }
        let mut names: Vec<&str> = CoveragePoint::ALL
            .iter()
            .map(|point| point.name())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CoveragePoint::ALL.len());
    }
}
