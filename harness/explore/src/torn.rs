//! Several persisted writes of one cut that are torn at once, by number: they can be counted and picked without being listed.

use kvsim_simdisk::Sectors;

use super::tears::Tearing;

/// The persisted writes of one order that can be torn.
pub(crate) struct TornTogether<'a> {
    tearings: Vec<(usize, &'a Tearing)>,
    /// In row `from`, column `writes`: in how many ways so many of those from `from` on can be torn.
    ways: Vec<Vec<u64>>,
}

impl<'a> TornTogether<'a> {
    /// Persisted writes and their tears, of which at most so many are torn at once.
    pub(crate) fn new(tearings: Vec<(usize, &'a Tearing)>, most: usize) -> TornTogether<'a> {
        let mut none = vec![0; most + 1];
        none[0] = 1_u64;
        let mut ways = vec![none];
        for (_, tearing) in tearings.iter().rev() {
            let rest = &ways[ways.len() - 1];
            let here = |writes: usize| {
                let with = match writes {
                    0 => 0,
                    _ => rest[writes - 1].saturating_mul(tearing.count()),
                };
                rest[writes].saturating_add(with)
            };
            let row = (0..=most).map(here).collect();
            ways.push(row);
        }
        ways.reverse();
        TornTogether { tearings, ways }
    }

    /// In how many ways exactly so many writes can be torn.
    pub(crate) fn count(&self, writes: usize) -> u64 {
        self.ways[0].get(writes).copied().unwrap_or(0)
    }

    /// That of one write, of two, and so on up to the bound.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.ways[0].iter().skip(1).copied()
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
