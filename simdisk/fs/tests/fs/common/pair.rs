//! The model and a real directory, given the same random calls.
//!
//! What differs is a panic that names the call. Calls that would lead a real directory out of its root are made on the model alone.

use std::fmt::Debug;
use std::io::SeekFrom;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kvsim_crash::rng::{Purpose, Rng};
use kvsim_fs::{Errno, Fd, FileConfig, FileKind, FileSystem, OpenHow, ROOT_FD, SyncKind};
use rustix::fs::{self as real, AtFlags, Mode, OFlags, ResolveFlags};

#[path = "pair_checks.rs"]
mod checks;
#[path = "pair_links.rs"]
mod links;
#[path = "real_directory.rs"]
mod real_directory;

use real_directory::{errno, kind, of_real};

/// The largest offset that the calls use often.
const OFFSET_MAX: u64 = 40_000;
/// Files that are open at once.
const OPEN_MAX: usize = 12;

/// See the module.
pub(crate) struct Pair {
    rng: Rng,
    model: FileSystem,
    root: OwnedFd,
    /// Open in both.
    open: Vec<(Fd, OwnedFd)>,
    /// Errors met, for a test that wants to know that it has seen them.
    pub(crate) errors: std::collections::BTreeMap<&'static str, u64>,
    /// Calls that ended well.
    pub(crate) fine: u64,
    calls: u64,
}

