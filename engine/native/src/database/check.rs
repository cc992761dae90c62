//! Whether every value can be read.

use kvsim_engine::Request;

use super::Database;
use super::backup::Progress;
use crate::api::error::Failure;
use crate::api::key_range::KeyRange;
use crate::sync::leader::Beside;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// What was read, damaged keys not counted.
    pub read: Progress,
    /// Keys whose values cannot be read or are not what was written, each with what the engine says of it, in the order of the keys.
    pub damaged: Vec<(Box<[u8]>, Failure)>,
}

impl Database {
    /// Reads every value of a range from the disk and compares its checksum, key and sequence number with the index. `progress` is told how much was read, again and again.
    ///
    /// Others read and write meanwhile. Values that are in the index, and what is not on the disk yet, were checked when they came into memory. An index
    /// that fits into memory is read by an opening, which fails if it is damaged; of any other the check reads the entries of the range.
    ///
    /// # Errors
    /// [`Failure`]: the database is closed. Damage is none: it is in the report.
    ///
    /// ```
    /// # use kvsim_native::{Database, Durability, OpenOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// # OpenOptions::new().size_bytes(16 << 20).open(&path)?.put(b"key", b"value", Durability::Durable)?;
    /// let database = OpenOptions::new().read_only(true).open(&path)?;
    /// let report = database.check(.., |_| ())?;
    /// assert!(report.damaged.is_empty());
    /// assert_eq!(report.read.entries, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(
        &self,
        range: impl KeyRange,
        mut progress: impl FnMut(Progress),
    ) -> Result<CheckReport, Failure> {
        let mut report = CheckReport::default();
        self.in_pieces(&range, |caught_up, keys| {
            drop(caught_up);
            let keys: Vec<&[u8]> = keys.iter().collect();
            // Not what is in the cache by key: what the engine reads.
            let values = self.get_all(&keys, |key| {
                let request = Request::Get { snapshot: 0, key };
                Err(self.send(request, &Beside::default()))
            });
            for (key, value) in keys.into_iter().zip(values) {
                match value {
                    Ok(Some(value)) => report.read.add(key, &value),
                    // It was deleted meanwhile.
                    Ok(None) => {}
                    Err(failure) if failure.status == kvsim_engine::Status::Closed => {
                        return Err(failure);
                    }
                    Err(failure) => report.damaged.push((key.into(), failure)),
                }
            }
            progress(report.read);
            Ok(())
        })?;
        Ok(report)
    }
}
