//! Which keyspaces a batch, conditions or a transaction name, and what of that is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::divided::Divided;
use super::error::{check_key, other};
use super::identifier;
use super::keyspace::Keyspace;
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;

/// Keyspaces of one database, by their identifiers.
#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    keyspaces: BTreeMap<u32, Keyspace>,
    /// The first thing that is wrong, for whoever makes the writes: what only collects has nobody to tell.
    wrong: Option<Failure>,
}

impl Named {
    /// Adds a keyspace, and gives the prefix of its keys.
    pub(super) fn add(&mut self, keyspace: &Keyspace) -> KeyPrefix {
        let (state, divided) = (keyspace.state(), keyspace.divided());
        let same = self.keyspaces.get(&state.identifier);
        if same.is_some_and(|it| Arc::ptr_eq(it.state(), state)) {
            return state.prefix;
        }
        let first = self.keyspaces.values().next();
        if first.is_some_and(|it| !Arc::ptr_eq(it.divided(), divided)) {
            self.note(other());
        } else {
            self.keyspaces.insert(state.identifier, keyspace.clone());
        }
        state.prefix
    }

    /// The same for a write of this key.
    pub(super) fn add_write(&mut self, keyspace: &Keyspace, key: &[u8]) -> KeyPrefix {
        if let Err(failure) = check_key(key) {
            self.note(failure);
        }
        self.add(keyspace)
    }

    fn note(&mut self, failure: Failure) {
        self.wrong.get_or_insert(failure);
    }

    /// Whether all can be written to, if this is their database. Nothing is dropped meanwhile.
    pub(super) fn check(&self, divided: &Arc<Divided>) -> Result<(), Failure> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        for keyspace in self.keyspaces.values() {
            keyspace.check_of(divided)?;
            keyspace.state().check()?;
        }
        Ok(())
    }

    /// The keyspaces.
    pub(super) fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        self.keyspaces.values()
    }

    /// The keyspace of a key as it is in the file, and the key in that keyspace.
    pub(super) fn split(&self, key: &[u8]) -> (Keyspace, Box<[u8]>) {
        let keyspace = identifier::of_key(key).and_then(|it| self.keyspaces.get(&it));
        let keyspace = keyspace.expect("it was named with this key");
        (
            keyspace.clone(),
            key[keyspace.state().prefix.len()..].into(),
        )
    }
}
