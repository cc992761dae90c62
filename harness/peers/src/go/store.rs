//! An engine of the other process as a [`Store`]: one operation at a time through the pipe, for tests that ask whether it is
//! right. What it costs is the pipe's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kvsim_store::process::{Process, Request, Work, hex, unhex};
use kvsim_store::{Durability, Store, StoreError};

pub(super) struct Piped {
    engine: &'static str,
    process: Mutex<Process>,
}

impl Piped {
    pub(super) fn open(mut process: Process, durability: Durability) -> Result<Piped, StoreError> {
        process.open(durability)?;
        Ok(Piped {
            engine: process.engine(),
            process: Mutex::new(process),
        })
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self, text: &str) -> Result<Vec<u8>, StoreError> {
        unhex(text).ok_or_else(|| StoreError {
            engine: self.engine,
            what: format!("{text:?} are no bytes"),
        })
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // As of any store: who drops it does not hear of an error.
        let _ = self.process().close();
    }
}

impl Store for Piped {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let request = Request {
            key: Some(hex(key)),
            value: Some(hex(value)),
            ..Request::of(Work::Put)
        };
        self.process().ask(&request).map(|_| ())
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let request = Request {
            key: Some(hex(key)),
            ..Request::of(Work::Delete)
        };
        self.process().ask(&request).map(|_| ())
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let request = Request {
            key: Some(hex(key)),
            ..Request::of(Work::Get)
        };
        let answer = self.process().ask(&request)?;
        if answer.found {
            take(&self.bytes(&answer.value)?);
        }
        Ok(answer.found)
    }

    fn scan(
        &self,
        start: &[u8],
        limit: usize,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let request = Request {
            key: Some(hex(start)),
            limit: Some(limit),
            ..Request::of(Work::Scan)
        };
        let answer = self.process().ask(&request)?;
        for (key, value) in &answer.entries {
            take(&self.bytes(key)?, &self.bytes(value)?);
        }
        Ok(answer.entries.len())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.process().ask(&Request::of(Work::Sync)).map(|_| ())
    }
}
