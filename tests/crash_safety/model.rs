//! What must survive: an independent, plain second opinion beside the harness's oracle, by trying every prefix of the writes.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_harness::oracle::Property;

use crate::case::KEYS;

/// The number of the write that a key's value is from.
pub(crate) type State = BTreeMap<u8, u32>;

/// A property that does not hold, and why.
pub(crate) type Finding = (Property, String);

/// One write, in the order of hand-in.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Keys with the number of their value; `None` deletes.
    pub(crate) writes: Vec<(u8, Option<u32>)>,
    pub(crate) durable: bool,
    pub(crate) acknowledged: bool,
    /// Handed in after at least one crash.
    pub(crate) after_crash: bool,
}

/// The base, which is what the last recovery showed, and all writes since.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    base: State,
    pub(crate) since: Vec<Write>,
    /// So many of `since` must be there, by a sync, a close or a later durable write.
    must_survive: usize,
    /// Values that no recovery may show again.
    dead: BTreeSet<u32>,
}

impl Model {
    /// The state after the first `count` writes since the base.
    pub(crate) fn state(&self, count: usize) -> State {
        let mut state = self.base.clone();
        for (key, value) in self.since[..count].iter().flat_map(|write| &write.writes) {
            match value {
                Some(value) => state.insert(*key, *value),
                None => state.remove(key),
            };
        }
        state
    }

    pub(crate) fn latest(&self) -> State {
        self.state(self.since.len())
    }

    pub(crate) fn acknowledged(&mut self, write: usize) {
        self.since[write].acknowledged = true;
        if self.since[write].durable {
            self.must_survive = self.must_survive.max(write + 1);
        }
    }

    pub(crate) fn synced(&mut self, count: usize) {
        self.must_survive = self.must_survive.max(count);
    }

    /// Holds what a recovery shows against what must survive, and makes it the new base.
    pub(crate) fn recovered(&mut self, seen: &State) -> Result<(), Finding> {
        let legal = (self.must_survive..=self.since.len()).any(|count| self.state(count) == *seen);
        if !legal {
            return Err(self.explain(seen));
        }
        let all: BTreeSet<u32> = self
            .base
            .values()
            .copied()
            .chain(self.since.iter().flat_map(numbers))
            .collect();
        let shown: BTreeSet<u32> = seen.values().copied().collect();
        self.dead.extend(all.difference(&shown));
        *self = Model {
            base: seen.clone(),
            dead: std::mem::take(&mut self.dead),
            ..Model::default()
        };
        Ok(())
    }

    /// Which property an illegal state breaks: the first of these that explains it.
    fn explain(&self, seen: &State) -> Finding {
        let must_survive = &self.since[..self.must_survive];
        let text = |what: String| {
            format!(
                "{what}: shown {seen:?}, base {:?}, must survive: {} of {:?}",
                self.base, self.must_survive, self.since
            )
        };
        for (key, number) in seen {
            if self.dead.contains(number) {
                return (
                    Property::NoResurrection,
                    text(format!("key {key} shows {number}, which was gone")),
                );
            }
        }
        for key in 0..KEYS {
            let touched = self
                .since
                .iter()
                .any(|write| write.writes.iter().any(|(other, _)| *other == key));
            if !touched && seen.get(&key) != self.base.get(&key) {
                return (
                    Property::NoResurrection,
                    text(format!("key {key} was not written, and is not as it was")),
                );
            }
        }
        for write in self.since.iter().filter(|write| write.writes.len() > 1) {
            if let Some(what) = self.partial(write, seen) {
                return (Property::AtomicWrites, text(what));
            }
        }
        if let Some(count) = (0..self.must_survive)
            .rev()
            .find(|&count| self.state(count) == *seen)
        {
            let later = must_survive[count..].iter().any(|write| write.after_crash);
            let property = if later {
                Property::WorkAfterRecovery
            } else {
                Property::AcknowledgedDurable
            };
            return (
                property,
                text(format!("only the first {count} writes are there")),
            );
        }
        for key in 0..KEYS {
            let last = must_survive
                .iter()
                .rposition(|write| write.writes.iter().any(|(other, _)| *other == key));
            let possible = |count: usize| self.state(count).get(&key) == seen.get(&key);
            if last.is_some_and(|last| !(last + 1..=self.since.len()).any(possible)) {
                let property = if must_survive.iter().any(|write| write.after_crash) {
                    Property::WorkAfterRecovery
                } else {
                    Property::AcknowledgedDurable
                };
                return (
                    property,
                    text(format!("key {key} lost its last durable write")),
                );
            }
        }
        (Property::Prefix, text("there is a hole".to_owned()))
    }

    /// A batch of which one key shows the value and another neither that nor anything later.
    fn partial(&self, batch: &Write, seen: &State) -> Option<String> {
        let shown = |(key, number): &(u8, Option<u32>)| {
            number.is_some() && seen.get(key) == number.as_ref()
        };
        let there = batch.writes.iter().find(|write| shown(write))?;
        let at = self
            .since
            .iter()
            .position(|write| std::ptr::eq(write, batch))?;
        let possible = |key: u8| {
            (at + 1..=self.since.len()).any(|count| self.state(count).get(&key) == seen.get(&key))
        };
        let missing = batch.writes.iter().find(|(key, _)| !possible(*key))?;
        Some(format!(
            "the batch {:?} is there for key {} and not for key {}",
            batch.writes, there.0, missing.0
        ))
    }
}

fn numbers(write: &Write) -> impl Iterator<Item = u32> {
    write.writes.iter().filter_map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(writes: &[&[(u8, Option<u32>)]], must_survive: usize, after_crash: bool) -> Model {
        let write = |writes: &&[(u8, Option<u32>)]| Write {
            writes: writes.to_vec(),
            durable: true,
            acknowledged: true,
            after_crash,
        };
        Model {
            since: writes.iter().map(write).collect(),
            must_survive,
            ..Model::default()
        }
    }

    /// Goal: the model accepts what is legal and names what is not. Method: one state of each kind.
    #[test]
    fn each_kind_of_wrong_state_is_named() {
        let batch: &[(u8, Option<u32>)] = &[(1, Some(2)), (2, Some(3))];
        let writes: [&[(u8, Option<u32>)]; 3] = [&[(0, Some(1))], batch, &[(3, Some(4))]];
        let verdict = |must_survive, after_crash, seen: &[(u8, u32)]| {
            model(&writes, must_survive, after_crash)
                .recovered(&seen.iter().copied().collect())
                .map_err(|(property, _)| property)
        };
        assert_eq!(verdict(0, false, &[]), Ok(()));
        assert_eq!(verdict(1, false, &[(0, 1)]), Ok(()));
        assert_eq!(verdict(1, false, &[]), Err(Property::AcknowledgedDurable));
        assert_eq!(verdict(1, true, &[]), Err(Property::WorkAfterRecovery));
        assert_eq!(
            verdict(1, false, &[(0, 1), (1, 2)]),
            Err(Property::AtomicWrites)
        );
        assert_eq!(verdict(1, false, &[(0, 1), (3, 4)]), Err(Property::Prefix));
        assert_eq!(verdict(0, false, &[(5, 9)]), Err(Property::NoResurrection));
        let mut twice = model(&writes, 0, false);
        assert_eq!(twice.recovered(&State::new()), Ok(()));
        assert_eq!(
            twice
                .recovered(&[(0, 1)].into())
                .map_err(|(property, _)| property),
            Err(Property::NoResurrection)
        );
    }
}
