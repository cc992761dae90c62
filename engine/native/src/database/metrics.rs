//! What is counted, by name, for programs that watch others.

use std::fmt;

use kvsim_engine::Stats;

use super::Database;
use crate::sync::leader::Counts;

/// One number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name: `kvsim_` and what it counts, with `_total` at the end of what only grows.
    pub name: &'static str,
    /// What it counts, as a sentence.
    pub help: &'static str,
    /// Whether it only grows, from 0 at the opening.
    pub is_counter: bool,
    /// How much.
    pub value: u64,
}

/// All numbers of a database. Printed, they are in the text format of Prometheus.
#[derive(Debug, Clone)]
pub struct Metrics(Vec<Metric>);

impl Metrics {
    /// The numbers, always in the same order.
    pub fn iter(&self) -> impl Iterator<Item = &Metric> {
        self.0.iter()
    }

    /// The number of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        let metric = self.iter().find(|metric| metric.name == name)?;
        Some(metric.value)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for metric in &self.0 {
            let kind = if metric.is_counter {
                "counter"
            } else {
                "gauge"
            };
            let Metric {
                name, help, value, ..
            } = metric;
            writeln!(
                f,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
            )?;
        }
        Ok(())
    }
}

impl Database {
    /// What was counted since the opening, by name. It takes the engine's lock for a moment.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = OpenOptions::new().size_bytes(16 << 20).open(directory.path().join("a"))?;
    /// database.put(b"key", b"value", Durability::Durable)?;
    /// let metrics = database.metrics();
    /// assert_eq!(metrics.get("kvsim_keys"), Some(1));
    /// assert!(metrics.to_string().contains("# TYPE kvsim_log_bytes_total counter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let file_bytes = self.0.file.len_bytes();
        let is_read_only = self.read_only().is_some();
        Metrics(metrics(&self.counts(), file_bytes, is_read_only))
    }
}

