//! Zipfian numbers: the generator of Gray, Sundaresan, Englert, Baclawski and Weinberger (*Quickly Generating Billion-Record
//! Synthetic Databases*, SIGMOD 1994) as YCSB uses it, and YCSB's scrambling by FNV-1a.
//!
//! Deterministic on every machine: beyond `+ - * /` only `libm` is used, never the platform's own `pow`. The sum ζ(n,
//! θ) is taken term by term up to 1,000 and by the Euler–Maclaurin formula beyond, with an error far below an f64's
//! last digits. So a generator over ten thousand million items costs no more than one over a thousand. One that grows
//! costs a constant per item.

use kvsim_simdisk::rng::Rng;

/// YCSB's own number of items when it scrambles: many more than any key space, so that the most popular ones scatter evenly.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// Terms of ζ that are added one by one.
const EXACT_TERMS: u32 = 1_000;

/// Draws numbers from 0, the most popular, to `items` − 1.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    /// The sum of the first [`EXACT_TERMS`] terms, from which ζ of any larger number follows.
    head: f64,
    zeta: f64,
    eta: f64,
    alpha: f64,
    half_pow_theta: f64,
}

impl Zipfian {
    /// Over `items` items (at least one) with skew `theta`, 0 ≤ `theta` < 1.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0, "a distribution over nothing");
        assert!((0.0..1.0).contains(&theta), "theta must be in 0..1");
        let head = sum_of_terms(EXACT_TERMS, theta);
        let mut zipfian = Zipfian {
            items: 0,
            theta,
            head,
            zeta: 0.0,
            eta: 0.0,
            alpha: 1.0 / (1.0 - theta),
            half_pow_theta: libm::pow(0.5, theta),
        };
        zipfian.resize(items);
        zipfian
    }

    /// How many items there are.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Changes the number of items.
    pub fn resize(&mut self, items: u64) {
        if items == self.items {
            return;
        }
        self.items = items;
        self.zeta = self.zeta_of(items);
        let zeta2 = 1.0 + self.half_pow_theta;
        let ratio = 1.0 - libm::pow(2.0 / as_f64(items), 1.0 - self.theta);
        self.eta = if items > 2 {
            ratio / (1.0 - zeta2 / self.zeta)
        } else {
            0.0
        };
    }

    /// The next number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let u = unit(rng);
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + self.half_pow_theta || self.items <= 2 {
            return 1.min(self.items - 1);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the product lies in 0..items"
        )]
        let rank =
            (as_f64(self.items) * libm::pow(self.eta * u - self.eta + 1.0, self.alpha)) as u64;
        rank.min(self.items - 1)
    }

    fn zeta_of(&self, items: u64) -> f64 {
        match u32::try_from(items) {
            Ok(few) if few <= EXACT_TERMS => sum_of_terms(few, self.theta),
            _ => {
                let (a, b) = (f64::from(EXACT_TERMS), as_f64(items));
                let power = |x: f64, exponent: f64| libm::pow(x, exponent);
                let integral =
                    (power(b, 1.0 - self.theta) - power(a, 1.0 - self.theta)) / (1.0 - self.theta);
                let ends = (power(b, -self.theta) - power(a, -self.theta)) / 2.0;
                let slopes =
                    self.theta * (power(a, -self.theta - 1.0) - power(b, -self.theta - 1.0)) / 12.0;
                self.head + integral + ends + slopes
            }
        }
    }
}

/// Zipfian numbers whose popular items are scattered over the range.
#[derive(Debug, Clone)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// Over `items` items (at least one) with skew `theta`, 0 ≤ `theta` < 1.
    #[must_use]
    pub fn new(items: u64, theta: f64) -> Self {
        assert!(items > 0, "a distribution over nothing");
        ScrambledZipfian {
            ranks: Zipfian::new(SCRAMBLED_ITEMS, theta),
            items,
        }
    }

    /// The next number.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        fnv1a_64(self.ranks.draw(rng)) % self.items
    }
}

/// FNV-1a, 64 bits, over the eight bytes of `number`, the least significant first, with the sign dropped as YCSB does.
#[must_use]
pub fn fnv1a_64(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    hash.cast_signed().unsigned_abs()
}

/// A number in 0..1 with 53 random bits.
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    as_f64(rng.next_u64() >> 11) / as_f64(1 << 53)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts below 2^53, and a rounded count is as good"
)]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn sum_of_terms(terms: u32, theta: f64) -> f64 {
    (1..=terms).map(|i| libm::pow(f64::from(i), -theta)).sum()
}

#[cfg(test)]
mod tests {
    use super::{SCRAMBLED_ITEMS, ScrambledZipfian, Zipfian, as_f64, fnv1a_64, sum_of_terms};
    use kvsim_simdisk::rng::{Purpose, Rng};

