//! Writes that take effect only if keys have not changed.
//!
//! Whether a key has the value that it should have is looked up without the engine's lock, since the value may have to be read from the disk. Under the lock it is seen
//! whether that still holds: by the row in the cache; or since no write came to the key's shard after it was looked up; or since there is no such key. Where none of
//! these tells, it is looked up anew.
//!
//! Invariants:
//! - between the moment at which all conditions hold and the write there is no other write;
//! - it is looked up anew only after another write came to a shard, so some write always gets on.

mod ranges;

use kvsim_engine::{Direction, Durability, Mutation, Request};

pub(super) use self::ranges::RangeCondition;
use super::batch::WriteBatch;
use super::range::OwnedEntry;
use super::{Database, done};
use crate::api::error::Failure;
use crate::api::key_prefix::KeyPrefix;
use crate::api::key_range::{Bounds, KeyRange, successor};
use crate::cache::borrowed::{Value, split};
use crate::cache::rows::Stamp;
use crate::sync::leader::{Beside, CaughtUp};

/// What keys have to hold for a write to take effect.
///
/// ```
/// # use kvsim_native::{Checked, Conditions, Database, Durability, OpenOptions, WriteBatch};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
/// database.put(b"account", b"100", Durability::Relaxed)?;
/// let mut conditions = Conditions::new();
/// conditions.is(b"account", b"100").is_absent(b"transfer/7");
/// let mut batch = WriteBatch::new();
/// batch.put(b"account", b"70").put(b"transfer/7", b"30");
/// assert_eq!(database.apply_if(&conditions, &batch, Durability::Durable)?, Checked::Written);
/// let again = database.apply_if(&conditions, &batch, Durability::Durable)?;
/// assert_eq!(again, Checked::Changed { key: b"account".as_slice().into() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    keys: Vec<Condition>,
    ranges: Vec<RangeCondition>,
}

#[derive(Debug, Clone)]
struct Condition {
    key: Box<[u8]>,
    value: Option<Expected>,
}

/// The value that a key has to have.
#[derive(Debug, Clone)]
enum Expected {
    Stated(Box<[u8]>),
    /// As it was read, borrowed.
    Read(Value),
}

impl Expected {
    fn bytes(&self) -> &[u8] {
        match self {
            Expected::Stated(bytes) => bytes,
            Expected::Read(value) => value,
        }
    }
}

impl Condition {
    fn is(&self, found: Option<&[u8]>) -> bool {
        self.value.as_ref().map(Expected::bytes) == found
    }
}

/// What came of a write with conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the write may not have been made"]
pub enum Checked {
    /// All conditions held, and it was written.
    Written,
    /// A key did not hold what it had to; nothing was written.
    Changed {
        /// The first such key, in the order in which the conditions were stated, those on ranges last.
        key: Box<[u8]>,
    },
}

impl Conditions {
    /// No conditions: everything is written.
    #[must_use]
    pub fn new() -> Conditions {
        Conditions::default()
    }

    /// The key has to have this value.
    pub fn is(&mut self, key: &[u8], value: &[u8]) -> &mut Conditions {
        self.add(key, Some(Expected::Stated(value.into())))
    }

    /// There has to be no such key.
    pub fn is_absent(&mut self, key: &[u8]) -> &mut Conditions {
        self.add(key, None)
    }

    /// The key has to be as it was read: with this value, or not there. Nothing is copied.
    pub fn is_unchanged(&mut self, key: &[u8], read: Option<&Value>) -> &mut Conditions {
        self.add(key, read.cloned().map(Expected::Read))
    }

    /// The range has to hold these entries, as they were read, and no other. They are in the order of their keys. Nothing is copied.
    ///
    /// If anything was written since, to this range or beside it, all of its keys are compared with the lock held that every write takes.
    ///
    /// ```
    /// # use kvsim_native::{Checked, Conditions, Database, Durability, OpenOptions, Prefix, WriteBatch};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let chairs = Prefix("chair/");
    /// let taken = database.range(chairs)?.collect::<Result<Vec<_>, _>>()?;
    /// let mut conditions = Conditions::new();
    /// conditions.range_is_unchanged(chairs, taken);
    /// database.put(b"chair/7", b"Ada", Durability::Durable)?;
    /// let checked = database.apply_if(&conditions, &WriteBatch::new(), Durability::Durable)?;
    /// assert_eq!(checked, Checked::Changed { key: b"chair/7".as_slice().into() });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range_is_unchanged(
        &mut self,
        range: impl KeyRange,
        read: impl IntoIterator<Item = OwnedEntry>,
    ) -> &mut Conditions {
        self.range_within_is_unchanged(KeyPrefix::default(), &range, read)
    }

    /// The same of a range of the keys that have this prefix, read without it.
    pub(crate) fn range_within_is_unchanged(
        &mut self,
        prefix: KeyPrefix,
        range: &impl KeyRange,
        read: impl IntoIterator<Item = OwnedEntry>,
    ) -> &mut Conditions {
        let read = read.into_iter().map(|entry| OwnedEntry {
            key: prefix.joined(&entry.key).into(),
            ..entry
        });
        self.add_range(RangeCondition::new(
            prefix.bounds(range),
            read.collect(),
            None,
        ))
    }

    pub(super) fn add_range(&mut self, range: RangeCondition) -> &mut Conditions {
        self.ranges.push(range);
        self
    }

    fn add(&mut self, key: &[u8], value: Option<Expected>) -> &mut Conditions {
        let key = key.into();
        self.keys.push(Condition { key, value });
        self
    }
}

