//! A database that is divided into named keyspaces, in one file, and atomic across them.
//!
//! It is a layer above `Database`, which knows nothing of it; the file's format is the same. In the file, each key of a keyspace has a prefix of 1 to 4 bytes before it, and keys
//! that begin with a zero byte are the catalogue. So one log, one order of writes, one snapshot and one cache are those of all keyspaces, and what is atomic in a database
//! is atomic across keyspaces without anything more.
//!
//! - `identifier`: numbers of keyspaces, and their prefixes; `catalogue`: which there are, as it lies in the file;
//! - `divided`: what all handles share, and how writes and drops keep out of each other's way;
//! - `keyspace`: a handle, with reads and writes; `tasks`: the same for those who do not block;
//! - `named`: which keyspaces a `batch`, `conditional` or a `transaction` names; `snapshot`: one moment of all;
//! - `removal`: drops. This file opens, creates and lists.
//!
//! How this was decided:
//!
//! - Identifiers are never given twice, and there are 268 million. So no key can ever appear in a keyspace that is younger than the key, and a handle of a dropped
//!   keyspace is never one of another.
//! - The longest key is the same for every keyspace, whatever its prefix: what was taken out of one always fits into another.
//! - The `Database` of a divided file is not handed out. Whoever wrote to it could change the catalogue behind the list in memory, and would need to know prefixes. The file can be
//!   opened as a database; then it shows all that.
//!
//! Invariants:
//! - a change of the catalogue is made with the lock of the list held, and is in the file before it is in the list;
//! - the invariants of `catalogue` and `divided`.

pub(crate) mod batch;
mod catalogue;
pub(crate) mod conditional;
mod divided;
pub(crate) mod error;
mod identifier;
pub(crate) mod keyspace;
mod named;
mod removal;
pub(crate) mod snapshot;
mod tasks;
pub(crate) mod transaction;

use std::path::Path;
use std::sync::Arc;

use kvsim_engine::Durability;

use crate::api::error::{Failure, OpenError};
use crate::api::options::OpenOptions;
#[expect(unused_imports, reason = "for the documentation")]
use crate::database::Database;
use crate::database::backup::{BackupError, Progress};
use crate::database::metrics::Metrics;
use crate::database::read_only::ReadOnly;
use crate::io::device::DeviceReport;
use crate::lock::lock;
use crate::sync::leader::Counts;
use catalogue::{Catalogue, Unusable};
use divided::{Divided, List, State};
use error::{KeyspaceError, missing};
use keyspace::Keyspace;

/// An open database that is divided into named keyspaces. Clones share it; when the last of them and of the handles that were got from it goes, the database is closed.
///
/// Keyspaces have keys of their own: the same key can be in several. All are in one file, and share its log, its cache and its memory. A batch, a transaction and a snapshot may
/// be of several keyspaces.
///
/// A file is divided or it is not. A file that does not exist or holds nothing is divided by the first opening; one that holds keys of no keyspace is refused. A divided file
/// can be opened as a [`Database`] too: then each key has 1 to 4 bytes before it that stand for its keyspace, and what begins with a zero byte is the catalogue, which is not
/// to be changed.
///
/// ```
/// # use kvsim_native::{Durability, KeyspaceBatch, OpenOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
/// let users = keyspaces.open_or_create("users")?;
/// let visits = keyspaces.open_or_create("visits")?;
/// let mut batch = KeyspaceBatch::new();
/// batch.put(&users, b"1", b"Ada").put(&visits, b"1", b"home");
/// keyspaces.apply(&batch, Durability::Durable)?;
/// assert_eq!(users.get(b"1")?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!(keyspaces.list(), ["users", "visits"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyspaces(Arc<Divided>);

impl std::fmt::Debug for Keyspaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspaces")
            .field("database", &self.0.database)
            .finish_non_exhaustive()
    }
}

impl OpenOptions {
    /// Opens the database in a file or on a block device as keyspaces. Creates it, and divides it, in a file that does not exist or holds nothing.
    ///
    /// If keys of dropped keyspaces are left, since a process ended while it removed them, they are removed first: see [`Keyspaces::remove_dropped`]. What then fails does not
    /// make the opening fail. Read only, they are left where they are, and not seen.
    ///
    /// # Errors
    /// [`OpenError`]: what is wrong, with which file; [`OpenError::Keyspaces`] if it is not divided, or by another version. Then it is left as it was.
    pub fn open_keyspaces(&self, path: impl AsRef<Path>) -> Result<Keyspaces, OpenError> {
        let path = path.as_ref();
        let database = self.open(path)?;
        let failed = |failure| OpenError::Engine {
            path: path.to_owned(),
            failure,
        };
        let catalogue = match catalogue::read(&database) {
            Ok(Some(catalogue)) => catalogue,
            Ok(None) => {
                if !self.read_only {
                    let divided = database.apply(&catalogue::divided(), Durability::Durable);
                    divided.map_err(failed)?;
                }
                Catalogue::new()
            }
            Err(Unusable::Failed(failure)) => return Err(failed(failure)),
            Err(Unusable::Wrong(what)) => {
                let path = path.to_owned();
                return Err(OpenError::Keyspaces { path, what });
            }
        };
        let named = catalogue.named.into_iter().map(|(name, identifier)| {
            let state = State::new(&name, identifier);
            (name, Arc::new(state))
        });
        let list = List {
            next: catalogue.next,
            named: named.collect(),
            dropped: catalogue.dropped,
        };
        let keyspaces = Keyspaces(Arc::new(Divided::new(database, list)));
        if !self.read_only
            && let Err(failure) = keyspaces.remove_dropped()
        {
            tracing::warn!(target: "kvsim_native", "keys of dropped keyspaces stay: {failure}");
        }
        Ok(keyspaces)
    }
}