    fn counts(draws: u32, items: u64, mut draw: impl FnMut() -> u64) -> Vec<f64> {
        let mut counts = vec![0.0; usize::try_from(items).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(draw()).unwrap()] += 1.0;
        }
        counts
    }

    /// Goal: the closed form of ζ is exact enough. Method: against the sum itself, and against the constant that YCSB states.
    #[test]
    fn zeta_is_right_to_the_last_digits() {
        let zipfian = Zipfian::new(30_000, 0.99);
        assert!((zipfian.zeta - sum_of_terms(30_000, 0.99)).abs() < 1e-9);
        let ycsb = Zipfian::new(SCRAMBLED_ITEMS, 0.99);
        assert!(
            (ycsb.zeta - 26.469_028_201_783_02).abs() < 1e-6,
            "{}",
            ycsb.zeta
        );
    }

    /// Goal: the ranks have the frequencies they should. Method: 200,000 draws; the first two ranks, which the generator gives
    /// exactly, within four standard deviations; the tail, which it approximates, by its share.
    #[test]
    fn ranks_follow_the_law() {
        let draws = 200_000;
        let zipfian = Zipfian::new(1_000, 0.99);
        let mut rng = Rng::new(1, Purpose::Workload);
        let counts = counts(draws, 1_000, || zipfian.draw(&mut rng));
        for rank in 0..2 {
            let p = libm::pow(as_f64(rank + 1), -0.99) / zipfian.zeta;
            let n = f64::from(draws);
            let deviation =
                (counts[usize::try_from(rank).unwrap()] - n * p).abs() / (n * p * (1.0 - p)).sqrt();
            assert!(
                deviation < 4.0,
                "rank {rank} is {deviation} standard deviations off"
            );
        }
        for (from, to) in [(10, 100), (100, 1_000)] {
            let found: f64 = counts[from..to].iter().sum::<f64>() / f64::from(draws);
            let expected = (from..to)
                .map(|i| libm::pow(as_f64(i as u64 + 1), -0.99))
                .sum::<f64>()
                / zipfian.zeta;
            assert!(
                (found / expected - 1.0).abs() < 0.08,
                "{from}..{to}: {found} instead of {expected}"
            );
        }
    }

    /// Goal: scrambling keeps the skew and loses the order. Method: 100,000 draws over 1,000 items; the most popular item has the
    /// share of rank 0 of the large range plus its even share of the rest, and lies where FNV-1a puts rank 0.
    #[test]
    fn scrambling_scatters_the_popular_items() {
        let zipfian = ScrambledZipfian::new(1_000, 0.99);
        let mut rng = Rng::new(2, Purpose::Workload);
        let counts = counts(100_000, 1_000, || zipfian.draw(&mut rng));
        let hottest = (0..1_000)
            .max_by(|&a, &b| counts[a].total_cmp(&counts[b]))
            .unwrap();
        assert_eq!(hottest as u64, fnv1a_64(0) % 1_000);
        assert!(
            (0.036..0.042).contains(&(counts[hottest] / 1e5)),
            "{}",
            counts[hottest]
        );
        assert!(counts.iter().all(|&count| count > 0.0));
    }

    /// Goal: a generator that grew is one made anew. Method: both draw the same from the same stream.
    #[test]
    fn growing_is_the_same_as_starting_large() {
        let mut grown = Zipfian::new(5, 0.7);
        for items in [6, 900, 1_001, 4_000] {
            grown.resize(items);
            let fresh = Zipfian::new(items, 0.7);
            let (mut a, mut b) = (
                Rng::new(3, Purpose::Workload),
                Rng::new(3, Purpose::Workload),
            );
            assert!((0..1_000).all(|_| grown.draw(&mut a) == fresh.draw(&mut b)));
        }
    }

    /// Goal: no draw leaves the range, however small. Method: one, two and three items, with and without skew.
    #[test]
    fn tiny_ranges_hold() {
        for (items, theta) in [
            (1, 0.99),
            (2, 0.99),
            (3, 0.99),
            (1, 0.0),
            (2, 0.0),
            (7, 0.0),
        ] {
            let zipfian = Zipfian::new(items, theta);
            let mut rng = Rng::new(4, Purpose::Workload);
            let counts = counts(5_000, items, || zipfian.draw(&mut rng));
            assert!(
                counts.iter().all(|&count| count > 0.0),
                "{items} items, theta {theta}: {counts:?}"
            );
        }
    }

    /// Goal: the hash is FNV-1a as YCSB has it. Method: values from an independent implementation.
    #[test]
    fn the_hash_is_that_of_ycsb() {
        assert_eq!(fnv1a_64(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv1a_64(1), 8_517_097_267_634_966_620);
    }
}
