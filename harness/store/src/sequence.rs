//! Writes without end, each of which can be told from all others: write `n` sets a key to the value of number `n`
//! ([`crate::script::Values::nth`]).
//!
//! The first pass over all keys is in an order that looks random, and so is each further one, in the same order. So after any number of writes it is known what
//! each key holds, without a list. `harness/peers/go/script.go` has the same order.

/// The number of the key that write `write` sets, of `keys` keys.
///
/// # Panics
/// If there are no keys.
#[must_use]
pub fn key_of(write: u64, keys: u64) -> u64 {
    assert!(keys > 0, "a sequence of writes to no key");
    let bits = 64 - (keys - 1).leading_zeros();
    let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
    let half = (bits / 2).max(1);
    let mut at = write % keys;
    // Each step is one-to-one among numbers of so many bits. What leads out of the keys is led on until it is back among them.
    loop {
        at = at.wrapping_add(0x6a09_e667_f3bc_c909) & mask;
        for factor in [
            0x9e37_79b9_7f4a_7c15_u64,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
        ] {
            at = at.wrapping_mul(factor) & mask;
            at ^= at >> half;
        }
        if at < keys {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: a pass sets each key once, whatever their number, and the next one does it in the same order. Method: numbers around powers of two.
    #[test]
    fn a_pass_sets_each_key_once() {
        for keys in (1..70).chain([255, 256, 257, 1_000, 65_536]) {
            let pass: Vec<u64> = (0..keys).map(|write| key_of(write, keys)).collect();
            let set: BTreeSet<u64> = pass.iter().copied().collect();
            assert_eq!(set.len() as u64, keys);
            assert_eq!(set.last(), Some(&(keys - 1)));
            assert!((0..keys).all(|write| key_of(write + keys, keys) == key_of(write, keys)));
        }
    }

    /// Goal: the order is no order of keys. Method: about half of the steps go up, and the first hundredth of a pass is spread over all keys.
    #[test]
    fn the_order_looks_random() {
        let keys = 100_000;
        let pass: Vec<u64> = (0..keys).map(|write| key_of(write, keys)).collect();
        let up = pass.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((45_000..55_000).contains(&up), "{up}");
        let mut tenths = [0; 10];
        for key in &pass[..1_000] {
            tenths[usize::try_from(key * 10 / keys).expect("below ten")] += 1;
        }
        assert!(
            tenths.iter().all(|count| (60..140).contains(count)),
            "{tenths:?}"
        );
    }
}
