//! Keys as small numbers, and contents as hashes: what the oracle compares instead of bytes.

use kvsim_api::value;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Names a key within one oracle.
pub(crate) type KeyId = u32;

/// What a key holds: nothing, or a value known by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content(u64);

impl Content {
    /// Nothing.
    pub(crate) const ABSENT: Content = Content(0);

    /// This value.
    pub(crate) fn of(value: &[u8]) -> Content {
        Content(value::content_hash(value).max(1))
    }

    pub(crate) fn is_absent(self) -> bool {
        self == Content::ABSENT
    }

    /// The hash itself, 0 for nothing.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// All keys ever named in a request, in their order and by their number.
///
/// Shared between clones of an oracle until one of them meets a new key.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyTable(Arc<Table>);

#[derive(Debug, Clone, Default)]
struct Table {
    by_key: BTreeMap<Arc<[u8]>, KeyId>,
    names: Vec<Arc<[u8]>>,
}

impl KeyTable {
    pub(crate) fn get(&self, key: &[u8]) -> Option<KeyId> {
        self.0.by_key.get(key).copied()
    }

    /// The number of `key`, and whether it is new.
    pub(crate) fn intern(&mut self, key: &[u8]) -> (KeyId, bool) {
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

    pub(crate) fn name(&self, id: KeyId) -> &Arc<[u8]> {
        &self.0.names[id as usize]
    }

    /// Keys between two bounds, in order.
    pub(crate) fn range<'a>(
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

/// The smallest key after `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
