//! What it takes to bring a client that waited for the disk back onto a processor.
//!
//! A bare group commit ([`Gauge::returns`]) with as many threads as a workload may have clients: the time between two of them that
//! come back after a write, less the work that each does there. In the simulator, whose guest has one processor, that is what a
//! client pays whose turn has not come yet when it is answered.

use std::time::Duration;

use kvsim_native::gauge::Gauge;
use kvsim_simdisk::LatencyConfig;

/// Clients that come back together.
const CLIENTS: [usize; 3] = [2, 8, 32];
/// Returns of each number of clients that are looked at.
const RETURNS: usize = 20_000;

/// The cost of turns.
#[derive(Debug, Clone)]
pub struct Turns {
    /// Of all numbers of clients alike.
    pub turn: LatencyConfig,
    /// The median by the number of clients.
    pub medians_ns: Vec<(usize, u64)>,
}

/// Measures; `work_ns`: what each client does when it has come back.
///
/// # Errors
/// The file cannot be written.
pub fn measure(gauge: &Gauge, work_ns: u64) -> Result<Turns, String> {
    let (mut all, mut medians_ns) = (Vec::new(), Vec::new());
    for clients in CLIENTS {
        let rounds = RETURNS / (clients - 1);
        let seen = gauge
            .returns(
                clients,
                Duration::from_nanos(work_ns),
                rounds.min(RETURNS / 4),
            )
            .map_err(|error| error.to_string())?;
        let between = |round: &Vec<u64>| -> Vec<u64> {
            let pairs = round.windows(2);
            pairs
                .map(|pair| (pair[1] - pair[0]).saturating_sub(work_ns))
                .collect()
        };
        let mut gaps: Vec<u64> = seen.rounds.iter().flat_map(between).collect();
        gaps.sort_unstable();
        medians_ns.push((clients, gaps.get(gaps.len() / 2).copied().unwrap_or(0)));
        all.extend(gaps);
    }
    Ok(Turns {
        turn: LatencyConfig::measured(&mut all),
        medians_ns,
    })
}