fn metrics(counts: &Counts, file_bytes: u64, is_read_only: bool) -> Vec<Metric> {
    let counter = |name, help, value| Metric {
        name,
        help,
        is_counter: true,
        value,
    };
    let gauge = |name, help, value| Metric {
        name,
        help,
        is_counter: false,
        value,
    };
    let (stats, io): (&Stats, _) = (&counts.engine, &counts.io);
    vec![
        gauge("kvsim_keys", "Keys that there are.", stats.keys),
        gauge(
            "kvsim_index_memory_bytes",
            "What the entries of the index take in memory.",
            stats.index_memory_bytes,
        ),
        gauge("kvsim_file_bytes", "Size of the file.", file_bytes),
        gauge("kvsim_segments", "Segments of the file.", stats.segments),
        gauge(
            "kvsim_segment_bytes",
            "Bytes of a segment.",
            stats.segment_bytes,
        ),
        gauge(
            "kvsim_free_segments",
            "Segments that are free.",
            stats.free_segments,
        ),
        gauge(
            "kvsim_read_only",
            "Whether writes are refused, because the database was opened so or the disk failed.",
            u64::from(is_read_only),
        ),
        counter(
            "kvsim_user_bytes_total",
            "Keys and values that were written.",
            stats.user_bytes,
        ),
        counter(
            "kvsim_absorbed_bytes_total",
            "Of these, what took the place of an older value before that was written.",
            stats.absorbed_bytes,
        ),
        counter(
            "kvsim_log_bytes_total",
            "Log written, with headers and padding.",
            stats.log_bytes,
        ),
        counter(
            "kvsim_frames_total",
            "Frames of the log written.",
            stats.frames,
        ),
        counter(
            "kvsim_extent_bytes_total",
            "Large values written.",
            stats.extent_bytes,
        ),
        counter(
            "kvsim_checkpoint_bytes_total",
            "Checkpoint pages and superblocks written.",
            stats.checkpoint_bytes,
        ),
        counter(
            "kvsim_checkpoints_total",
            "Checkpoints published.",
            stats.checkpoints,
        ),
        counter(
            "kvsim_relocated_bytes_total",
            "Records moved by garbage collection.",
            stats.relocated_bytes,
        ),
        counter(
            "kvsim_relocated_from_cache_bytes_total",
            "Of these, what was in memory and not read.",
            stats.relocated_from_cache_bytes,
        ),
        counter(
            "kvsim_collected_segments_total",
            "Segments that garbage collection emptied.",
            stats.collected_segments,
        ),
        counter(
            "kvsim_log_freed_segments_total",
            "Segments given back between checkpoints.",
            stats.log_freed_segments,
        ),
        counter(
            "kvsim_republications_total",
            "Superblocks published only to state what is durable.",
            stats.republications,
        ),
        counter(
            "kvsim_commit_flushes_total",
            "Flushes that commits waited for.",
            stats.commit_flushes,
        ),
        counter(
            "kvsim_index_reads_total",
            "Pages of the index read from the disk, for entries that are not in memory.",
            stats.index_reads,
        ),
        counter(
            "kvsim_value_reads_total",
            "Values read from the disk.",
            stats.value_reads,
        ),
        counter(
            "kvsim_cache_hits_total",
            "Values found in the engine's own cache.",
            stats.cache_hits,
        ),
        counter(
            "kvsim_stalls_total",
            "Times that a request waited for space, buffer or entries of the index.",
            stats.stalls,
        ),
        counter(
            "kvsim_stalled_nanoseconds_total",
            "How long there was such a request.",
            stats.stalled_ns,
        ),
        gauge(
            "kvsim_replayed_frames",
            "Frames that the opening replayed.",
            stats.replayed_frames,
        ),
        gauge(
            "kvsim_replayed_bytes",
            "Bytes of the log that the opening replayed.",
            stats.replayed_bytes,
        ),
        gauge(
            "kvsim_cut_tail",
            "Whether the opening cut a torn tail off.",
            u64::from(stats.cut_tail),
        ),
        gauge(
            "kvsim_tail_rewritten",
            "Whether the opening wrote a tail anew that nothing proved durable.",
            u64::from(stats.tail_rewritten),
        ),
        gauge(
            "kvsim_tail_rewrite_bytes",
            "How much of it.",
            stats.tail_rewrite_bytes,
        ),
        counter("kvsim_disk_reads_total", "Reads of the disk.", io.reads),
        counter(
            "kvsim_disk_read_bytes_total",
            "Bytes read from the disk.",
            io.read_bytes,
        ),
        counter(
            "kvsim_disk_writes_total",
            "Writes to the disk, write-through ones included.",
            io.writes,
        ),
        counter(
            "kvsim_disk_through_writes_total",
            "Writes that were durable when they ended.",
            io.through_writes,
        ),
        counter(
            "kvsim_disk_written_bytes_total",
            "Bytes written to the disk.",
            io.written_bytes,
        ),
        counter(
            "kvsim_disk_flushes_total",
            "Flushes of the disk.",
            io.flushes,
        ),
        counter(
            "kvsim_disk_grown_bytes_total",
            "Zeroes written to make the file longer.",
            io.grown_bytes,
        ),
        counter(
            "kvsim_wake_ups_total",
            "Threads that were woken from sleep.",
            counts.wake_ups,
        ),
        counter(
            "kvsim_turns_total",
            "Times that a thread waited for the disk.",
            counts.turns,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: everything that is counted is there, by the name of its field, once, with a sentence. Method: the fields as they are printed.
    #[test]
    fn everything_that_is_counted_is_there() {
        let all = metrics(&Counts::default(), 0, false);
        let printed = format!("{:#?}", Counts::default());
        let fields: Vec<&str> = printed
            .lines()
            .filter_map(|line| line.trim().strip_suffix(',')?.split_once(": "))
            .map(|(field, _)| field)
            .collect();
        assert!(fields.len() > 30, "{printed}");
        for field in fields {
            let field = field.replace("stalled_ns", "stalled_nanoseconds");
            let is_it = |metric: &&Metric| {
                let name = metric
                    .name
                    .trim_start_matches("kvsim_")
                    .trim_end_matches("_total");
                name == field || name.strip_prefix("disk_") == Some(&field)
            };
            assert_eq!(all.iter().filter(is_it).count(), 1, "{field}");
        }
        for metric in &all {
            assert!(metric.help.ends_with('.') && !metric.help.contains('\n'));
            assert_eq!(metric.is_counter, metric.name.ends_with("_total"));
        }
    }
}
