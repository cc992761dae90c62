//! Which pending effects need which: sets that hold all that their effects need are the ones that a cut can leave.

use kvsim_simdisk::Effects;

use super::set::Set;

/// What each effect needs, with what that needs in turn.
pub(super) struct Needs {
    count: usize,
    /// All that each needs; empty where nothing needs anything.
    needs: Vec<Set>,
    /// All that need each; empty where nothing needs anything.
    needed_by: Vec<Set>,
}

impl Needs {
    pub(super) fn of(effects: &Effects) -> Needs {
        let list = &effects.list;
        let count = list.len();
        let (mut needs, mut needed_by): (Vec<Set>, Vec<Set>) = (Vec::new(), Vec::new());
        if list.iter().any(|effect| !effect.needs.is_empty()) {
            needed_by = vec![Set::none(count); count];
            for (at, effect) in list.iter().enumerate() {
                let mut all = Set::of(&effect.needs, count);
                for &need in &effect.needs {
                    all.add_all(&needs[need]);
                }
                for need in all.places() {
                    needed_by[need].add(at);
                }
                needs.push(all);
            }
        }
        Needs {
            count,
            needs,
            needed_by,
        }
    }

    /// How many effects there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether any needs another.
    pub(super) fn is_ordered(&self) -> bool {
        !self.needs.is_empty()
    }

    /// Whether `at` needs `other`.
    pub(super) fn follows(&self, at: usize, other: usize) -> bool {
        self.is_ordered() && self.needs[at].has(other)
    }

    /// Whether one of these needs it.
    pub(super) fn is_needed(&self, at: usize, set: &Set) -> bool {
        self.is_ordered() && self.needed_by[at].intersects(set)
    }

    /// These and all that they need.
    pub(super) fn with_needs(&self, places: impl Iterator<Item = usize>) -> Set {
        let mut set = Set::none(self.count);
        for at in places {
            set.add(at);
            if self.is_ordered() {
                set.add_all(&self.needs[at]);
            }
        }
        set
    }

    /// All but these and what needs them.
    pub(super) fn without(&self, places: impl Iterator<Item = usize>) -> Set {
        let mut set = Set::before(self.count, self.count);
        for at in places {
            set.remove(at);
            if self.is_ordered() {
                set.remove_all(&self.needed_by[at]);
            }
        }
        set
    }

    /// Whether more chains than so many, in each of which every effect needs the one before, are taken to hold all of them: not always the fewest.
    pub(super) fn has_more_chains(&self, than: usize) -> bool {
        if !self.is_ordered() {
            return self.count > than;
        }
        let mut ends: Vec<usize> = Vec::new();
        for at in 0..self.count {
            match ends.iter_mut().find(|end| self.follows(at, **end)) {
                Some(end) => *end = at,
                None => ends.push(at),
            }
            if ends.len() > than {
                return true;
            }
        }
        false
    }
}
