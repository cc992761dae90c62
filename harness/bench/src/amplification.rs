//! What was written for each byte that clients wrote, as three parties count it, and what each commit cost in changes of context.
//!
//! - the device: every process on the machine, and the file system's own writes (its journal, for one);
//! - the process: what the kernel charges to this one, page cache and all; under direct I/O exactly what was handed to the device;
//! - the engine: what it asked its driver to write, growth included. Only ours tells.
//!
//! The last two have to agree: `engine/native/tests/amplification.rs` holds them to 2 %.

use std::fmt::Write as _;

use serde::Serialize;

use super::load::Seen;
use super::report::share;
use super::rounds::{Row, Table};

/// The figures of one round. What nobody counted is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Amplification {
    /// Written to the device ÷ written by clients.
    pub device: Option<f64>,
    /// Charged to this process ÷ written by clients.
    pub process: Option<f64>,
    /// Asked for by the engine ÷ written by clients.
    pub engine: Option<f64>,
    /// Changes of context of this process for each commit, clients' own included.
    pub context_switches_per_commit: Option<f64>,
    /// Threads that the engine had to wake from sleep, for each commit.
    pub wake_ups_per_commit: Option<f64>,
}

impl Amplification {
    /// Of a round.
    #[must_use]
    pub fn of(seen: &Seen) -> Amplification {
        let own = |name: &str| {
            let found = seen.own.iter().find(|(counted, _)| counted == name);
            found.map(|(_, count)| *count)
        };
        let engine = own("written_bytes").map(|bytes| bytes + own("grown_bytes").unwrap_or(0));
        let counted = |bytes: u64| (bytes > 0).then_some(bytes);
        let of_user = |bytes: Option<u64>| share(bytes?, seen.user_bytes);
        Amplification {
            device: of_user(counted(seen.counters.device_written_bytes)),
            process: of_user(counted(seen.counters.process_written_bytes)),
            engine: of_user(engine),
            context_switches_per_commit: share(seen.counters.context_switches, seen.commits),
            wake_ups_per_commit: own("wake_ups").and_then(|count| share(count, seen.commits)),
        }
    }
}

/// A line for each engine; nothing if nobody wrote anything.
#[must_use]
pub fn text(table: &Table) -> String {
    let mut text = String::new();
    let wrote = |row: &&Row| row.rounds.iter().any(|seen| seen.commits > 0);
    for row in table.rows.iter().filter(wrote) {
        let median = |figure: &dyn Fn(&Amplification) -> Option<f64>| {
            let of = |seen: &Seen| figure(&Amplification::of(seen)).unwrap_or(f64::NAN);
            let spread = row.spread(of).filter(|spread| spread.median.is_finite());
            spread.map_or_else(|| "–".to_owned(), |spread| format!("{:.2}", spread.median))
        };
        let _ = writeln!(
            text,
            "  {}: written ÷ written by clients: {} by the device, {} by the process, {} by the engine's own count; for each commit {} context switches, {} wake-ups",
            row.engine,
            median(&|one| one.device),
            median(&|one| one.process),
            median(&|one| one.engine),
            median(&|one| one.context_switches_per_commit),
            median(&|one| one.wake_ups_per_commit),
        );
    }
    text
}
