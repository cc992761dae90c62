//! A piece of the ordered cache: rows in the order of their keys, borrowed by scans as a whole.
//!
//! A scan holds a reference to a leaf and reads its rows without counting references to each. A leaf that a scan holds is never
//! changed: a change is made to a copy.
//!
//! Invariant: rows are in the order of their keys, and no key is there twice.

use std::sync::Arc;

use crate::cache::borrowed::split;

const HEAD_BYTES: usize = 16;

/// What a row costs here beside its key and value.
pub(crate) const ROW_OVERHEAD_BYTES: usize = 96;

/// A row with the first bytes of its key beside it, so that searching rarely has to look at a row.
#[derive(Debug, Clone)]
struct Headed {
    head: u128,
    row: Arc<[u8]>,
}

/// Rows in the order of their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leaf {
    rows: Vec<Headed>,
    bytes: usize,
}

/// The first bytes of a key as a number: of two that differ, the key of the smaller one is the smaller key.
fn head_of(key: &[u8]) -> u128 {
    let mut head = [0; HEAD_BYTES];
    let taken = key.len().min(HEAD_BYTES);
    head[..taken].copy_from_slice(&key[..taken]);
    u128::from_be_bytes(head)
}

fn cost(row: &[u8]) -> usize {
    row.len() + ROW_OVERHEAD_BYTES
}

impl Leaf {
    /// A leaf of rows that are in the order of their keys.
    pub(crate) fn of(rows: impl IntoIterator<Item = Arc<[u8]>>) -> Leaf {
        let headed = |row: Arc<[u8]>| Headed {
            head: head_of(split(&row).0),
            row,
        };
        let rows: Vec<_> = rows.into_iter().map(headed).collect();
        let bytes = rows.iter().map(|headed| cost(&headed.row)).sum();
        Leaf { rows, bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of all rows, and what they cost beside.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.rows.iter().map(|headed| &headed.row)
    }

    /// Key and value of a row.
    pub(crate) fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let row = &self.rows[at].row;
        let (key, start) = split(row);
        (key, &row[start..])
    }

    pub(crate) fn key(&self, at: usize) -> &[u8] {
        split(&self.rows[at].row).0
    }

    /// Bytes of a row's key and value together.
    pub(crate) fn entry_bytes(&self, at: usize) -> usize {
        self.rows[at].row.len() - crate::cache::borrowed::KEY_LEN_BYTES
    }

    /// Where a key is, or would be.
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let head = head_of(key);
        self.rows.binary_search_by(|headed| {
            let heads = headed.head.cmp(&head);
            heads.then_with(|| split(&headed.row).0.cmp(key))
        })
    }

    /// How many rows have smaller keys.
    pub(crate) fn before(&self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|at| at)
    }

    /// Sets a row; says whether it became the last one. The row that was there is returned.
    pub(crate) fn put(&mut self, row: Arc<[u8]>) -> (bool, Option<Arc<[u8]>>) {
        let key = split(&row).0;
        self.bytes += cost(&row);
        match self.search(key) {
            Ok(at) => {
                let old = std::mem::replace(&mut self.rows[at].row, row);
                self.bytes -= cost(&old);
                (false, Some(old))
            }
            Err(at) => {
                let head = head_of(key);
                self.rows.insert(at, Headed { head, row });
                (at + 1 == self.rows.len(), None)
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<[u8]>> {
        let at = self.search(key).ok()?;
        let row = self.rows.remove(at).row;
        self.bytes -= cost(&row);
        Some(row)
    }

    /// Gives away the rows from there on.
    pub(crate) fn split_off(&mut self, at: usize) -> Leaf {
        let rows = self.rows.split_off(at);
        let bytes = rows.iter().map(|headed| cost(&headed.row)).sum();
        self.bytes -= bytes;
        Leaf { rows, bytes }
    }

    /// Takes the rows of the leaf that follows.
    pub(crate) fn append(&mut self, next: &Leaf) {
        self.rows.extend_from_slice(&next.rows);
        self.bytes += next.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::borrowed::row_of;

    /// Goal: rows are found by their keys, also where the first bytes of keys are equal. Method: keys around the length of a head,
    /// put and removed in a mixed order, against a map.
    #[test]
    fn rows_are_in_the_order_of_their_keys() {
        let mut leaf = Leaf::default();
        let mut model = std::collections::BTreeMap::new();
        for n in 0_usize..400 {
            let mut key = vec![7; 13 + n * 7 % 6];
            key.push(u8::try_from(n * 31 % 5).expect("few"));
            if n % 3 == 2 {
                let removed = leaf.remove(&key);
                assert_eq!(removed.is_some(), model.remove(&key).is_some());
            } else {
                let (_, old) = leaf.put(row_of(&key, &n.to_le_bytes()));
                assert_eq!(old.is_some(), model.insert(key, n).is_some());
            }
            let found = (0..leaf.len()).map(|at| leaf.entry(at));
            let expected = model.iter().map(|(key, n)| (&key[..], n.to_le_bytes()));
            assert!(
                found.eq(expected.clone().map(|(key, _)| key).zip(
                    expected
                        .map(|(_, n)| n)
                        .collect::<Vec<_>>()
                        .iter()
                        .map(|n| &n[..])
                ))
            );
            for (at, key) in model.keys().enumerate() {
                assert_eq!(leaf.before(key), at);
            }
        }
        let bytes: usize = leaf.rows().map(|row| cost(row)).sum();
        assert_eq!(leaf.bytes(), bytes);
    }
}
