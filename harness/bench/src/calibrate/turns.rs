//! What it takes to bring a client that waited for the disk back onto a processor, and what a commit's write takes while clients wait.
//!
//! A bare group commit ([`Gauge::returns`]) with as many threads as a workload may have clients. Measured is the time
//! between two of them that come back after a write, less the work that each does there. In the simulator, whose guest
//! has one processor, a client is charged that time if its turn has not come yet when it is answered.
//!
//! The writes of these groups are write-throughs one at a time, like those of depth 1, but quicker: while clients come
//! and go, the processors do not fall asleep. Waking them is a good part of a quick device's latency. So the profile's
//! latency of a write-through is made from these writes.

use std::time::Duration;

use super::super::numbers::float;
use kvsim_native::gauge::{Gauge, Returns};
use kvsim_simdisk::LatencyConfig;

/// Clients that come back together.
const CLIENTS: [usize; 3] = [1, 8, 32];
/// Groups that are looked at, of each number of clients, where nobody says otherwise.
pub const GROUPS: usize = 1_500;

/// The cost of turns.
#[derive(Debug, Clone)]
pub struct Turns {
    /// From one client to the next, less the work of one, of all numbers of clients alike.
    pub turn: LatencyConfig,
    /// Processors of the machine.
    pub processors: u32,
    /// The processor time of a client that comes back, derived from the time from one client to the next. So many
    /// processors bring clients back at once, and each client's work is added ([`crate::host`]).
    pub client: LatencyConfig,
    /// By the number of clients.
    pub groups: Vec<Group>,
}

/// Groups of one number of clients.
#[derive(Debug, Clone)]
pub struct Group {
    /// So many.
    pub clients: usize,
    /// Bytes of a group.
    pub size_bytes: usize,
    /// The median time from one client to the next; `None` for a client alone.
    pub turn_ns: Option<u64>,
    /// How long the writes took, sorted.
    pub writes_ns: Vec<u64>,
}

/// Measures with so many groups, so many times, of which the middle one counts; `work_ns`: what each client does when it has come back;
/// `woken_ns`: what an engine's work takes longer than that of these groups, which is none and needs nothing near.
///
/// # Errors
/// The file cannot be written.
pub fn measure(
    gauge: &Gauge,
    work_ns: u64,
    woken_ns: u64,
    passes: u32,
    count: usize,
) -> Result<Turns, String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = u32::try_from(processors).unwrap_or(1);
    let (mut all, mut groups) = (Vec::new(), Vec::new());
    for clients in CLIENTS {
        let mut seen = Vec::new();
        for _ in 0..passes {
            let pass = gauge.returns(clients, Duration::from_nanos(work_ns), count);
            seen.push(pass.map_err(|error| error.to_string())?);
        }
        let seen = super::middle(seen, took);
        let between = |round: &Vec<u64>| -> Vec<u64> {
            let pairs = round.windows(2);
            pairs
                .map(|pair| (pair[1] - pair[0]).saturating_sub(work_ns))
                .collect()
        };
        let mut turns: Vec<u64> = seen.rounds.iter().flat_map(between).collect();
        // As many of each number of clients.
        all.extend(turns.iter().step_by((clients - 1).max(1)));
        turns.sort_unstable();
        let mut writes_ns = seen.writes_ns;
        writes_ns.sort_unstable();
        groups.push(Group {
            clients,
            size_bytes: seen.size_bytes,
            turn_ns: turns.get(turns.len() / 2).copied(),
            writes_ns,
        });
    }
    let mut costs: Vec<u64> = all
        .iter()
        .map(|turn| client_ns(*turn, work_ns, processors) + woken_ns)
        .collect();
    Ok(Turns {
        turn: LatencyConfig::measured(&mut all),
        processors,
        client: LatencyConfig::measured(&mut costs),
        groups,
    })
}

/// What a client costs if clients that work for `work_ns` each follow one another at `turn_ns + work_ns`. With a cost
/// of `c` and `p` processors, that is `(c + work_ns) / p`.
fn client_ns(turn_ns: u64, work_ns: u64, processors: u32) -> u64 {
    ((turn_ns + work_ns) * u64::from(processors)).saturating_sub(work_ns)
}

/// How long all groups of a pass took, for a comparison.
fn took(pass: &Returns) -> f64 {
    let last = pass.rounds.iter().filter_map(|round| round.last());
    let sum: u64 = last.chain(&pass.writes_ns).sum();
    float(sum)
}
