//! Counters of what the engine did, for amplification and for tests that want to know that something happened.

/// Counters since the opening. Bytes are what was submitted to the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys and values that clients wrote.
    pub user_bytes: u64,
    /// Of these, what took the place of an older value of the same frame, and so cost no log.
    pub absorbed_bytes: u64,
    /// Frames written, with headers and padding.
    pub log_bytes: u64,
    /// Frames written.
    pub frames: u64,
    /// Large values written.
    pub extent_bytes: u64,
    /// Checkpoint pages and superblocks written.
    pub checkpoint_bytes: u64,
    /// Records moved by garbage collection, headers included.
    pub relocated_bytes: u64,
    /// Of these, what was in memory and did not have to be read.
    pub relocated_from_cache_bytes: u64,
    /// Flushes on the commit path.
    pub commit_flushes: u64,
    /// Checkpoints published.
    pub checkpoints: u64,
    /// Segments that garbage collection emptied.
    pub collected_segments: u64,
    /// Segments given back between checkpoints.
    pub log_freed_segments: u64,
    /// Superblocks published only to state what is durable, so that openings can use such segments.
    pub republications: u64,
    /// Reads of values from the device.
    pub value_reads: u64,
    /// Reads of pages of the index, for entries that are not in memory.
    pub index_reads: u64,
    /// Values found in the cache.
    pub cache_hits: u64,
    /// Frames replayed at the opening.
    pub replayed_frames: u64,
    /// Bytes of these frames, with headers.
    pub replayed_bytes: u64,
    /// Whether the opening cut a torn tail off.
    pub cut_tail: bool,
    /// Records and large values that the opening wrote anew, since nothing stated that they were durable.
    pub tail_rewrite_bytes: u64,
    /// Whether the opening went that way, with or without values to write.
    pub tail_rewritten: bool,
    /// Times a request had to wait for space, buffer or entries of the index.
    pub stalls: u64,
    /// How long there was such a request, in nanoseconds.
    pub stalled_ns: u64,
    /// Live keys now. With `index_bytes` this is about so: what a write has replaced that did not wait for it is subtracted a little later, or taken for one key where no value lies
    /// outside the index. After an opening that has loaded the index it is exact.
    pub keys: u64,
    /// What the entries of the index take in memory now, as far as can be told.
    pub index_memory_bytes: u64,
    /// Segments free now.
    pub free_segments: u64,
    /// Segments of the device.
    pub segments: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
}
