//! Values that borrow from a row, or from a buffer that was read, without a copy. And how a row lies in memory: key and
//! value in one piece, so that a hit touches one place.

use std::ops::Deref;
use std::sync::Arc;

use kvsim_engine::Shared;

pub(crate) const KEY_LEN_BYTES: usize = 4;

/// A value borrowed from a cache or from a buffer that was read; nothing is copied.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Row(Arc<[u8]>, usize),
    Shared(Shared),
}

impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Row(row, start) => &row[*start..],
            Repr::Shared(shared) => shared,
        }
    }
}

impl Value {
    /// A value that no cache holds.
    pub(crate) fn copy(bytes: &[u8]) -> Value {
        Value(Repr::Shared(Shared::copy(bytes)))
    }

    /// The value of a row, which begins there.
    pub(crate) fn of_row(row: Arc<[u8]>, start: usize) -> Value {
        Value(Repr::Row(row, start))
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

impl From<Shared> for Value {
    fn from(shared: Shared) -> Value {
        Value(Repr::Shared(shared))
    }
}

/// Bytes of the row of a key and a value.
pub(crate) fn row_bytes(key: &[u8], value: &[u8]) -> usize {
    KEY_LEN_BYTES + key.len() + value.len()
}

/// Key and value in one piece, so that a hit touches one place.
pub(crate) fn row_of(key: &[u8], value: &[u8]) -> Arc<[u8]> {
    let mut row = Vec::with_capacity(row_bytes(key, value));
    row.extend_from_slice(&key_len(key));
    row.extend_from_slice(key);
    row.extend_from_slice(value);
    row.into()
}

/// The same in memory of just that size.
pub(crate) fn fill_row(row: &mut [u8], key: &[u8], value: &[u8]) {
    let (len, rest) = row.split_at_mut(KEY_LEN_BYTES);
    let (key_of_row, value_of_row) = rest.split_at_mut(key.len());
    len.copy_from_slice(&key_len(key));
    key_of_row.copy_from_slice(key);
    value_of_row.copy_from_slice(value);
}

fn key_len(key: &[u8]) -> [u8; KEY_LEN_BYTES] {
    let len = u32::try_from(key.len()).expect("keys are short");
    len.to_le_bytes()
}

pub(crate) fn split(row: &[u8]) -> (&[u8], usize) {
    let len = u32::from_le_bytes([row[0], row[1], row[2], row[3]]) as usize;
    (
        &row[KEY_LEN_BYTES..KEY_LEN_BYTES + len],
        KEY_LEN_BYTES + len,
    )
}