impl Keyspaces {
    /// Creates a keyspace of this name, which is 1 to [`KEYSPACE_NAME_BYTES_MAX`](crate::KEYSPACE_NAME_BYTES_MAX) bytes of UTF-8 without the character of number 0. It is durable when this returns. Of several threads that create
    /// the same one, one does.
    ///
    /// # Errors
    /// [`KeyspaceError`]: there is one already; there can be none of this name; the database failed.
    pub fn create(&self, name: &str) -> Result<Keyspace, KeyspaceError> {
        catalogue::check_name(name)?;
        let mut list = lock(&self.0.list);
        match list.named.contains_key(name) {
            true => Err(KeyspaceError::Exists {
                name: name.to_owned(),
            }),
            false => self.create_in(&mut list, name),
        }
    }

    /// The keyspace of this name.
    ///
    /// # Errors
    /// [`KeyspaceError::Missing`]: there is none.
    ///
    /// ```
    /// # use kvsim_native::{KeyspaceError, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
    /// keyspaces.create("users")?;
    /// assert_eq!(keyspaces.open("users")?.name(), "users");
    /// assert!(matches!(keyspaces.open("user"), Err(KeyspaceError::Missing { .. })));
    /// assert!(matches!(keyspaces.create("users"), Err(KeyspaceError::Exists { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(&self, name: &str) -> Result<Keyspace, KeyspaceError> {
        let list = lock(&self.0.list);
        let state = list.named.get(name).ok_or_else(|| missing(name))?;
        Ok(self.handle(state))
    }

    /// The keyspace of this name, which is created if there is none: see [`Keyspaces::create`].
    ///
    /// # Errors
    /// [`KeyspaceError`]: there can be none of this name; the database failed.
    pub fn open_or_create(&self, name: &str) -> Result<Keyspace, KeyspaceError> {
        catalogue::check_name(name)?;
        let mut list = lock(&self.0.list);
        match list.named.get(name) {
            Some(state) => Ok(self.handle(state)),
            None => self.create_in(&mut list, name),
        }
    }

    /// The names of all keyspaces, in the order of their bytes.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        lock(&self.0.list).named.keys().cloned().collect()
    }

    /// Gives a keyspace another name, which nobody has. Its handles are handles of it still. It is durable when this returns.
    ///
    /// # Errors
    /// [`KeyspaceError`]: there is none of the one name, or one of the other; there can be none of that; the database failed.
    ///
    /// ```
    /// # use kvsim_native::{Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # let keyspaces = OpenOptions::new().size_bytes(16 << 20).open_keyspaces(&path)?;
    /// let new = keyspaces.create("users.new")?;
    /// new.put(b"1", b"Ada", Durability::Relaxed)?;
    /// keyspaces.rename("users.new", "users")?;
    /// assert!(keyspaces.open("users")?.contains(b"1")?);
    /// assert_eq!(new.name(), "users");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rename(&self, from: &str, to: &str) -> Result<(), KeyspaceError> {
        catalogue::check_name(to)?;
        let mut list = lock(&self.0.list);
        let state = list.named.get(from).ok_or_else(|| missing(from))?;
        let state = Arc::clone(state);
        if list.named.contains_key(to) {
            return Err(KeyspaceError::Exists {
                name: to.to_owned(),
            });
        }
        let batch = catalogue::renamed(from, to, state.identifier);
        self.0.database.apply(&batch, Durability::Durable)?;
        to.clone_into(&mut lock(&state.name));
        list.named.remove(from);
        list.named.insert(to.to_owned(), state);
        Ok(())
    }

    fn create_in(&self, list: &mut List, name: &str) -> Result<Keyspace, KeyspaceError> {
        let identifier = list.next;
        if identifier >= identifier::END {
            return Err(KeyspaceError::Exhausted);
        }
        // After a failure nobody knows whether it is given: so it is.
        list.next += 1;
        let batch = catalogue::created(name, identifier);
        self.0.database.apply(&batch, Durability::Durable)?;
        let state = Arc::new(State::new(name, identifier));
        let keyspace = self.handle(&state);
        list.named.insert(name.to_owned(), state);
        Ok(keyspace)
    }

    fn handle(&self, state: &Arc<State>) -> Keyspace {
        Keyspace::new(&self.0, state)
    }

    /// Returns once everything accepted so far is durable, in all keyspaces.
    ///
    /// # Errors
    /// [`Failure`]: not everything is.
    pub fn sync(&self) -> Result<(), Failure> {
        self.0.database.sync()
    }

    /// Makes everything durable and closes the database, for all clones and all handles of keyspaces.
    ///
    /// # Errors
    /// [`Failure`]: not everything is durable.
    pub fn close(self) -> Result<(), Failure> {
        self.0.database.clone().close()
    }

    /// Makes a copy of all keyspaces as they are now, in a new file that is divided in the same way: see [`Database::backup`].
    ///
    /// # Errors
    /// [`BackupError`]: the name is taken; what cannot be read or written.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Progress, BackupError> {
        self.0.database.backup(path)
    }

    /// What is measured of the database; keys are those of all keyspaces, and a few of the catalogue. See [`Database::metrics`].
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.0.database.metrics()
    }

    /// What was counted since the opening.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.database.counts()
    }

    /// What was found about the device.
    #[must_use]
    pub fn device(&self) -> &DeviceReport {
        self.0.database.device()
    }

    /// Why writes are refused; `None` as long as they are not. See [`Database::read_only`].
    #[must_use]
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.0.database.read_only()
    }
}
