//! The descriptors of a guest: which number stands for which open file.

use kvsim_fs::{Fd, ROOT_FD};

use crate::preview1::abi::{Code, rights};

/// What a descriptor stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Stdin,
    Stdout,
    Stderr,
    /// The directory `/db` under this name.
    Preopen(&'static str),
    /// A file or directory that the guest has opened.
    Opened(Fd),
}

/// One descriptor.
#[derive(Debug, Clone)]
pub(crate) struct Descriptor {
    pub(crate) target: Target,
    /// Flags of preview 1.
    pub(crate) flags: u16,
    pub(crate) rights: u64,
    pub(crate) rights_inheriting: u64,
}

impl Descriptor {
    pub(crate) fn new(target: Target, rights: u64) -> Descriptor {
        Descriptor {
            target,
            flags: 0,
            rights,
            rights_inheriting: rights::ALL,
        }
    }

    /// The open file in the file system.
    pub(crate) fn file(&self) -> Option<Fd> {
        match self.target {
            Target::Opened(fd) => Some(fd),
            Target::Preopen(_) => Some(ROOT_FD),
            _ => None,
        }
    }
}

/// The names under which the directory of the database is there. Go and wasi-libc look for the longest that begins a path; a relative path
/// of wasi-libc begins at `/`.
pub(crate) const PREOPENS: [&str; 2] = ["/db", "/"];

/// A guest has no more descriptors than that.
pub(crate) const DESCRIPTORS_MAX: usize = 1_024;

/// All descriptors of a process.
#[derive(Debug, Clone)]
pub(crate) struct Table(Vec<Option<Descriptor>>);

impl Table {
    /// What a process begins with.
    pub(crate) fn new() -> Table {
        let streams = [Target::Stdin, Target::Stdout, Target::Stderr];
        let streams = streams.map(|stream| Descriptor::new(stream, rights::FILE));
        let preopens = PREOPENS.map(|name| Descriptor::new(Target::Preopen(name), rights::DIRECTORY));
        Table(streams.into_iter().chain(preopens).map(Some).collect())
    }

    pub(crate) fn get(&self, fd: i32) -> Result<&Descriptor, Code> {
        let place = self.0.get(fd.cast_unsigned() as usize);
        place.and_then(Option::as_ref).ok_or(Code::BAD_DESCRIPTOR)
    }

    pub(crate) fn get_mut(&mut self, fd: i32) -> Result<&mut Descriptor, Code> {
        let place = self.0.get_mut(fd.cast_unsigned() as usize);
        place.and_then(Option::as_mut).ok_or(Code::BAD_DESCRIPTOR)
    }

    /// Whether there is no room for another descriptor.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= DESCRIPTORS_MAX && self.0.iter().all(Option::is_some)
    }

    /// Takes the lowest number that is free.
    pub(crate) fn insert(&mut self, descriptor: Descriptor) -> usize {
        let free = self.0.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[place] = Some(descriptor);
        place
    }

    pub(crate) fn remove(&mut self, fd: i32) -> Result<Descriptor, Code> {
        let place = self.0.get_mut(fd.cast_unsigned() as usize);
        place.and_then(Option::take).ok_or(Code::BAD_DESCRIPTOR)
    }

    /// Moves a descriptor to another number that is in use; gives what was there.
    pub(crate) fn renumber(&mut self, from: i32, to: i32) -> Result<Option<Descriptor>, Code> {
        self.get(to)?;
        self.get(from)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        Ok(self.0[to.cast_unsigned() as usize].replace(moved))
    }

    /// Whether nothing is open but what a process begins with. Flags may differ.
    pub(crate) fn is_as_at_start(&self) -> bool {
        let start = Table::new();
        let targets = |table: &Table| -> Vec<Option<Target>> {
            table.0.iter().map(|it| it.as_ref().map(|it| it.target)).collect()
        };
        let mut now = targets(self);
        while now.last() == Some(&None) {
            now.pop();
        }
        now == targets(&start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers are given out as POSIX says, lowest first. Method: close one in the middle and open two.
    #[test]
    fn the_lowest_free_number_is_taken() {
        let mut table = Table::new();
        let open = || Descriptor::new(Target::Opened(ROOT_FD), rights::FILE);
        assert_eq!([table.insert(open()), table.insert(open())], [5, 6]);
        table.remove(5).expect("it is open");
        assert_eq!(table.get(5).err(), Some(Code::BAD_DESCRIPTOR));
        assert_eq!([table.insert(open()), table.insert(open())], [5, 7]);
        assert!(!table.is_as_at_start());
        for fd in 5..8 {
            table.remove(fd).expect("it is open");
        }
        assert!(table.is_as_at_start());
    }
}
