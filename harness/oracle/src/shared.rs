//! A list that grows at its end and is copied often: copies share all of it but what was changed since.
//!
//! An exploration keeps what must survive at each crash point, and each knows the whole history before it.

use std::sync::Arc;

/// So many entries are copied if one of them is changed.
const CHUNK: usize = 32;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct SharedList<T> {
    /// All are full but the last.
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        SharedList {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Clone> SharedList<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, entry: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        if let Some(last) = self.chunks.last_mut() {
            Arc::make_mut(last).push(entry);
            self.len += 1;
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(at / CHUNK)?).get_mut(at % CHUNK)
    }

    pub(crate) fn clear(&mut self) {
        *self = SharedList::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: it is a list, and copies do not see each other's changes. Method: grow, copy, change and grow both.
    #[test]
    fn copies_go_their_own_ways() {
        let mut one = SharedList::default();
        let count = 3 * CHUNK + 5;
        (0..count).for_each(|number| one.push(number));
        let mut two = one.clone();
        *two.get_mut(CHUNK).expect("it is there") = 1_000;
        two.push(2_000);
        one.push(3_000);
        let all = |list: &SharedList<usize>| -> Vec<usize> {
            (0..).map_while(|at| list.get(at).copied()).collect()
        };
        let mut expected: Vec<usize> = (0..count).collect();
        expected.push(3_000);
        assert_eq!(all(&one), expected);
        (expected[CHUNK], expected[count]) = (1_000, 2_000);
        assert_eq!(all(&two), expected);
        assert_eq!((two.len(), two.get_mut(count + 1)), (count + 1, None));
        two.clear();
        assert_eq!((two.len(), two.get(0)), (0, None));
    }
}
