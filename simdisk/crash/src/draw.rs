//! How a power cut draws what it leaves: which part of what is pending persists, and which sectors of a torn write.
//!
//! What a part means is for the model to say: where effects need others, it has to be closed.

use crate::CrashBias;
use crate::rng::Rng;

/// What persists of what is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// Everything but one effect.
    AllButOne,
    /// One effect alone.
    One,
    /// The effects up to some point, in order of submission.
    Prefix,
    /// Each effect on the toss of a coin.
    Subset,
}

impl CrashBias {
    /// Draws a part by the weights, of which one at least is not 0.
    pub fn draw(&self, rng: &mut Rng) -> Part {
        let weights = [
            (self.none, Part::None),
            (self.all, Part::All),
            (self.all_but_one, Part::AllButOne),
            (self.one, Part::One),
            (self.prefix, Part::Prefix),
            (self.subset, Part::Subset),
        ];
        let mut left = rng.below(weights.iter().map(|(weight, _)| u64::from(*weight)).sum());
        for (weight, part) in weights {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return part,
            }
        }
        unreachable!("the number is below the sum of the weights")
    }
}

/// Some of so many sectors, at least 2, but not all: ascending indices.
///
/// # Panics
/// If there are fewer than two.
pub fn some_sectors(sectors: u64, rng: &mut Rng) -> Vec<u64> {
    let mut kept: Vec<u64> = (0..sectors).collect();
    let way = rng.below(5);
    let (at, split) = (rng.below(sectors), rng.range(1, sectors - 1));
    let split = usize::try_from(split).expect("a sector's index");
    match way {
        0 => kept.truncate(split),
        1 => drop(kept.drain(..split)),
        2 => kept.retain(|&sector| sector != at),
        3 => kept.retain(|&sector| sector == at),
        _ => kept.retain(|_| rng.chance(0.5)),
    }
    if kept.is_empty() {
        kept.push(at);
    } else if kept.len() as u64 == sectors {
        kept.retain(|&sector| sector != at);
    }
    kept
}

/// Half of the tears within a sector fall into the first so many bytes of a write. What lies there is likely a header, in which each field counts, and few of all bytes
/// are in one.
const HEADER_BYTES: u64 = 64;

/// Where a write of so many sectors is torn in the middle of one: the index of the sector, and its first byte that is old.
pub fn torn_byte(sectors: u64, sector_bytes: u64, rng: &mut Rng) -> (u64, u64) {
    let last = sector_bytes - 1;
    let anywhere = (rng.below(sectors), rng.range(1, last));
    if rng.chance(0.5) {
        return (0, rng.range(1, HEADER_BYTES.min(last)));
    }
    anywhere
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    /// Goal: each part is drawn as its weight says, and what weighs nothing never. Method: many draws with one weight of 0.
    #[test]
    fn parts_are_drawn_by_their_weights() {
        let bias = CrashBias {
            none: 0,
            ..CrashBias::default()
        };
        let mut rng = Rng::new(1, Purpose::Test);
        let drawn: Vec<Part> = (0..13_000).map(|_| bias.draw(&mut rng)).collect();
        let count = |part| drawn.iter().filter(|it| **it == part).count();
        assert_eq!(count(Part::None), 0);
        for part in [Part::All, Part::AllButOne, Part::One, Part::Prefix] {
            assert!((1_700..2_300).contains(&count(part)), "{part:?}");
        }
        assert!((4_600..5_400).contains(&count(Part::Subset)));
    }

    /// Goal: neither none nor all, ascending. Method: many draws of each length.
    #[test]
    fn some_sectors_are_a_proper_part() {
        let mut rng = Rng::new(1, Purpose::Test);
        for sectors in 2..12 {
            for _ in 0..200 {
                let kept = some_sectors(sectors, &mut rng);
                assert!(
                    !kept.is_empty() && (kept.len() as u64) < sectors,
                    "{kept:?}"
                );
                assert!(kept.is_sorted_by(|a, b| a < b) && kept.iter().all(|it| *it < sectors));
            }
        }
    }
}
