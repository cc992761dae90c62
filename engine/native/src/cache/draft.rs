//! What a writer prepares before it takes any lock: the rows that its write will put into the cache. Under the lock of
//! the engine or the intake, rows only change places. The rows that leave are freed after the lock was let go. So
//! copying values and allocating memory, which may take the kernel a while, delay no other thread.
//!
//! Invariants:
//! - a row of a draft is the key and the value of its mutation. A mutation has no row where the cache would not keep
//!   it, or where it deletes the key;
//! - a draft that is not applied has changed nothing;
//! - a thread keeps one row that has left the cache, of at most [`SPARE_BYTES_MAX`], for its next write. This memory is
//!   beyond the cache's bound.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;

use kvsim_engine::Mutation;

use crate::cache::accepted::Accepted;
use crate::cache::borrowed::{fill_row, row_bytes, row_of};

const SPARE_BYTES_MAX: usize = 16 << 10;

thread_local! {
    static SPARE: Cell<Option<Arc<[u8]>>> = const { Cell::new(None) };
}

/// A write and its rows.
pub(crate) struct Draft<'a> {
    batch: &'a [Mutation<'a>],
    rows: RefCell<DraftRows>,
}

/// Rows on their way into the cache, and what it has given back for them.
pub(crate) struct DraftRows {
    pub(crate) rows: Vec<DraftRow>,
    pub(crate) dead: Vec<Arc<[u8]>>,
}

/// What one mutation makes of its key.
pub(crate) struct DraftRow {
    pub(crate) hash: u64,
    /// `None`: the key is not in the cache any more.
    pub(crate) row: Option<Arc<[u8]>>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(batch: &'a [Mutation<'a>], rows: Vec<DraftRow>) -> Draft<'a> {
        let dead = Vec::new();
        Draft {
            batch,
            rows: RefCell::new(DraftRows { rows, dead }),
        }
    }

    pub(crate) fn batch(&self) -> &'a [Mutation<'a>] {
        self.batch
    }

    pub(crate) fn rows(&self) -> RefMut<'_, DraftRows> {
        self.rows.borrow_mut()
    }

    /// Adds what its write changes, in rows that outlive it; those that the cache will hold are the same.
    pub(crate) fn copy_to(&self, changes: &mut Vec<Accepted>) {
        let rows = self.rows.borrow();
        let writes = self.batch.iter().zip(&rows.rows);
        changes.extend(writes.map(|(mutation, draft)| {
            let (value, is_delete) = match mutation {
                Mutation::Put { value, .. } => (*value, false),
                Mutation::Delete { .. } => (&[][..], true),
            };
            let row = draft.row.clone();
            Accepted {
                row: row.unwrap_or_else(|| row_of(mutation.key(), value)),
                is_delete,
                ends: false,
            }
        }));
        if let Some(last) = changes.last_mut() {
            last.ends = true;
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let mut dead = self.rows.get_mut().dead.drain(..);
        if let Some(spare) = dead.find(|row| row.len() <= SPARE_BYTES_MAX) {
            SPARE.set(Some(spare));
        }
    }
}

/// The row of a key and a value, in the memory of a row that has left the cache, if it fits and no reader holds that
/// row.
pub(crate) fn draw_up(key: &[u8], value: &[u8]) -> Arc<[u8]> {
    if row_bytes(key, value) <= SPARE_BYTES_MAX
        && let Some(mut spare) = SPARE.take()
        && let Some(row) = Arc::get_mut(&mut spare)
        && row.len() == row_bytes(key, value)
    {
        fill_row(row, key, value);
        return spare;
    }
    row_of(key, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::borrowed::split;

    /// Goal: memory is used again, but none that somebody still reads. Method: a row that has left, alone and held.
    #[test]
    fn a_spare_row_is_used_again_unless_it_is_held() {
        let leave = |row: &Arc<[u8]>| {
            let draft = Draft::new(&[], Vec::new());
            draft.rows().dead.push(Arc::clone(row));
        };
        let row = draw_up(b"key", b"value");
        leave(&row);
        let other = draw_up(b"kez", b"other");
        assert!(!Arc::ptr_eq(&row, &other), "it is held");
        assert_eq!((split(&row), &row[7..]), ((&b"key"[..], 7), &b"value"[..]));
        let before = Arc::as_ptr(&other);
        leave(&other);
        drop(other);
        let again = draw_up(b"yek", b"later");
        assert_eq!(Arc::as_ptr(&again), before, "it has left, and fits");
        assert_eq!(
            (split(&again), &again[7..]),
            ((&b"yek"[..], 7), &b"later"[..])
        );
        leave(&again);
        drop(again);
        let longer = draw_up(b"key", b"a longer value");
        assert_eq!(&longer[7..], b"a longer value");
    }
}
