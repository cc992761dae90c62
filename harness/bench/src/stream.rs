//! What a client does: operations drawn before the clock runs, from the scenario's own distributions.
//!
//! A client goes through its list over and over. The list is long enough that no cache learns it. Drawing is not part
//! of the measurement: a Zipfian draw takes as long as a read from memory.

use kvsim_simdisk::rng::{Purpose, Rng};
pub use kvsim_store::script::{Action, Key, Operation, Script, Values};

use kvsim_workload::zipf::{ScrambledZipfian, Zipfian};
use kvsim_workload::{OperationWeights, Popularity, ValueBytes, WorkloadConfig};

/// Operations in a client's list.
const DRAWN: usize = 1 << 18;
/// Incompressible bytes that values are cut from.
const POOL_BYTES: usize = 8 << 20;
/// Lengths that values are drawn from.
const LENGTHS: usize = 1 << 12;

/// The values of a workload, cut from incompressible bytes.
#[must_use]
pub fn values(workload: &WorkloadConfig, seed: u64) -> Values {
    let mut rng = Rng::new(seed, Purpose::Workload);
    let lengths: Vec<u32> = (0..LENGTHS)
        .map(|n| u32::try_from(length(&workload.value_bytes, n, &mut rng)).unwrap_or(u32::MAX))
        .collect();
    let longest = lengths.iter().max().copied().unwrap_or(0) as usize;
    let mut pool = vec![0; POOL_BYTES.max(2 * longest)];
    rng.fill_bytes(&mut pool);
    // Beside what is random, zeroes: so much of each kilobyte compresses away.
    let zeroes = usize::from(workload.compressible_percent.min(100)) * 1024 / 100;
    for piece in pool.chunks_mut(1024) {
        let len = piece.len().min(zeroes);
        piece[..len].fill(0);
    }
    Values::cut(pool, lengths)
}

/// What all clients of a workload do.
///
/// # Errors
/// As of [`draw`].
pub fn script(workload: &WorkloadConfig, seed: u64) -> Result<Script, String> {
    let lists = (0..u64::from(workload.clients)).map(|client| draw(workload, seed, client));
    Ok(Script {
        key_bytes: workload.key_bytes,
        preload: workload.preload,
        next_key: workload.keys.max(workload.preload),
        from_latest: workload.popularity == Popularity::Latest,
        lists: lists.collect::<Result<Vec<_>, _>>()?,
        values: values(workload, seed),
    })
}

fn length(value_bytes: &ValueBytes, n: usize, rng: &mut Rng) -> u64 {
    match value_bytes {
        ValueBytes::Fixed(len) => *len,
        ValueBytes::InTurn(all) => all[n % all.len()],
        ValueBytes::Range(range) => rng.range(range.min, range.max),
        ValueBytes::Weighted(all) => {
            let total: u64 = all.iter().map(|one| u64::from(one.weight)).sum();
            let mut at = rng.below(total.max(1));
            for one in all {
                if at < u64::from(one.weight) {
                    return one.bytes;
                }
                at -= u64::from(one.weight);
            }
            0
        }
    }
}

/// A client's list of operations.
///
/// # Errors
/// The workload asks for what benchmarks do not do, or for too many keys.
pub fn draw(workload: &WorkloadConfig, seed: u64, client: u64) -> Result<Vec<Operation>, String> {
    let keys = u32::try_from(workload.keys)
        .map_err(|_| "workload.keys is beyond what a benchmark draws, 4,294,967,295".to_owned())?;
    let weights = weights(&workload.operations)?;
    let total: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut rng = Rng::new(
        seed.wrapping_mul(1_000_003).wrapping_add(client),
        Purpose::Workload,
    );
    let scrambled = ScrambledZipfian::new(u64::from(keys), workload.zipf_theta);
    let latest = Zipfian::new(u64::from(keys), workload.zipf_theta);
    let mut operation = || {
        let mut at = rng.below(total);
        let mut action = weights[0].0;
        for (candidate, weight) in &weights {
            action = *candidate;
            if at < u64::from(*weight) {
                break;
            }
            at -= u64::from(*weight);
        }
        let key = match workload.popularity {
            Popularity::Uniform => rng.below(u64::from(keys)),
            Popularity::Zipfian => scrambled.draw(&mut rng),
            Popularity::Latest => latest.draw(&mut rng),
        };
        let entries = workload.scan_entries;
        let entries = rng.range(u64::from(entries.min), u64::from(entries.max));
        Operation {
            action,
            key: u32::try_from(key).expect("a key of the key space"),
            entries: u16::try_from(entries).unwrap_or(u16::MAX),
        }
    };
    Ok((0..DRAWN).map(|_| operation()).collect())
}

fn weights(operations: &OperationWeights) -> Result<Vec<(Action, u32)>, String> {
    let OperationWeights {
        put,
        insert,
        delete,
        get,
        scan,
        batch,
        read_modify_write,
        snapshot,
        sync,
    } = *operations;
    for (name, weight) in [("batch", batch), ("snapshot", snapshot), ("sync", sync)] {
        if weight > 0 {
            return Err(format!(
                "workload.operations.{name} is nothing that all engines have; a benchmark leaves it out"
            ));
        }
    }
    let all = [
        (Action::Put, put),
        (Action::Insert, insert),
        (Action::Delete, delete),
        (Action::Get, get),
        (Action::Scan, scan),
        (Action::ReadModifyWrite, read_modify_write),
    ];
    let drawn: Vec<_> = all.into_iter().filter(|(_, weight)| *weight > 0).collect();
    if drawn.is_empty() {
        return Err("workload.operations names nothing to do".to_owned());
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_workload::WorkloadKind;

    /// Goal: operations come as often as the scenario says, and keys from the whole key space. Method: count YCSB-B's.
    #[test]
    fn operations_are_drawn_as_the_workload_says() {
        let mut workload = WorkloadConfig::of_kind(WorkloadKind::YcsbB);
        workload.keys = 1000;
        let drawn = draw(&workload, 1, 0).expect("YCSB-B is for everyone");
        let puts = drawn
            .iter()
            .filter(|operation| operation.action == Action::Put)
            .count();
        assert!((DRAWN / 22..DRAWN / 18).contains(&puts), "{puts}");
        assert!(drawn.iter().all(|operation| operation.key < 1000));
        let keys: std::collections::BTreeSet<u32> = drawn.iter().map(|one| one.key).collect();
        assert!(keys.len() > 900, "{}", keys.len());
        let other = draw(&workload, 1, 1).expect("the same");
        assert!(
            drawn
                .iter()
                .zip(&other)
                .any(|(one, other)| one.key != other.key)
        );
    }

    /// Goal: what not all engines can do is refused by its name. Method: a workload of batches.
    #[test]
    fn a_workload_that_is_not_for_all_engines_is_refused() {
        let workload = WorkloadConfig::of_kind(WorkloadKind::Batch);
        let error = draw(&workload, 1, 0).expect_err("batches");
        assert!(error.contains("workload.operations.batch"), "{error}");
    }

    /// Goal: keys are ordered as their numbers, values have the lengths asked for. Method: a few of each.
    #[test]
    fn keys_and_values_are_as_asked() {
        let mut key = Key::new(16);
        assert_eq!(key.of(41), b"k000000000000041");
        assert_eq!(key.of(123_456), b"k000000000123456");
        let values = values(&WorkloadConfig::of_kind(WorkloadKind::LargeValues), 1);
        assert_eq!(values.nth(0).len(), 64 << 10);
        assert_eq!(values.nth(1).len(), 2_932 << 10);
        assert_ne!(values.nth(0), values.nth(2));
    }
}
