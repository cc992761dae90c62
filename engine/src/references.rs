//! Numbers by hash, with open addressing: what a look-up touches is one cache line, or two, where tables with metadata of their own touch one more
//! before.
//!
//! Linear probing; a removal shifts back what lies behind it, so there are no tombstones and nothing has to be swept (Knuth, *The Art of Computer
//! Programming*, vol. 3, 6.4, algorithm R).
//!
//! Invariants:
//! - from the home of a reference's hash to the reference itself no place is vacant;
//! - at most three quarters of all places are taken.

/// A number under its hash. The hash lies beside it, so that neither a wrong candidate nor growth touches what it stands for.
#[derive(Debug, Clone, Copy)]
struct Reference {
    hash: u32,
    number: u32,
}

const VACANT: Reference = Reference {
    hash: 0,
    number: u32::MAX,
};
const PLACES_MIN: usize = 16;

impl Reference {
    fn is_vacant(self) -> bool {
        self.number == VACANT.number
    }
}

#[derive(Debug, Default)]
pub(crate) struct References {
    /// As many as a power of two, or none.
    places: Vec<Reference>,
    taken: usize,
}

impl References {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    fn place_of(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(hash);
        loop {
            let here = self.places[place];
            if here.is_vacant() {
                return None;
            }
            if here.hash == hash && is_it(here.number) {
                return Some(place);
            }
            place = self.after(place);
        }
    }

    /// The number under this hash of which this is true.
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let place = self.place_of(hash, is_it)?;
        Some(self.places[place].number)
    }

    /// Adds a number, of which there are fewer than 2^32 - 1.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        assert_ne!(number, VACANT.number, "that many entries do not fit");
        if (self.taken + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        self.put(Reference { hash, number });
        self.taken += 1;
    }

    fn put(&mut self, reference: Reference) {
        let mut place = self.home(reference.hash);
        while !self.places[place].is_vacant() {
            place = self.after(place);
        }
        self.places[place] = reference;
    }

    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        let before = std::mem::replace(&mut self.places, vec![VACANT; places]);
        for reference in before {
            if !reference.is_vacant() {
                self.put(reference);
            }
        }
    }

    /// Removes a number that is there.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let found = self.place_of(hash, |other| other == number);
        let mut hole = found.expect("what is removed is there");
        let mut place = hole;
        loop {
            place = self.after(place);
            let here = self.places[place];
            if here.is_vacant() {
                break;
            }
            // It may move back to the hole unless its home lies behind the hole.
            let mask = self.places.len() - 1;
            let from_home = place.wrapping_sub(self.home(here.hash)) & mask;
            let from_hole = place.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.places[hole] = here;
                hole = place;
            }
        }
        self.places[hole] = VACANT;
        self.taken -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A third of all numbers has a home at the end, a third at the start.
    fn hash_of(number: u32) -> u32 {
        match number % 3 {
            0 => u32::MAX - number % 5,
            1 => number % 7,
            _ => number.wrapping_mul(2_654_435_761),
        }
    }

    /// Goal: what is there is found and nothing else, also where homes collide and runs go round the end. Method: many insertions and removals under
    /// few hashes, some of which lie at the end; after each, all of a map's numbers and as many that are gone.
    #[test]
    fn what_is_there_is_found() {
        let mut references = References::default();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        assert_eq!(references.find(7, |_| true), None);
        let mut state = 1_u32;
        for step in 0..6_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (state >> 16) % 300;
            let hash = hash_of(number);
            match model.remove(&number) {
                Some(hash) => references.remove(hash, number),
                None => {
                    references.insert(hash, number);
                    model.insert(number, hash);
                }
            }
            assert_eq!(references.len(), model.len(), "step {step}");
            if step % 16 > 0 {
                continue;
            }
            for number in 0..300 {
                let found = references.find(hash_of(number), |other| other == number);
                assert_eq!(found.is_some(), model.contains_key(&number), "{number}");
            }
        }
        assert!(references.places.len() >= model.len() * 4 / 3);
    }
}
