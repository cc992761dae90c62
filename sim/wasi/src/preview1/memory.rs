//! The guest's memory as the host's functions see it. Every address is checked before it is used.

use wasmtime::{Caller, Error, Extern, Memory};

use super::abi::Code;
use crate::host::Host;

/// The memory of the caller. A start function may call before the host has seen the instance, so the export is looked up then.
pub(crate) fn memory(caller: &mut Caller<'_, Host>) -> Result<Memory, Error> {
    if let Some(memory) = caller.data().memory {
        return Ok(memory);
    }
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => {
            caller.data_mut().memory = Some(memory);
            Ok(memory)
        }
        _ => Err(Error::msg("it does not export `memory`")),
    }
}

/// Memory and host state of one call.
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) host: &'a mut Host,
}

fn size(number: i32) -> usize {
    number.cast_unsigned() as usize
}

impl View<'_> {
    /// The bytes at an address.
    pub(crate) fn part(&self, address: i32, len: i32) -> Result<&[u8], Code> {
        let start = size(address);
        let end = start.checked_add(size(len)).ok_or(Code::FAULT)?;
        self.bytes.get(start..end).ok_or(Code::FAULT)
    }

    pub(crate) fn write(&mut self, address: i32, bytes: &[u8]) -> Result<(), Code> {
        let start = size(address);
        let end = start.checked_add(bytes.len()).ok_or(Code::FAULT)?;
        let place = self.bytes.get_mut(start..end).ok_or(Code::FAULT)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn write_u32(&mut self, address: i32, number: usize) -> Result<(), Code> {
        let number = u32::try_from(number).map_err(|_| Code::INVALID)?;
        self.write(address, &number.to_le_bytes())
    }

    pub(crate) fn write_u64(&mut self, address: i32, number: u64) -> Result<(), Code> {
        self.write(address, &number.to_le_bytes())
    }

    /// Whether so many bytes could be written there: checked before a call has effects whose result would be lost.
    pub(crate) fn check(&self, address: i32, len: i32) -> Result<(), Code> {
        self.part(address, len).map(|_| ())
    }

    /// A path: UTF-8 without a zero byte.
    pub(crate) fn path(&self, address: i32, len: i32) -> Result<Vec<u8>, Code> {
        if size(len) > PATH_BYTES_MAX {
            return Err(Code::NAME_TOO_LONG);
        }
        let path = self.part(address, len)?;
        if std::str::from_utf8(path).is_err() {
            return Err(Code::ILLEGAL_SEQUENCE);
        }
        if path.contains(&0) {
            return Err(Code::INVALID);
        }
        Ok(path.to_vec())
    }

    /// The buffers of an array of `iovec` or `ciovec`, as address and length.
    pub(crate) fn buffers(&self, array: i32, count: i32) -> Result<Vec<(i32, i32)>, Code> {
        if size(count) > BUFFERS_MAX {
            return Err(Code::INVALID);
        }
        let array = self.part(array, count * 8)?;
        let mut total = 0_u64;
        let mut buffers = Vec::with_capacity(size(count));
        for pair in array.chunks_exact(8) {
            let number = |at: usize| i32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            let (address, len) = (number(0), number(4));
            self.check(address, len)?;
            total += u64::from(len.cast_unsigned());
            if total > TRANSFER_BYTES_MAX {
                return Err(Code::INVALID);
            }
            buffers.push((address, len));
        }
        Ok(buffers)
    }

    /// The bytes of an array of `ciovec`, one after the other.
    pub(crate) fn gather(&self, array: i32, count: i32) -> Result<Vec<u8>, Code> {
        let mut bytes = Vec::new();
        for (address, len) in self.buffers(array, count)? {
            bytes.extend_from_slice(self.part(address, len)?);
        }
        Ok(bytes)
    }

    /// Spreads bytes over buffers that have been checked.
    pub(crate) fn scatter(&mut self, buffers: &[(i32, i32)], bytes: &[u8]) -> Result<(), Code> {
        let mut rest = bytes;
        for &(address, len) in buffers {
            let (now, later) = rest.split_at(size(len).min(rest.len()));
            self.write(address, now)?;
            rest = later;
        }
        Ok(())
    }
}

/// A longer path is refused, as POSIX systems do.
const PATH_BYTES_MAX: usize = 4_096;
/// More buffers in one call are refused, as POSIX systems do.
const BUFFERS_MAX: usize = 1_024;
/// No call moves more: the host holds the bytes meanwhile.
const TRANSFER_BYTES_MAX: u64 = 1 << 30;
