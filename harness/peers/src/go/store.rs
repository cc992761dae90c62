//! An engine of the other process as a [`Store`]: one operation at a time through the pipe, for tests that ask whether it is
//! right. What it costs is the pipe's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kvsim_store::remote::RemoteLoad;
use kvsim_store::{Store, StoreError};

use super::process::{Process, Request};

pub(super) struct Piped {
    engine: &'static str,
    process: Mutex<Process>,
}

impl Piped {
    pub(super) fn open(mut process: Process) -> Result<Piped, StoreError> {
        process.ask(&Request::of("open"))?;
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

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() % 2 == 1 {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

impl Store for Piped {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let request = Request {
            key: Some(hex(key)),
            value: Some(hex(value)),
            ..Request::of("put")
        };
        self.process().ask(&request).map(|_| ())
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let request = Request {
            key: Some(hex(key)),
            ..Request::of("delete")
        };
        self.process().ask(&request).map(|_| ())
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let request = Request {
            key: Some(hex(key)),
            ..Request::of("get")
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
            ..Request::of("scan")
        };
        let answer = self.process().ask(&request)?;
        for (key, value) in &answer.entries {
            take(&self.bytes(key)?, &self.bytes(value)?);
        }
        Ok(answer.entries.len())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.process().ask(&Request::of("sync")).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bytes come back as they went, and nothing else is taken for bytes. Method: a few of each.
    #[test]
    fn bytes_are_written_as_hex() {
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        assert_eq!(unhex("00ff10"), Some(vec![0, 255, 16]));
        for wrong in ["0", "zz", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
