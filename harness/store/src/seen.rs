//! How clients come, and what was seen of them while the clock ran.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::counters::Counters;
use crate::script::Action;

/// Latencies are kept to three figures, up to a minute.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// How the clients come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Before the clock runs.
    pub warm_up: Duration,
    /// While it runs.
    pub measured: Duration,
    /// Requests a second of all clients together; `None`: as fast as they are answered.
    pub rate: Option<f64>,
    /// Clients are tasks on one thread, not threads.
    pub tasks: bool,
}

/// What was seen while the clock ran.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How long that was.
    pub elapsed: Duration,
    /// Latencies in nanoseconds, by action.
    pub latency: Vec<(Action, Histogram<u64>)>,
    /// Keys and values that clients wrote.
    pub user_bytes: u64,
    /// Commits: puts, inserts, deletes, and the write of a read-modify-write.
    pub commits: u64,
    /// What process and device counted.
    pub counters: Counters,
    /// What the engine counted itself.
    pub own: Vec<(String, u64)>,
}

impl Seen {
    /// Operations; a read-modify-write is one.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.latency
            .iter()
            .map(|(_, histogram)| histogram.len())
            .sum()
    }

    /// Operations a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate has no more than 15 figures"
        )]
        let operations = self.operations() as f64;
        operations / self.elapsed.as_secs_f64()
    }

    /// Latencies of all actions together.
    ///
    /// # Panics
    /// If a histogram is not one of [`histogram`].
    #[must_use]
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = histogram();
        for (_, one) in &self.latency {
            all.add(one).expect("they have the same bounds");
        }
        all
    }
}

/// An empty histogram of latencies; all have the same bounds.
///
/// # Panics
/// Never: the bounds are constants.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are fine")
}
