//! Which requests a guest has to take, and which it has to refuse as invalid: by the guest's word, or by the ABI page where the guest says nothing.

use kvsim_api::limits::{
    BATCH_BYTES_SURE, KEY_BYTES_SURE, KnownLimits, MUTATION_BYTES, VALUE_BYTES_SURE,
};
use kvsim_sim::GuestPolicies;
use kvsim_sim::api::{Mutation, Request, Scan, SnapshotId};

/// What a guest must be given to judge its refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longer keys are invalid. Absent: the guest does not say.
    pub key_bytes_max: Option<u64>,
    /// Longer values are invalid. Absent: the guest does not say.
    pub value_bytes_max: Option<u64>,
    /// What the device rewrites internally, bytes: a longer value may take whole blocks.
    pub block_bytes: u64,
    /// The share of the device that holds data, in percent; the rest is the guest's own.
    pub data_percent: u64,
    /// The share of that which live data may fill, in percent.
    pub usable_percent: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::of(&GuestPolicies::default(), 4_096, |_| None)
    }
}

/// Whether a request is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The guest has to take it.
    WellFormed,
    /// The guest may take it, or refuse it as invalid.
    Open,
    /// The guest has to refuse it as invalid; why.
    IllFormed(&'static str),
}

impl Shape {
    /// Of two parts of one request: the worse.
    fn and(self, other: Shape) -> Shape {
        match (self, other) {
            (Shape::IllFormed(why), _) | (_, Shape::IllFormed(why)) => Shape::IllFormed(why),
            (Shape::Open, _) | (_, Shape::Open) => Shape::Open,
            _ => Shape::WellFormed,
        }
    }
}

impl Limits {
    /// The limits that these policies state, on a device of such blocks; `option` gives the guest's options by name.
    pub fn of<'a>(
        policies: &GuestPolicies,
        block_bytes: u64,
        option: impl Fn(&str) -> Option<&'a str>,
    ) -> Limits {
        let number = |name| policies.number(name, option(name));
        Limits {
            key_bytes_max: number("max_key_bytes"),
            value_bytes_max: number("max_value_bytes"),
            block_bytes,
            data_percent: number("data_percent").unwrap_or(0),
            usable_percent: number("usable_percent").unwrap_or(0),
        }
    }

    /// What is known to be refused.
    #[must_use]
    pub fn known(&self) -> KnownLimits {
        KnownLimits {
            key_bytes_max: self.key_bytes_max,
            value_bytes_max: self.value_bytes_max,
        }
    }

    /// Of a request; `snapshot` tells what is known of a snapshot's number.
    pub(crate) fn shape(&self, request: &Request, snapshot: impl Fn(SnapshotId) -> Shape) -> Shape {
        match request {
            Request::Put { key, value, .. } => self.mutation(key, value.len()),
            Request::Delete { key, .. } => self.mutation(key, 0),
            Request::Batch { mutations, .. } => self.batch(mutations),
            // No such key can be there, so to say that it is not is as right as to refuse it.
            Request::Get { key, snapshot: id } => self.asked(key).and(snapshot(*id)),
            Request::Scan(Scan {
                snapshot: id,
                start,
                end,
                ..
            }) => {
                let bounds = [start, end].into_iter().flatten();
                let long = |key: &Vec<u8>| key.len() as u64 > self.key_bytes_sure();
                let shape = match bounds.into_iter().any(long) {
                    true => Shape::Open,
                    false => Shape::WellFormed,
                };
                shape.and(snapshot(*id))
            }
            Request::Release { snapshot: 0 } => Shape::IllFormed("there is no snapshot 0"),
            Request::Release { snapshot: id } => snapshot(*id),
            Request::Snapshot | Request::Sync | Request::Close => Shape::WellFormed,
        }
    }

    /// Whether no guest takes this as a key, so that nothing is ever there.
    pub(crate) fn is_no_key(&self, key: &[u8]) -> bool {
        key.is_empty() || self.key_bytes_max.is_some_and(|max| key.len() as u64 > max)
    }

    fn key_bytes_sure(&self) -> u64 {
        self.key_bytes_max.unwrap_or(KEY_BYTES_SURE)
    }

    fn asked(&self, key: &[u8]) -> Shape {
        match (1..=self.key_bytes_sure()).contains(&(key.len() as u64)) {
            true => Shape::WellFormed,
            false => Shape::Open,
        }
    }

    pub(crate) fn mutation(&self, key: &[u8], value_bytes: usize) -> Shape {
        let value_bytes = value_bytes as u64;
        if key.is_empty() {
            return Shape::IllFormed("its key is empty");
        }
        if self.key_bytes_max.is_some_and(|max| key.len() as u64 > max) {
            return Shape::IllFormed("its key is longer than the guest's `max_key_bytes`");
        }
        if self.value_bytes_max.is_some_and(|max| value_bytes > max) {
            return Shape::IllFormed("its value is longer than the guest's `max_value_bytes`");
        }
        let value_is_sure = value_bytes <= VALUE_BYTES_SURE;
        match value_is_sure && key.len() as u64 <= self.key_bytes_sure() {
            true => Shape::WellFormed,
            false => Shape::Open,
        }
    }

    fn batch(&self, mutations: &[Mutation]) -> Shape {
        let mut bytes = 0;
        let mut shape = Shape::WellFormed;
        for mutation in mutations {
            let (key, value_bytes) = parts(mutation);
            bytes += key.len() as u64 + value_bytes as u64 + MUTATION_BYTES;
            shape = shape.and(self.mutation(key, value_bytes));
        }
        if bytes > BATCH_BYTES_SURE {
            shape = shape.and(Shape::Open);
        }
        shape
    }
}

