//! How much memory a guest may have, and whose fault it is when there is not more.
//!
//! Invariant: a growth beyond the bound is refused and the guest may cope with it; a growth within the bound that the host cannot
//! give ends the call and the run, since on another machine it would have been given.

use wasmtime::{Error, ResourceLimiter};

use crate::guest::GuestLimits;

/// Bounds the memory of a guest.
#[derive(Debug)]
pub struct Limiter {
    /// The bound on the memory.
    pub max_bytes: u64,
    /// Elements of all tables together.
    table_elements: usize,
    /// The growth under way is one that the guest may have.
    granted: bool,
    /// The guest asked for more than it may have, in the call under way.
    pub refused: bool,
    /// The host could not give what the guest may have.
    pub failed: Option<String>,
}

const TABLE_ELEMENTS_MAX: usize = 1 << 20;

impl Limiter {
    /// Nothing is used yet.
    #[must_use]
    pub fn new(limits: &GuestLimits) -> Self {
        Limiter {
            max_bytes: limits.memory_bytes_max,
            table_elements: 0,
            granted: false,
            refused: false,
            failed: None,
        }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, Error> {
        let fits =
            desired as u64 <= self.max_bytes && maximum.is_none_or(|maximum| desired <= maximum);
        self.granted = fits;
        self.refused |= !fits;
        Ok(fits)
    }

    fn memory_grow_failed(&mut self, error: Error) -> Result<(), Error> {
        // Only what we had granted is the host's failure. It ends the call: a guest that copes with it would go on in a world
        // that another machine does not have.
        if !std::mem::take(&mut self.granted) {
            return Ok(());
        }
        self.failed = Some(format!("{error:#}"));
        Err(error)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, Error> {
        let all = (self.table_elements - current).saturating_add(desired);
        let fits = all <= TABLE_ELEMENTS_MAX && maximum.is_none_or(|maximum| desired <= maximum);
        if fits {
            self.table_elements = all;
        }
        self.refused |= !fits;
        Ok(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> Limiter {
        Limiter::new(&GuestLimits {
            memory_bytes_max: 1 << 20,
            fuel_per_call: 1,
            events_per_answer: 1,
            idle_ns_per_answer: 1,
        })
    }

    /// Goal: what was granted and then not given is the host's failure. Method: the calls that Wasmtime makes then.
    #[test]
    fn a_granted_growth_that_fails_is_the_hosts_failure() {
        let mut limiter = limiter();
        assert!(!limiter.memory_growing(0, 2 << 20, None).expect("an answer"));
        assert!(limiter.memory_growing(0, 1 << 20, None).expect("an answer"));
        limiter
            .memory_grow_failed(Error::msg("out of swap"))
            .expect_err("the call ends");
        assert_eq!(limiter.failed.as_deref(), Some("out of swap"));
    }

    /// Goal: what was refused is no failure of the host, whatever is said of it afterwards. Method: over the bound, over the module's own.
    #[test]
    fn a_refused_growth_is_the_guests_affair() {
        for (desired, maximum) in [((1 << 20) + 1, None), (1 << 19, Some(1 << 18))] {
            let mut limiter = limiter();
            let granted = limiter.memory_growing(0, desired, maximum);
            assert!(!granted.expect("an answer"));
            limiter
                .memory_grow_failed(Error::msg("too large"))
                .expect("it goes on");
            assert!(limiter.refused && limiter.failed.is_none());
        }
    }

    /// Goal: tables count together. Method: two that fit, a third that does not, and the first growing.
    #[test]
    fn tables_share_one_bound() {
        let mut limiter = limiter();
        let half = TABLE_ELEMENTS_MAX / 2;
        for (current, desired, fits) in [
            (0, half, true),
            (0, half - 1, true),
            (0, 2, false),
            (half, half + 1, true),
            (half + 1, half + 2, false),
        ] {
            let granted = limiter.table_growing(current, desired, None);
            assert_eq!(granted.expect("an answer"), fits, "{current} to {desired}");
        }
        assert!(limiter.refused);
    }
}
