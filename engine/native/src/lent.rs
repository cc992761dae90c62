//! What is lent of a row, or of a buffer that was read, without copying; and how a row lies in memory: key and value in one piece,
//! so that a hit touches one place.

use std::ops::Deref;
use std::sync::Arc;

use kvsim_engine::Shared;

pub(crate) const KEY_LEN_BYTES: usize = 4;

/// A value lent from a cache or from a buffer that was read; nothing is copied.
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

/// Key and value in one piece, so that a hit touches one place.
pub(crate) fn row_of(key: &[u8], value: &[u8]) -> Arc<[u8]> {
    let len = u32::try_from(key.len()).expect("keys are short");
    let mut row = Vec::with_capacity(KEY_LEN_BYTES + key.len() + value.len());
    row.extend_from_slice(&len.to_le_bytes());
    row.extend_from_slice(key);
    row.extend_from_slice(value);
    row.into()
}

pub(crate) fn split(row: &[u8]) -> (&[u8], usize) {
    let len = u32::from_le_bytes([row[0], row[1], row[2], row[3]]) as usize;
    (
        &row[KEY_LEN_BYTES..KEY_LEN_BYTES + len],
        KEY_LEN_BYTES + len,
    )
}