/// The key of a mutation and the length of its value.
pub(crate) fn parts(mutation: &Mutation) -> (&[u8], usize) {
    match mutation {
        Mutation::Put { key, value } => (key, value.len()),
        Mutation::Delete { key } => (key, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_sim::api::Durability;

    fn limits() -> Limits {
        let mut policies = GuestPolicies::default();
        policies.set("max_key_bytes", "100").unwrap();
        policies.set("max_value_bytes", "option:1000").unwrap();
        Limits::of(&policies, 4_096, |name| {
            (name == "max_value_bytes").then_some("500")
        })
    }

    fn put(key_bytes: usize, value_bytes: usize) -> Request {
        Request::Put {
            key: vec![1; key_bytes],
            value: vec![2; value_bytes],
            durability: Durability::Durable,
        }
    }

    fn shape(limits: &Limits, request: &Request) -> Shape {
        limits.shape(request, |_| Shape::WellFormed)
    }

    /// Goal: a limit that is stated is exact, by the option where there is one. Method: a length on either side.
    #[test]
    fn a_stated_limit_is_exact() {
        let limits = limits();
        assert_eq!(shape(&limits, &put(100, 500)), Shape::WellFormed);
        assert!(matches!(shape(&limits, &put(101, 5)), Shape::IllFormed(_)));
        assert!(matches!(shape(&limits, &put(5, 501)), Shape::IllFormed(_)));
        assert!(matches!(shape(&limits, &put(0, 5)), Shape::IllFormed(_)));
    }

    /// Goal: a guest that states nothing is held to what the ABI page says, and to nothing beyond it.
    #[test]
    fn without_a_stated_limit_what_is_long_is_open() {
        let limits = Limits::default();
        assert_eq!(shape(&limits, &put(1_024, 64 << 10)), Shape::WellFormed);
        assert_eq!(shape(&limits, &put(1_025, 5)), Shape::Open);
        assert_eq!(shape(&limits, &put(5, (64 << 10) + 1)), Shape::Open);
        assert!(matches!(shape(&limits, &put(0, 5)), Shape::IllFormed(_)));
    }

    /// Goal: a batch is as bad as its worst member, open if it is large, and sound if it is empty.
    #[test]
    fn a_batch_is_as_bad_as_its_worst_member() {
        let batch = |sizes: &[(usize, usize)]| Request::Batch {
            mutations: sizes
                .iter()
                .map(|&(key, value)| Mutation::Put {
                    key: vec![1; key],
                    value: vec![2; value],
                })
                .collect(),
            durability: Durability::Relaxed,
        };
        let limits = limits();
        assert_eq!(shape(&limits, &batch(&[])), Shape::WellFormed);
        assert_eq!(
            shape(&limits, &batch(&[(5, 5), (6, 500)])),
            Shape::WellFormed
        );
        assert_eq!(shape(&limits, &batch(&[(5, 500); 20])), Shape::Open);
        let bad = batch(&[(5, 5), (0, 5)]);
        assert!(matches!(shape(&limits, &bad), Shape::IllFormed(_)));
    }
}
