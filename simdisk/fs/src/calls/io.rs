//! Reading and writing.

use std::io::SeekFrom;
use std::sync::Arc;

use crate::file_system::Call;
use crate::notes::{CallKind, Observation};
use crate::persist::PageWrite;
use crate::tree::node::{FileKind, Ino, PAGE_BYTES};
use crate::{Errno, Fd, FileFault, FileSystem};

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("bounded by a buffer")
}

impl FileSystem {
    /// Reads at the offset of the description, and moves it. 0 bytes is the end of the file.
    ///
    /// # Errors
    /// `BadDescriptor`; `IsDirectory`; `Io` by a fault.
    pub fn read(&mut self, fd: Fd, out: &mut [u8]) -> Result<usize, Errno> {
        let offset = self.descriptors.get(fd).map_or(0, |open| open.offset);
        let call = Call {
            offset,
            len: out.len() as u64,
            ..Call::on(CallKind::Read, fd)
        };
        self.call(call, |files, op| {
            let count = files.read_from(op, fd, offset, out)?;
            if count > 0 {
                files.descriptors.get_mut(fd)?.offset += count as u64;
            }
            Ok(count)
        })
    }

    /// Reads at this offset. 0 bytes is the end of the file.
    ///
    /// # Errors
    /// As [`FileSystem::read`].
    pub fn read_at(&mut self, fd: Fd, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let call = Call {
            offset,
            len: out.len() as u64,
            ..Call::on(CallKind::Read, fd)
        };
        self.call(call, |files, op| files.read_from(op, fd, offset, out))
    }

    fn read_from(&mut self, op: u64, fd: Fd, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let open = *self.descriptors.get(fd)?;
        if !open.read {
            return Err(Errno::BadDescriptor);
        }
        let ino = open.ino;
        let content = match self.live.node(ino).kind() {
            FileKind::File => self.live.node(ino).file().expect("a file"),
            _ => return Err(Errno::IsDirectory),
        };
        let mut count = content.size.saturating_sub(offset).min(out.len() as u64);
        self.stats.reads += 1;
        if count > 0 && self.inject.fires(FileFault::ReadError, op) {
            self.stats.failed_reads += 1;
            return Err(Errno::Io);
        }
        if count > 1
            && let Some(mut strike) = self.inject.strikes(FileFault::ShortRead, op)
        {
            count = strike.bytes(1, count - 1);
            self.inject.record(strike);
        }
        let out = &mut out[..to_usize(count)];
        let content = self.live.node(ino).file().expect("a file");
        content.read(offset, out);
        let is_end = offset + count >= content.size;
        if count > 0 {
            let pages = (offset / PAGE_BYTES, (offset + count).div_ceil(PAGE_BYTES));
            let cold = self.warm(ino, pages.0, pages.1);
            self.price_read(op, cold);
            self.observe(Observation::Content {
                ino,
                start: pages.0,
                end: pages.1,
            });
        }
        if is_end {
            self.observe(Observation::Attributes { ino });
        }
        self.stats.read_bytes += count;
        Ok(to_usize(count))
    }

    /// Brings pages into memory. Says how many were not there.
    fn warm(&mut self, ino: Ino, start: u64, end: u64) -> u64 {
        let cold = match self.cached.get(&ino) {
            Some(pages) => pages.missing(start, end),
            None => end - start,
        };
        if cold > 0 {
            let cached = Arc::make_mut(&mut self.cached);
            cached.entry(ino).or_default().insert(start, end);
        }
        cold
    }

    /// Writes at the offset of the description, or at the end of the file if it appends, and moves the offset.
    ///
    /// # Errors
    /// `BadDescriptor`; `NoSpace` and `FileTooLarge` if nothing can be written.
    pub fn write(&mut self, fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
        let offset = self.descriptors.get(fd).map_or(0, |open| open.offset);
        let offset = self.place_of_write(fd, offset);
        let call = Call {
            offset,
            len: bytes.len() as u64,
            ..Call::on(CallKind::Write, fd)
        };
        self.call(call, |files, op| {
            let count = files.write_to(op, fd, offset, bytes)?;
            // As on Linux, no bytes move nothing, not even to the end of the file.
            if count > 0 {
                files.descriptors.get_mut(fd)?.offset = offset + count as u64;
            }
            Ok(count)
        })
    }

