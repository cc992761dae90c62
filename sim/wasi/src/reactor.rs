//! A reactor: exported functions are called, and between two calls no function is on its stack.

use std::collections::BTreeMap;

use kvsim_fs::FileSystem;
use kvsim_sim::{GuestError, Stack, TracedCall};
use wasmtime::{Instance, Memory, Store, TypedFunc};

use crate::clock::Told;
use crate::exchange::{Ended, When};
use crate::host::Host;
use crate::verdict::verdict;

/// The exports of a reactor.
pub(crate) const BUFFER: &str = "kv_buffer";
pub(crate) const MESSAGE: &str = "kv_message";

/// An instance in its store.
pub(crate) struct Reactor {
    store: Store<Host>,
    memory: Memory,
    buffer: TypedFunc<i32, i32>,
    message: TypedFunc<i32, i64>,
}

impl Reactor {
    pub(crate) fn new(mut store: Store<Host>, instance: Instance) -> Result<Reactor, GuestError> {
        let missing = |name: &str| GuestError::MissingExport(name.to_owned());
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| missing("memory"))?;
        store.data_mut().memory = Some(memory);
        let buffer = instance.get_typed_func(&mut store, BUFFER);
        let message = instance.get_typed_func(&mut store, MESSAGE);
        Ok(Reactor {
            memory,
            buffer: buffer.map_err(|_| missing(BUFFER))?,
            message: message.map_err(|_| missing(MESSAGE))?,
            store,
        })
    }

    pub(crate) fn told(&self) -> Told {
        self.store.data().told
    }

    pub(crate) fn files(&self) -> &FileSystem {
        &self.store.data().files
    }

    pub(crate) fn traced(&self) -> &BTreeMap<u64, TracedCall> {
        &self.store.data().trace.traced
    }

    pub(crate) fn exchange(&mut self, when: When, message: &[u8]) -> Ended {
        self.store.data_mut().begin_call();
        self.store
            .data_mut()
            .clock
            .begin_call(when.now, when.is_idle);
        let fuel = self.store.data().limits.fuel_per_call;
        let answer = match self.store.set_fuel(fuel) {
            Ok(()) => self.converse(message),
            Err(error) => Err(GuestError::Host(error.to_string())),
        };
        let left = self.store.get_fuel().unwrap_or(0);
        self.store.data_mut().finish(left, answer)
    }

    fn converse(&mut self, message: &[u8]) -> Result<Vec<u8>, GuestError> {
        let len = i32::try_from(message.len())
            .map_err(|_| GuestError::Host("a message of 2 GiB".to_owned()))?;
        let place = self.buffer.call(&mut self.store, len);
        let place = place.map_err(|error| verdict(&error, self.store.data()))?;
        if place == 0 {
            return Err(GuestError::OutOfMemory {
                limit_bytes: self.store.data().limits.memory_bytes_max,
                what: format!("{BUFFER} gives no buffer of {len} bytes"),
                stack: Stack::default(),
            });
        }
        let start = place.cast_unsigned() as usize;
        self.memory
            .write(&mut self.store, start, message)
            .map_err(|_| {
                GuestError::Abi(format!(
                    "{BUFFER}: {len} bytes at {start} are outside its memory"
                ))
            })?;
        let answer = self.message.call(&mut self.store, len);
        let answer = answer.map_err(|error| verdict(&error, self.store.data()))?;
        let answer = answer.cast_unsigned();
        let (start, len) = (answer >> 32, answer & u64::from(u32::MAX));
        let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
        let bytes =
            range.and_then(|(start, len)| self.memory.data(&self.store).get(start..start + len));
        bytes.map(<[u8]>::to_vec).ok_or_else(|| {
            GuestError::Abi(format!(
                "{MESSAGE}: an answer of {len} bytes at {start} is outside its memory"
            ))
        })
    }
}
