//! Several persisted writes of one cut that are torn at once, by number: they can be counted and picked without being listed.

use kvsim_simdisk::Sectors;

use super::tears::Tearing;

/// The persisted writes of one order that can be torn.
pub(crate) struct TornTogether<'a> {
    tearings: Vec<(usize, &'a Tearing)>,
    /// In row `from`, column `writes`: in how many ways so many of those from `from` on can be torn.
    ways: Vec<Vec<u64>>,
}

/// In how many ways none of these writes can be torn, one, two, and so on, `most` at most.
pub(crate) fn ways(tearings: &[(usize, &Tearing)], most: usize) -> Vec<u64> {
    let mut ways = vec![0; most + 1];
    ways[0] = 1_u64;
    for (_, tearing) in tearings.iter().rev() {
        with_one_more(&mut ways, tearing);
    }
    ways
}

/// The ways with one more write that can be torn.
fn with_one_more(ways: &mut [u64], tearing: &Tearing) {
    for writes in (1..ways.len()).rev() {
        let with = ways[writes - 1].saturating_mul(tearing.count());
        ways[writes] = ways[writes].saturating_add(with);
    }
}

impl<'a> TornTogether<'a> {
    /// Persisted writes and their tears, of which at most so many are torn at once.
    pub(crate) fn new(tearings: Vec<(usize, &'a Tearing)>, most: usize) -> TornTogether<'a> {
        let mut ways = vec![self::ways(&[], most)];
        for (_, tearing) in tearings.iter().rev() {
            let mut row = ways[ways.len() - 1].clone();
            with_one_more(&mut row, tearing);
            ways.push(row);
        }
        ways.reverse();
        TornTogether { tearings, ways }
    }

    /// In how many ways exactly so many writes can be torn.
    pub(crate) fn count(&self, writes: usize) -> u64 {
        self.ways[0].get(writes).copied().unwrap_or(0)
    }

    /// The way of this number to tear so many writes, below [`TornTogether::count`]: which of them, and how.
    pub(crate) fn make(&self, writes: usize, number: u64) -> Vec<(usize, Sectors)> {
        let (mut left, mut number) = (writes, number);
        let mut torn = Vec::with_capacity(writes);
        for ((at, tearing), rest) in self.tearings.iter().zip(&self.ways[1..]) {
            if left == 0 {
                break;
            }
            let each = rest[left - 1];
            let with = each.saturating_mul(tearing.count());
            if number < with {
                torn.push((*at, tearing.make(number / each)));
                number %= each;
                left -= 1;
            } else {
                number -= with;
            }
        }
        torn
    }
}