    /// Writes at this offset; as on Linux, at the end of the file if the description appends.
    ///
    /// # Errors
    /// As [`FileSystem::write`].
    pub fn write_at(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let offset = self.place_of_write(fd, offset);
        let call = Call {
            offset,
            len: bytes.len() as u64,
            ..Call::on(CallKind::Write, fd)
        };
        self.call(call, |files, op| files.write_to(op, fd, offset, bytes))
    }

    fn place_of_write(&mut self, fd: Fd, offset: u64) -> u64 {
        match self.descriptors.get(fd).copied() {
            Ok(open) if open.append => {
                self.observe(Observation::Attributes { ino: open.ino });
                let node = self.live.node(open.ino);
                node.file().map_or(offset, |content| content.size)
            }
            _ => offset,
        }
    }

    fn write_to(&mut self, op: u64, fd: Fd, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let open = *self.descriptors.get(fd)?;
        if !open.write || self.live.node(open.ino).file().is_none() {
            return Err(Errno::BadDescriptor);
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        self.stats.writes += 1;
        let room = self.config.file_bytes_max.saturating_sub(offset);
        if room == 0 {
            return Err(Errno::FileTooLarge);
        }
        let mut count = room.min(bytes.len() as u64);
        if self.inject.fires(FileFault::NoSpaceWrite, op) {
            self.stats.failed_writes += 1;
            return Err(Errno::NoSpace);
        }
        if count > 1
            && let Some(mut strike) = self.inject.strikes(FileFault::ShortWrite, op)
        {
            count = strike.bytes(1, count - 1);
            self.inject.record(strike);
        }
        let written = self.write_pages(op, open.ino, offset, &bytes[..to_usize(count)]);
        self.stats.written_bytes += written as u64;
        if written == 0 {
            self.stats.failed_writes += 1;
            return Err(Errno::NoSpace);
        }
        Ok(written)
    }

    /// Writes page by page until it is done or no page is free.
    fn write_pages(&mut self, op: u64, ino: Ino, offset: u64, bytes: &[u8]) -> usize {
        let path: Arc<str> = if self.is_tracked(ino) {
            self.live.path(ino).into()
        } else {
            Arc::default()
        };
        let now = self.time();
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let page = at / PAGE_BYTES;
            let left = bytes.len() - done;
            let len = to_usize(PAGE_BYTES - at % PAGE_BYTES).min(left);
            let free = self.free_pages();
            let node = self.live.node_mut(ino);
            (node.times.modified_ns, node.times.changed_ns) = (now, now);
            let content = node.file_mut().expect("a file");
            let takes = !content.allocated.contains(page);
            if takes && free == 0 {
                break;
            }
            let first = !content.written.contains(page);
            let sectors = content.write(at, &bytes[done..done + len]);
            let size_from = content.size;
            content.size = content.size.max(at + len as u64);
            let size_to = content.size;
            self.used_pages += u64::from(takes);
            self.warm(ino, page, page + 1);
            self.push_page(
                op,
                ino,
                &path,
                PageWrite {
                    page,
                    sectors,
                    first,
                    tail: false,
                    size_from,
                    size_to,
                },
            );
            done += len;
        }
        done
    }

    /// Moves the offset. Beyond the end of the file is allowed.
    ///
    /// # Errors
    /// `BadDescriptor`; `Invalid` if it would be before the beginning.
    pub fn seek(&mut self, fd: Fd, to: SeekFrom) -> Result<u64, Errno> {
        self.call(Call::on(CallKind::Seek, fd), |files, _| {
            let open = *files.descriptors.get(fd)?;
            let (base, by) = match to {
                SeekFrom::Start(offset) => (offset, 0),
                SeekFrom::Current(by) => (open.offset, by),
                SeekFrom::End(by) => {
                    files.observe(Observation::Attributes { ino: open.ino });
                    let node = files.live.node(open.ino);
                    (node.file().map_or(0, |content| content.size), by)
                }
            };
            let offset = base.checked_add_signed(by).ok_or(Errno::Invalid)?;
            // As large as a signed offset can be.
            if offset > i64::MAX.unsigned_abs() {
                return Err(Errno::Invalid);
            }
            files.descriptors.get_mut(fd)?.offset = offset;
            Ok(offset)
        })
    }

    /// The offset of the description.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn tell(&self, fd: Fd) -> Result<u64, Errno> {
        Ok(self.descriptors.get(fd)?.offset)
    }
}