/// What is seen under the lock.
enum Seen {
    Holds,
    Changed,
    /// The value has to be read.
    Unknown,
}

impl Database {
    /// Writes all of a batch if all conditions hold at that moment, and nothing otherwise. No other write comes between the check and the write.
    ///
    /// Values are compared, not versions: a key that was changed and changed back is as it was.
    ///
    /// # Errors
    /// As for [`Database::put`], and as for [`Database::get`] if a value that a condition is about cannot be read. A condition that does not hold is none.
    pub fn apply_if(
        &self,
        conditions: &Conditions,
        batch: &WriteBatch,
        durability: Durability,
    ) -> Result<Checked, Failure> {
        self.refuse_if_read_only()?;
        let writes: Vec<Mutation<'_>> = batch.iter().collect();
        let ranges = conditions.ranges.iter();
        let mut held_at: Vec<_> = ranges.map(RangeCondition::held_at).collect();
        loop {
            let mut stamps = Vec::with_capacity(conditions.keys.len());
            for condition in &conditions.keys {
                match self.look_up(condition)? {
                    Some(stamp) => stamps.push(stamp),
                    None => return Ok(condition.changed()),
                }
            }
            for (range, held_at) in conditions.ranges.iter().zip(&mut held_at) {
                if held_at.is_none() {
                    match self.look_up_range(range)? {
                        Ok(changes) => *held_at = Some(changes),
                        Err(key) => return Ok(Checked::Changed { key }),
                    }
                }
            }
            let draft = self.0.shared.rows.draft(&writes);
            let caught_up = self.0.shared.lock_caught_up();
            let mut is_known = true;
            let mut unknown = Vec::new();
            for (condition, stamp) in conditions.keys.iter().zip(stamps) {
                match self.look_again(&caught_up, condition, stamp) {
                    Seen::Holds => {}
                    Seen::Changed => return Ok(condition.changed()),
                    Seen::Unknown => is_known = false,
                }
            }
            for (range, held_at) in conditions.ranges.iter().zip(&mut held_at) {
                match self.look_again_at_range(&caught_up, range, *held_at) {
                    Ok(true) => {}
                    Ok(false) => {
                        (is_known, *held_at) = (false, None);
                        unknown.push(range);
                    }
                    Err(key) => return Ok(Checked::Changed { key }),
                }
            }
            if is_known {
                let request = Request::Write {
                    mutations: &writes,
                    durability,
                };
                let beside = Beside {
                    draft: Some(&draft),
                    ..Beside::default()
                };
                return done(caught_up.call(request, &beside)).map(|()| Checked::Written);
            }
            drop(caught_up);
            for range in unknown {
                self.know_range(range)?;
            }
        }
    }

    /// Sets a key, or removes it, if it has the value that it should have, or is not there.
    ///
    /// # Errors
    /// As for [`Database::apply_if`].
    ///
    /// ```
    /// # use kvsim_native::{Checked, Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let database = Database::open(&directory.path().join("database"), &OpenOptions::default())?;
    /// let taken = database.replace(b"leader", None, Some(b"node 1"), Durability::Durable)?;
    /// assert_eq!(taken, Checked::Written);
    /// let taken = database.replace(b"leader", None, Some(b"node 2"), Durability::Durable)?;
    /// assert_ne!(taken, Checked::Written);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace(
        &self,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        durability: Durability,
    ) -> Result<Checked, Failure> {
        let mut conditions = Conditions::new();
        match old {
            Some(old) => conditions.is(key, old),
            None => conditions.is_absent(key),
        };
        let mut batch = WriteBatch::new();
        match new {
            Some(new) => batch.put(key, new),
            None => batch.delete(key),
        };
        self.apply_if(&conditions, &batch, durability)
    }

    /// Looks a key up, on the disk if need be. If the condition holds, gives what its shard was before.
    fn look_up(&self, condition: &Condition) -> Result<Option<Option<Stamp>>, Failure> {
        let key = &condition.key;
        match self.0.shared.rows.get(key) {
            // Under the lock there is a row again, or a later write has come to the shard.
            Ok(value) => Ok(condition.is(Some(&value)).then_some(None)),
            Err(stamp) => {
                let found = self.get(key)?;
                Ok(condition.is(found.as_deref()).then_some(Some(stamp)))
            }
        }
    }

    /// Looks again with the lock held, and reads nothing.
    fn look_again(
        &self,
        caught_up: &CaughtUp<'_>,
        condition: &Condition,
        before: Option<Stamp>,
    ) -> Seen {
        let is = |holds| if holds { Seen::Holds } else { Seen::Changed };
        let key = &condition.key;
        let now = match self.0.shared.rows.get_row(key) {
            Ok(row) => return is(condition.is(Some(&row[split(&row).1..]))),
            Err(now) => now,
        };
        if before == Some(now) {
            return Seen::Holds;
        }
        let bounds = Bounds {
            start: Some(key.to_vec()),
            end: Some(successor(key)),
        };
        let range = bounds.scan(0, Direction::Forward, 1, u32::MAX);
        let mut is_there = false;
        match caught_up.scan_keys(&range, |_| is_there = true) {
            Some(_) if !is_there => is(condition.value.is_none()),
            Some(_) if condition.value.is_none() => Seen::Changed,
            _ => Seen::Unknown,
        }
    }
}

impl Condition {
    fn changed(&self) -> Checked {
        Checked::Changed {
            key: self.key.clone(),
        }
    }
}
