//! Keys as small numbers, and contents as hashes: what the oracle compares instead of bytes.

use crate::scenario::thousands;
use crate::value;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Names a key within one oracle.
pub(super) type KeyId = u32;

/// What a key holds: nothing, or a value known by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content(u64);

impl Content {
    /// Nothing.
    pub(super) const ABSENT: Content = Content(0);

    /// This value.
    pub(super) fn of(value: &[u8]) -> Content {
        Content(value::content_hash(value).max(1))
    }

    pub(super) fn is_absent(self) -> bool {
        self == Content::ABSENT
    }

    /// The hash itself, 0 for nothing.
    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// All keys ever named in a request, in their order and by their number.
///
/// Shared between clones of an oracle until one of them meets a new key.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyTable(Arc<Table>);

#[derive(Debug, Clone, Default)]
struct Table {
    by_key: BTreeMap<Arc<[u8]>, KeyId>,
    names: Vec<Arc<[u8]>>,
}

impl KeyTable {
    pub(super) fn get(&self, key: &[u8]) -> Option<KeyId> {
        self.0.by_key.get(key).copied()
    }

    /// The number of `key`, and whether it is new.
    pub(super) fn intern(&mut self, key: &[u8]) -> (KeyId, bool) {
        if let Some(id) = self.get(key) {
            return (id, false);
        }
        let table = Arc::make_mut(&mut self.0);
        let id = KeyId::try_from(table.names.len()).expect("fewer than 2^32 keys");
        let name: Arc<[u8]> = key.into();
        table.names.push(Arc::clone(&name));
        table.by_key.insert(name, id);
        (id, true)
    }

    pub(super) fn name(&self, id: KeyId) -> &Arc<[u8]> {
        &self.0.names[id as usize]
    }

    /// Keys between two bounds, in order.
    pub(super) fn range<'a>(
        &'a self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], KeyId)> + use<'a> {
        let empty = match (low, high) {
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (
                Bound::Included(low) | Bound::Excluded(low),
                Bound::Included(high) | Bound::Excluded(high),
            ) => low >= high,
            _ => false,
        };
        let range = (!empty).then(|| self.0.by_key.range::<[u8], _>((low, high)));
        range
            .into_iter()
            .flatten()
            .map(|(name, &id)| (&name[..], id))
    }
}

/// Bytes of a key that a person is shown.
const SHOWN_BYTES_MAX: usize = 40;

/// A key for a person, in quotes: `""` if it is empty; what cannot be printed is escaped, and of a long one the beginning is shown.
pub(crate) fn printable(key: &[u8]) -> String {
    let mut shown = String::from('"');
    for chunk in key[..key.len().min(SHOWN_BYTES_MAX)].utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => shown.extend(['\\', c]),
                '\0' => shown.push_str("\\0"),
                c if c.is_control() => shown.extend(c.escape_default()),
                c => shown.push(c),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown.push('"');
    if key.len() > SHOWN_BYTES_MAX {
        shown.push_str(&format!("… of {} bytes", thousands(key.len() as u64)));
    }
    shown
}

/// The smallest key after `key`.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::printable;

    /// Goal: a person can read any key, and tell where it begins and ends. Method: none, words, quotes, what cannot be printed, and too much.
    #[test]
    fn every_key_can_be_read() {
        assert_eq!(printable(b""), "\"\"");
        assert_eq!(printable(b"user 7"), "\"user 7\"");
        assert_eq!(printable(b"a\"b\\"), "\"a\\\"b\\\\\"");
        assert_eq!(printable("ä".as_bytes()), "\"ä\"");
        assert_eq!(printable(b"\0\n\xff"), "\"\\0\\n\\xff\"");
        let long = printable(&[b'k'; 1_500]);
        assert_eq!(long, format!("\"{}\"… of 1,500 bytes", "k".repeat(40)));
    }
}
