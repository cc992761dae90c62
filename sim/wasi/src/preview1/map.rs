//! Mappings of files into the guest's memory, for engines that read through one: `kvsim.map` and `kvsim.unmap`.
//!
//! Invariant: after every call of the host, the bytes of a mapping are those of its file, and zero beyond its end, as far as the guest itself
//! has not written there. What the guest writes to a mapping never reaches the file.

use kvsim_fs::{Fd, FileKind};

use super::abi::Code;
use super::memory::View;
use crate::host::Host;
use crate::mapping::Mapping;

/// Addresses, lengths and offsets of mappings are multiples of this.
const PAGE_BYTES: u64 = 4_096;
/// No process has more mappings.
const MAPPINGS_MAX: usize = 1_024;

fn number(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

/// Maps a part of a file into memory that the guest owns.
pub(crate) fn map(
    view: &mut View<'_>,
    fd: i32,
    offset: i64,
    address: i32,
    len: i32,
) -> Result<(), Code> {
    let offset = u64::try_from(offset).map_err(|_| Code::INVALID)?;
    view.check(address, len)?;
    let (address, len) = (number(address), number(len));
    let aligned = [offset, address, len].iter().all(|it| it % PAGE_BYTES == 0);
    let taken = view
        .host
        .mappings
        .iter()
        .any(|it| it.overlaps(address, len));
    if !aligned || len == 0 || taken || view.host.mappings.len() == MAPPINGS_MAX {
        return Err(Code::INVALID);
    }
    let file = view
        .host
        .table
        .get(fd)?
        .file()
        .ok_or(Code::BAD_DESCRIPTOR)?;
    if view.host.files.kind(file)? != FileKind::File {
        return Err(Code::IS_DIRECTORY);
    }
    let inode = view.host.files.ino(file)?;
    let file = view.host.files.duplicate(file)?;
    view.host.mappings.push(Mapping {
        address,
        len,
        offset,
        inode,
        file,
        filled: 0,
    });
    let last = view.host.mappings.len() - 1;
    let filled = fill(view, last, 0, len);
    if filled.is_err() {
        let mapping = view.host.mappings.pop().expect("it was pushed");
        let _ = view.host.files.close(mapping.file);
    }
    filled
}

/// Takes off every mapping that lies wholly within these bytes.
pub(crate) fn unmap(view: &mut View<'_>, address: i32, len: i32) -> Result<(), Code> {
    view.check(address, len)?;
    let (address, len) = (number(address), number(len));
    let within = |it: &Mapping| it.address >= address && it.address + it.len <= address + len;
    let Host {
        mappings, files, ..
    } = &mut *view.host;
    if !mappings.iter().any(within) {
        return Err(Code::INVALID);
    }
    let (gone, kept) = std::mem::take(mappings).into_iter().partition(within);
    *mappings = kept;
    for mapping in gone {
        files.close(mapping.file)?;
    }
    Ok(())
}

/// Brings all mappings of a file up to date after these bytes have been written at `offset`.
pub(crate) fn refresh_written(
    view: &mut View<'_>,
    file: Fd,
    offset: u64,
    written: &[u8],
) -> Result<(), Code> {
    if view.host.mappings.is_empty() || written.is_empty() {
        return Ok(());
    }
    let inode = view.host.files.ino(file)?;
    let View { bytes, host } = view;
    for mapping in host.mappings.iter_mut().filter(|it| it.inode == inode) {
        let start = offset.max(mapping.offset);
        let end = (offset + written.len() as u64).min(mapping.offset + mapping.len);
        // What lies between the old end of the file and the write has become part of the file: it is zero there and here.
        if start < end {
            let at = mapping.address + (start - mapping.offset);
            let memory = place(bytes, at, at + (end - start))?;
            let first = usize::try_from(start - offset).map_err(|_| Code::FAULT)?;
            memory.copy_from_slice(&written[first..first + memory.len()]);
            mapping.filled = mapping.filled.max(end - mapping.offset);
        }
    }
    Ok(())
}

/// Brings all mappings of a file up to date after its size has changed.
pub(crate) fn refresh_resized(view: &mut View<'_>, file: Fd) -> Result<(), Code> {
    if view.host.mappings.is_empty() {
        return Ok(());
    }
    let (inode, size) = (view.host.files.ino(file)?, view.host.files.size(file)?);
    for index in 0..view.host.mappings.len() {
        let mapping = &mut view.host.mappings[index];
        if mapping.inode != inode {
            continue;
        }
        let held = size.saturating_sub(mapping.offset).min(mapping.len);
        if held < mapping.filled {
            let (from, until) = (mapping.address + held, mapping.address + mapping.filled);
            mapping.filled = held;
            place(view.bytes, from, until)?.fill(0);
        }
    }
    Ok(())
}

fn place(memory: &mut [u8], from: u64, until: u64) -> Result<&mut [u8], Code> {
    let range = usize::try_from(from).ok().zip(usize::try_from(until).ok());
    let (from, until) = range.ok_or(Code::FAULT)?;
    memory.get_mut(from..until).ok_or(Code::FAULT)
}

/// Copies bytes of the file to the mapping; `start` and `len` are within the mapping.
fn fill(view: &mut View<'_>, index: usize, start: u64, len: u64) -> Result<(), Code> {
    let View { bytes, host } = view;
    let Host {
        mappings, files, ..
    } = &mut **host;
    let mapping = &mut mappings[index];
    let memory = place(
        bytes,
        mapping.address + start,
        mapping.address + start + len,
    )?;
    let mut done = 0;
    while done < memory.len() {
        let read = files.read_at(
            mapping.file,
            mapping.offset + start + done as u64,
            &mut memory[done..],
        )?;
        if read == 0 {
            break;
        }
        done += read;
    }
    mapping.filled = mapping.filled.max(start + done as u64);
    Ok(())
}
