//! In which ways one pending write may be torn, by number: they can be counted and picked without being listed.

use kvsim_simdisk::{Sectors, Tears};

use kvsim_scenario::ExploreConfig;

/// What a sector of garbage holds: noise, which is nothing that a guest writes and stands for all of that, or zeros, or ones.
const PATTERNS: [u64; 3] = [2, 0, 1];
/// A write of at most so many sectors has one of them damaged with every subset of the others kept, and with each pattern.
const DAMAGED_IN_EVERY_WAY: u64 = 4;

/// The tears of one write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tearing {
    sectors: u64,
    /// Any proper subset of the sectors, by the bits of a number; else simple shapes only.
    every: bool,
    garbage: bool,
    unreadable: bool,
    /// The byte in the middle of a sector at which one is torn; 0 for none.
    middle: u64,
    /// There are more tears than these.
    more: bool,
}

/// The tears of a write that can be torn so, within the bounds.
pub(crate) fn tearing(tears: Option<Tears>, bounds: &ExploreConfig) -> Tearing {
    let Some(tears) = tears else {
        return Tearing::default();
    };
    if bounds.tear_sectors == 0 {
        return Tearing {
            more: true,
            ..Tearing::default()
        };
    }
    let every = tears.sectors <= u64::from(bounds.tear_sectors);
    let mut tearing = Tearing {
        sectors: tears.sectors,
        every,
        garbage: tears.garbage && bounds.garbage,
        unreadable: tears.unreadable && bounds.unreadable,
        middle: if tears.within_sector {
            u64::from(tears.sector_bytes / 2)
        } else {
            0
        },
        more: false,
    };
    // What is not taken: other bytes than the middle one, two damaged sectors in one write, and what the bounds say.
    let damage = tears.garbage || tears.unreadable;
    tearing.more = !every
        || tears.within_sector
        || (tears.garbage && tears.unreadable)
        || (tears.garbage && !bounds.garbage)
        || (tears.unreadable && !bounds.unreadable)
        || (damage && !tearing.damaged_in_every_way());
    tearing
}

impl Tearing {
    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.shapes() + self.garbages() + self.unreadables() + self.halves()
    }

    /// Whether these are all that there are.
    pub(crate) fn is_all(&self) -> bool {
        !self.more
    }

    /// Whole sectors: every proper subset; or the first so many, the last so many, one alone in between, and all but that.
    fn shapes(&self) -> u64 {
        match self.sectors {
            0 | 1 => 0,
            sectors if self.every => (1 << sectors) - 2,
            sectors => 2 * (sectors - 1) + 2 * (sectors - 2),
        }
    }

    /// Garbage in one sector; of a long write noise alone.
    fn garbages(&self) -> u64 {
        let every = self.damaged_in_every_way();
        let patterns = if every { PATTERNS.len() as u64 } else { 1 };
        if self.garbage {
            patterns * self.damages()
        } else {
            0
        }
    }

    /// One sector that cannot be read.
    fn unreadables(&self) -> u64 {
        if self.unreadable { self.damages() } else { 0 }
    }

    /// One sector damaged, and of the others every subset kept; or of a long write all or none.
    fn damages(&self) -> u64 {
        self.sectors * self.kept_beside_damage()
    }

    fn damaged_in_every_way(&self) -> bool {
        self.every && self.sectors <= DAMAGED_IN_EVERY_WAY
    }

    fn kept_beside_damage(&self) -> u64 {
        match self.sectors {
            0 | 1 => 1,
            sectors if self.damaged_in_every_way() => 1 << (sectors - 1),
            _ => 2,
        }
    }

    /// The damaged sector of this number, and the sectors that are kept beside it.
    fn damage(&self, number: u64) -> (u64, Vec<u64>) {
        let (at, kept) = (number % self.sectors, number / self.sectors);
        let others = (0..self.sectors).filter(|sector| *sector != at);
        if self.damaged_in_every_way() {
            let kept = (0..)
                .zip(others)
                .filter(|(place, _)| kept >> place & 1 == 1);
            return (at, kept.map(|(_, sector)| sector).collect());
        }
        (at, others.filter(|_| kept == 0).collect())
    }

    /// All before one sector kept, and half of it.
    fn halves(&self) -> u64 {
        if self.middle == 0 { 0 } else { self.sectors }
    }

    /// The tear of this number, below [`Tearing::count`].
    pub(crate) fn make(&self, number: u64) -> Sectors {
        let torn = |kept: Vec<u64>, garbage, torn_at, unreadable| Sectors::Torn {
            kept,
            garbage,
            torn_at,
            unreadable,
        };
        if number < self.shapes() {
            return torn(self.shape(number), None, None, None);
        }
        let number = number - self.shapes();
        if number < self.garbages() {
            let (at, others) = self.damage(number % self.damages());
            let pattern = PATTERNS[usize::try_from(number / self.damages()).unwrap_or(0)];
            return torn(others, Some((at, pattern)), None, None);
        }
        let number = number - self.garbages();
        if number < self.unreadables() {
            let (at, others) = self.damage(number);
            return torn(others, None, None, Some(at));
        }
        let at = number - self.unreadables();
        torn((0..at).collect(), None, Some((at, self.middle)), None)
    }

    fn shape(&self, number: u64) -> Vec<u64> {
        let sectors = self.sectors;
        if self.every {
            let mask = number + 1;
            return (0..sectors).filter(|at| mask >> at & 1 == 1).collect();
        }
        let ends = sectors - 1;
        if number < ends {
            return (0..=number).collect();
        }
        let number = number - ends;
        if number < ends {
            return (number + 1..sectors).collect();
        }
        let number = number - ends;
        let inner = sectors - 2;
        let at = 1 + number % inner;
        if number < inner {
            vec![at]
        } else {
            (0..sectors).filter(|sector| *sector != at).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no tear is named twice, none is whole or nothing, and the count is right. Method: all of them, for writes of all lengths.
    #[test]
    fn tears_are_different_and_proper() {
        for sectors in 1..=12 {
            for every in [true, false] {
                // Two sectors are few enough to be torn in every way, whatever the bound.
                if !every && sectors < 3 {
                    continue;
                }
                let tearing = Tearing {
                    sectors,
                    every,
                    garbage: true,
                    unreadable: true,
                    middle: 256,
                    more: false,
                };
                let mut all: Vec<String> = (0..tearing.count())
                    .map(|number| format!("{:?}", tearing.make(number)))
                    .collect();
                let count = all.len();
                all.sort();
                all.dedup();
                assert_eq!(all.len(), count, "{sectors} {every}");
                for number in 0..tearing.shapes() {
                    let kept = tearing.shape(number);
                    assert!(!kept.is_empty() && (kept.len() as u64) < sectors);
                    assert!(kept.is_sorted());
                }
            }
        }
    }
}