impl Pair {
    /// Both empty.
    pub(crate) fn new(directory: &Path, config: &FileConfig, seed: u64) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A few levels down: a mistake that leads out of the root stays in the temporary directory.
        let root = directory.join("1/2/3/4/5/6/root");
        std::fs::create_dir_all(&root).expect("a temporary directory");
        Pair {
            rng: Rng::new(seed, Purpose::Test),
            model: FileSystem::new(config, seed).expect("a configuration"),
            root: real::open(&root, flags, Mode::empty()).expect("the root"),
            open: Vec::new(),
            errors: std::collections::BTreeMap::new(),
            fine: 0,
            calls: 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.rng.below(n as u64)).expect("small")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn name(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "d", "e", "a", "b", "log", "."])
    }

    fn path(&mut self) -> Vec<u8> {
        let mut path = String::new();
        let parts = self.pick(&[1, 1, 1, 2, 2, 3]);
        for part in 0..parts {
            if part > 0 {
                path.push('/');
            }
            let name = match self.below(40) {
                0 => "..",
                _ => self.name(),
            };
            path.push_str(name);
        }
        match self.below(60) {
            0..=2 => path.push('/'),
            3 => path.insert(0, '/'),
            4 => path.clear(),
            5 => path.push_str(&"x".repeat(256)),
            6 => path.push_str(&"/.".repeat(2048)),
            7 => path.push_str("//"),
            8 => path.push_str("/."),
            9 => path.push_str("/.."),
            _ => {}
        }
        path.into_bytes()
    }

    fn any_open(&mut self) -> Option<usize> {
        (!self.open.is_empty()).then(|| self.below(self.open.len()))
    }

    /// A directory to start at: mostly the root.
    fn start(&mut self) -> Option<usize> {
        if self.below(4) == 0 {
            self.any_open()
        } else {
            None
        }
    }

    fn both(&self, at: Option<usize>) -> (Fd, BorrowedFd<'_>) {
        match at {
            Some(at) => (self.open[at].0, self.open[at].1.as_fd()),
            None => (ROOT_FD, self.root.as_fd()),
        }
    }

    fn same<T: PartialEq + Debug>(
        &mut self,
        what: impl FnOnce() -> String,
        model: Result<T, Errno>,
        real: Result<T, rustix::io::Errno>,
    ) -> Option<T> {
        let real = real.map_err(errno);
        assert_eq!(
            model,
            real,
            "call {}: {} (model left, real right)",
            self.calls,
            what()
        );
        match model {
            Ok(it) => {
                self.fine += 1;
                Some(it)
            }
            Err(error) => {
                *self.errors.entry(error.name()).or_default() += 1;
                None
            }
        }
    }

    /// Whether the model says that the real directory must not be asked.
    fn leads_out<T>(&mut self, model: &Result<T, Errno>) -> bool {
        let out = matches!(model, Err(Errno::NotCapable));
        if out {
            *self.errors.entry("ENOTCAPABLE").or_default() += 1;
        }
        out
    }

    /// One random call on both.
    pub(crate) fn step(&mut self) {
        self.calls += 1;
        match self.below(100) {
            0..=17 => self.open_one(),
            18..=24 => self.close_one(),
            25..=39 => self.write_one(),
            40..=52 => self.read_one(),
            53..=55 => self.seek_one(),
            56..=59 => self.resize_one(),
            60..=61 => self.allocate_one(),
            62..=65 => self.stat_one(),
            66 => self.set_times_one(),
            67..=71 => self.make_directory(),
            72..=74 => self.remove_directory(),
            75..=79 => self.unlink_one(),
            80..=86 => self.rename_one(),
            87..=89 => self.link_one(),
            90..=91 => self.symlink_one(),
            92..=93 => self.read_link_one(),
            94 => self.list_one(),
            95 => self.duplicate_one(),
            96..=98 => self.sync_one(),
            _ => self.check_model(),
        }
    }

    fn open_one(&mut self) {
        if self.open.len() >= OPEN_MAX {
            return self.close_one();
        }
        let (at, path) = (self.start(), self.path());
        let mut coin = |n: u64| self.rng.below(n) == 0;
        let mut how = OpenHow {
            read: !coin(4),
            write: !coin(3),
            append: coin(6),
            create: !coin(3),
            exclusive: coin(8),
            truncate: coin(8),
            directory: coin(30),
            no_follow: coin(10),
        };
        if coin(5) {
            how = OpenHow {
                directory: coin(2),
                ..OpenHow::READ
            };
        }
        // Linux opens for reading what asks for neither.
        how.read |= !how.write;
        let mut flags = match (how.read, how.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        } | OFlags::CLOEXEC;
        for (on, flag) in [
            (how.append, OFlags::APPEND),
            (how.create, OFlags::CREATE),
            (how.create && how.exclusive, OFlags::EXCL),
            (how.truncate, OFlags::TRUNC),
            (how.directory, OFlags::DIRECTORY),
            (how.no_follow, OFlags::NOFOLLOW),
        ] {
            if on {
                flags |= flag;
            }
        }
        let fd = self.both(at).0;
        let model = self.model.open(fd, &path, &how);
        if at.is_some() && self.leads_out(&model) {
            return;
        }
        let resolve = match at {
            None => ResolveFlags::BENEATH,
            Some(_) => ResolveFlags::empty(),
        };
        let mode = match how.create {
            true => Mode::from_raw_mode(0o644),
            false => Mode::empty(),
        };
        let real = real::openat2(self.both(at).1, &path[..], flags, mode, resolve);
        let (model, real) = match (model, real) {
            (Ok(model), Ok(real)) => {
                self.open.push((model, real));
                (Ok(()), Ok(()))
            }
            (model, real) => (model.map(drop), real.map(drop)),
        };
        let text = || format!("open {} {how:?}", path.escape_ascii());
        self.same(text, model, real);
    }

    fn close_one(&mut self) {
        if let Some(at) = self.any_open() {
            let (fd, _) = self.open.swap_remove(at);
            self.model.close(fd).expect("it is open");
            assert_eq!(self.model.tell(fd), Err(Errno::BadDescriptor));
        }
    }

    fn offset(&mut self) -> u64 {
        match self.below(20) {
            0 => self.rng.below(1 << 21),
            1..=6 => self.rng.below(OFFSET_MAX / 4096) * 4096,
            _ => self.rng.below(OFFSET_MAX),
        }
    }

    fn write_one(&mut self) {
        let Some(at) = self.any_open() else { return };
        let len = match self.below(10) {
            0 => self.below(30_000),
            1..=3 => 4096,
            _ => self.below(3000),
        };
        let mut bytes = vec![0; len];
        if self.below(8) > 0 {
            self.rng.fill_bytes(&mut bytes);
        }
        if self.below(2) == 0 {
            let offset = self.offset();
            let model = self.model.write_at(self.open[at].0, offset, &bytes);
            let real = rustix::io::pwrite(&self.open[at].1, &bytes, offset);
            self.same(|| format!("write {len} bytes at {offset}"), model, real);
        } else {
            let model = self.model.write(self.open[at].0, &bytes);
            let real = rustix::io::write(&self.open[at].1, &bytes);
            self.same(|| format!("write {len} bytes"), model, real);
        }
        self.same_offset(at);
    }

    fn read_one(&mut self) {
        let Some(at) = self.any_open() else { return };
        let len = self.below(20_000);
        let (mut ours, mut theirs) = (vec![1; len], vec![1; len]);
        let positioned = self.below(2) == 0;
        let offset = self.offset();
        let (fd, file) = (self.open[at].0, &self.open[at].1);
        let (model, real) = if positioned {
            (
                self.model.read_at(fd, offset, &mut ours),
                rustix::io::pread(file, &mut theirs[..], offset),
            )
        } else {
            (
                self.model.read(fd, &mut ours),
                rustix::io::read(file, &mut theirs[..]),
            )
        };
        let count = self.same(|| format!("read {len} bytes at {offset}"), model, real);
        let count = count.unwrap_or(0);
        let differs = ours[..count].iter().zip(&theirs).position(|(a, b)| a != b);
        assert_eq!(differs, None, "call {}: bytes read", self.calls);
        self.same_offset(at);
    }

    fn is_directory(&mut self, at: usize) -> bool {
        let stat = self.model.stat(self.open[at].0).expect("it is open");
        stat.kind == FileKind::Directory
    }

    fn same_offset(&mut self, at: usize) {
        if self.is_directory(at) {
            return;
        }
        let model = self.model.tell(self.open[at].0);
        let real = real::tell(&self.open[at].1);
        self.same(|| "tell".to_owned(), model, real);
    }

    fn seek_one(&mut self) {
        let Some(at) = self.any_open() else { return };
        if self.is_directory(at) {
            return;
        }
        let by = i64::try_from(self.rng.below(50_000)).expect("small") - 10_000;
        let (to, theirs) = match self.below(3) {
            0 => (
                SeekFrom::Start(by.unsigned_abs()),
                real::SeekFrom::Start(by.unsigned_abs()),
            ),
            1 => (SeekFrom::Current(by), real::SeekFrom::Current(by)),
            _ => (SeekFrom::End(by), real::SeekFrom::End(by)),
        };
        let model = self.model.seek(self.open[at].0, to);
        let real = real::seek(&self.open[at].1, theirs);
        self.same(|| format!("seek {to:?}"), model, real);
    }

    fn resize_one(&mut self) {
        let Some(at) = self.any_open() else { return };
        let size = match self.below(4) {
            0 => 0,
            _ => self.offset(),
        };
        let model = self.model.set_size(self.open[at].0, size);
        let real = real::ftruncate(&self.open[at].1, size);
        self.same(|| format!("set size {size}"), model, real);
    }

    fn allocate_one(&mut self) {
        let Some(at) = self.any_open() else { return };
        let (offset, len) = (self.offset(), self.rng.below(20_000));
        let model = self.model.allocate(self.open[at].0, offset, len);
        let flags = real::FallocateFlags::empty();
        let real = real::fallocate(&self.open[at].1, flags, offset, len);
        self.same(|| format!("allocate {len} at {offset}"), model, real);
    }

    fn stat_one(&mut self) {
        let (at, path) = (self.start(), self.path());
        let follow = self.below(2) == 0;
        let model = self.model.stat_at(self.both(at).0, &path, follow);
        if self.leads_out(&model) {
            return;
        }
        let flags = match follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        let real = real::statat(self.both(at).1, &path[..], flags);
        let model = model.map(|stat| {
            let size = match stat.kind {
                FileKind::Directory => 0,
                _ => stat.size,
            };
            (stat.kind, size, stat.links)
        });
        let real = real.map(|stat| of_real(&stat));
        self.same(|| format!("stat {}", path.escape_ascii()), model, real);
        if let Some(at) = self.any_open() {
            let stat = self.model.stat(self.open[at].0).expect("it is open");
            let theirs = of_real(&real::fstat(&self.open[at].1).expect("it is open"));
            assert_eq!(stat.kind, theirs.0);
            if stat.kind == FileKind::File {
                assert_eq!(
                    (stat.size, stat.links),
                    (theirs.1, theirs.2),
                    "call {}",
                    self.calls
                );
            }
        }
    }

    fn set_times_one(&mut self) {
        let (at, path) = (self.start(), self.path());
        let follow = self.below(2) == 0;
        let ns = self.rng.below(1_000_000_000_000);
        let at_fd = self.both(at).0;
        let model = self
            .model
            .set_times_at(at_fd, &path, follow, None, Some(ns));
        let flags = match follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        let omit = real::Timespec {
            tv_sec: 0,
            tv_nsec: real::UTIME_OMIT,
        };
        let split = |number: u64| i64::try_from(number).expect("small");
        let times = real::Timestamps {
            last_access: omit,
            last_modification: real::Timespec {
                tv_sec: split(ns / 1_000_000_000),
                tv_nsec: split(ns % 1_000_000_000),
            },
        };
        let is_set = model.is_ok();
        self.on_path("set times", at, &path, model, |fd| {
            real::utimensat(fd, &path[..], &times, flags)
        });
        if is_set {
            let stat = self.model.stat_at(self.both(at).0, &path, follow);
            assert_eq!(stat.map(|stat| stat.modified_ns), Ok(ns));
        }
    }

    fn on_path<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        at: Option<usize>,
        path: &[u8],
        model: Result<T, Errno>,
        real: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) {
        if self.leads_out(&model) {
            return;
        }
        let real = real(self.both(at).1);
        self.same(|| format!("{what} {}", path.escape_ascii()), model, real);
    }

    fn make_directory(&mut self) {
        let (at, path) = (self.start(), self.path());
        let model = self.model.create_directory(self.both(at).0, &path);
        let mode = Mode::from_raw_mode(0o755);
        self.on_path("mkdir", at, &path, model, |fd| {
            real::mkdirat(fd, &path[..], mode)
        });
    }

    fn remove_directory(&mut self) {
        let (at, path) = (self.start(), self.path());
        let model = self.model.remove_directory(self.both(at).0, &path);
        let flags = AtFlags::REMOVEDIR;
        self.on_path("rmdir", at, &path, model, |fd| {
            real::unlinkat(fd, &path[..], flags)
        });
    }

    fn unlink_one(&mut self) {
        let (at, path) = (self.start(), self.path());
        let model = self.model.unlink(self.both(at).0, &path);
        let flags = AtFlags::empty();
        self.on_path("unlink", at, &path, model, |fd| {
            real::unlinkat(fd, &path[..], flags)
        });
    }

    fn read_link_one(&mut self) {
        let (at, path) = (self.start(), self.path());
        let model = self.model.read_link(self.both(at).0, &path);
        self.on_path("readlink", at, &path, model, |fd| {
            real::readlinkat(fd, &path[..], Vec::new()).map(|target| target.into_bytes())
        });
    }

    fn list_one(&mut self) {
        let path = self.path();
        let how = OpenHow::DIRECTORY;
        let Ok(fd) = self.model.open(ROOT_FD, &path, &how) else {
            return;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let real = real::openat(&self.root, &path[..], flags, Mode::empty()).expect("it is there");
        // In pieces, as hosts ask for it.
        let (mut cookie, mut ours) = (0, Vec::new());
        loop {
            let max = 1 + self.below(4);
            let piece = self
                .model
                .read_directory(fd, cookie, max)
                .expect("a directory");
            let is_end = piece.len() < max;
            for entry in piece {
                cookie = entry.next_cookie;
                ours.push((entry.name.to_vec(), entry.kind));
            }
            if is_end {
                break;
            }
        }
        let entries = real::Dir::read_from(&real).expect("a directory");
        let mut theirs: Vec<_> = entries
            .map(|entry| {
                let entry = entry.expect("an entry");
                (
                    entry.file_name().to_bytes().to_vec(),
                    kind(entry.file_type()),
                )
            })
            .collect();
        ours.sort();
        theirs.sort();
        assert_eq!(
            ours,
            theirs,
            "call {}: list {}",
            self.calls,
            path.escape_ascii()
        );
        self.model.close(fd).expect("it is open");
    }

    fn duplicate_one(&mut self) {
        let Some(at) = self.any_open() else { return };
        if self.open.len() < OPEN_MAX {
            let fd = self.model.duplicate(self.open[at].0).expect("it is open");
            let copy = rustix::io::dup(&self.open[at].1).expect("it is open");
            self.open.push((fd, copy));
        }
    }

    fn sync_one(&mut self) {
        // The real directory is not synced: it has nothing to say of it, and it would take an hour.
        let kind = self.pick(&[
            SyncKind::Full,
            SyncKind::Full,
            SyncKind::Data,
            SyncKind::Barrier,
        ]);
        let at = self.start();
        let fd = self.both(at).0;
        self.model.sync(fd, kind).expect("no fault was asked for");
    }
}
