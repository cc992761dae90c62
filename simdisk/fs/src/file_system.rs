//! The file system: what callers see, what is durable, and what lies between.
//!
//! Invariants:
//! - a call changes what callers see first and wholly, and then adds its steps one by one; only a write is seen page by page;
//! - what is durable changes only in [`make_durable`](FileSystem::make_durable), by steps that were pending, and by bit rot that was asked for and counted;
//! - an inode that no durable name and no pending step can bring back has no steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_crash::{ConfigError, Excerpt, Nanos};

use crate::config::{FileConfig, Rules};
use crate::descriptors::{Descriptors, Fd};
use crate::inject::Injector;
use crate::notes::{CallKind, Observation, OpNote, StepNote};
use crate::path::{Follow, Found, resolve};
use crate::pending::Steps;
use crate::plant::{Intervention, Mistake};
use crate::step::PendingStep;
use crate::tree::node::{Ino, PAGE_BYTES};
use crate::tree::page_set::PageSet;
use crate::tree::{HashOf, Tree};
use crate::{Errno, FileFault, FileFaultCounts, FileStats, ScriptedFileFault};

/// A simulated file system. A clone shares everything and is copied when written.
#[derive(Debug, Clone)]
pub struct FileSystem {
    pub(crate) config: Arc<FileConfig>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) seed: u64,
    /// What callers see.
    pub(crate) live: Tree,
    /// What is durable.
    pub(crate) durable: Tree,
    pub(crate) pending: Steps,
    pub(crate) descriptors: Descriptors,
    pub(crate) next_ino: u32,
    pub(crate) next_step: u64,
    pub(crate) ops: u64,
    pub(crate) syncs: u64,
    pub(crate) changes: u64,
    pub(crate) power_cuts: u64,
    pub(crate) runs_ended: u64,
    pub(crate) crashes_drawn: u64,
    pub(crate) now: Nanos,
    pub(crate) elapsed: Nanos,
    /// Pages that the files of the live tree take, open ones without a name included.
    pub(crate) used_pages: u64,
    /// Pages in memory since the last power cut: reading them costs nothing.
    pub(crate) cached: Arc<BTreeMap<Ino, PageSet>>,
    /// The numbers that callers see for inodes: in the order in which they were first seen since the last power cut.
    pub(crate) numbers: Arc<BTreeMap<Ino, u64>>,
    /// What a few of the blocks held that were given up last.
    pub(crate) stale: Arc<Vec<Excerpt>>,
    /// Steps that the next step in the order of calls needs.
    pub(crate) gate: Vec<u64>,
    /// How many barriers there were since the last power cut.
    pub(crate) barriers: u64,
    pub(crate) syncing: bool,
    /// Whether this is a copy from the middle of a call that changes something: more steps of the call may come.
    pub(crate) within_change: bool,
    pub(crate) inject: Injector,
    pub(crate) stats: FileStats,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) interventions: Arc<Vec<Intervention>>,
    moments: Option<Moments>,
    op_notes: Option<Arc<Vec<OpNote>>>,
    pub(crate) reads: Option<Arc<Vec<Observation>>>,
}

/// The moments of the calls since [`FileSystem::begin_moments`].
#[derive(Debug, Clone, Default)]
struct Moments {
    kept: Vec<Moment>,
    /// How many there were, those that were not kept included.
    count: u64,
    /// The last one, if it was not kept.
    passed_over: Option<StepNote>,
}

/// Pages that files take at most where the configuration has no limit, 1 GiB: they are in memory.
const UNBOUNDED_PAGES: u64 = (1 << 30) / PAGE_BYTES;

/// Moments that are all kept. Behind these one in [`MOMENTS_STRIDE`] is: a copy of each would take more memory than a machine has.
const MOMENTS_ALL: u64 = 4_096;
/// Of the moments behind [`MOMENTS_ALL`], one in so many is kept, and the last of each call.
const MOMENTS_STRIDE: u64 = 256;

/// The file system as it was at one moment of a call.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Time since the elapsed time was last taken.
    pub after_ns: Nanos,
    /// The copy. It notes nothing itself.
    pub files: FileSystem,
    /// What has just happened.
    pub step: StepNote,
}

/// A call, for its note.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) kind: CallKind,
    pub(crate) fd: Fd,
    pub(crate) path: Option<&'a [u8]>,
    pub(crate) other: Option<(Fd, &'a [u8])>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Call<'_> {
    pub(crate) fn on(kind: CallKind, fd: Fd) -> Self {
        Call {
            kind,
            fd,
            path: None,
            other: None,
            offset: 0,
            len: 0,
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn at(kind: CallKind, fd: Fd, path: &'a [u8]) -> Self {
        Call {
            path: Some(path),
            ..Call::on(kind, fd)
        }
    }
}

impl FileSystem {
    /// A file system with an empty root directory.
    ///
    /// # Errors
    /// If the configuration is wrong.
    pub fn new(config: &FileConfig, seed: u64) -> Result<Self, ConfigError> {
        let rules = config.validate()?;
        Ok(FileSystem {
            config: Arc::new(config.clone()),
            rules: Arc::new(rules),
            seed,
            live: Tree::new(),
            durable: Tree::new(),
            pending: Steps::default(),
            descriptors: Descriptors::new(),
            next_ino: 1,
            next_step: 0,
            ops: 0,
            syncs: 0,
            changes: 0,
            power_cuts: 0,
            runs_ended: 0,
            crashes_drawn: 0,
            now: 0,
            elapsed: 0,
            used_pages: 0,
            cached: Arc::default(),
            numbers: Arc::default(),
            stale: Arc::default(),
            gate: Vec::new(),
            barriers: 0,
            syncing: false,
            within_change: false,
            inject: Injector::new(&config.faults, seed),
            stats: FileStats::default(),
            mistake: Mistake::of(config),
            interventions: Arc::default(),
            moments: None,
            op_notes: None,
            reads: None,
        })
    }

    /// What it was made from.
    #[must_use]
    pub fn config(&self) -> &FileConfig {
        &self.config
    }

    /// The rules of its persistence profile.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Says what time it is, in nanoseconds: files get their times from it. Never goes back.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// The time inside a call.
    pub(crate) fn time(&self) -> Nanos {
        self.now + self.elapsed
    }

    /// What the calls since the last take have cost. The time that [`set_now`](FileSystem::set_now) has said moves on by it.
    pub fn take_elapsed_ns(&mut self) -> Nanos {
        let elapsed = std::mem::take(&mut self.elapsed);
        self.now += elapsed;
        elapsed
    }

    /// What a power cut may lose, oldest first.
    #[must_use]
    pub fn pending(&self) -> &[Arc<PendingStep>] {
        &self.pending
    }

    /// How many calls there were: the number of the next one.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// How many syncs there were: the number of the next one.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Moves whenever the states that a crash can leave change.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many power cuts there were.
    #[must_use]
    pub fn power_cuts(&self) -> u64 {
        self.power_cuts
    }

    /// Whether this is a copy from within a sync that has made nothing durable yet.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        self.syncing
    }

    /// How many files are open, the root directory aside.
    #[must_use]
    pub fn open_files(&self) -> u32 {
        self.descriptors.len()
    }

    /// How often each fault could have fired and did.
    #[must_use]
    pub fn counts(&self) -> &FileFaultCounts {
        &self.inject.counts
    }

    /// What was asked of it.
    #[must_use]
    pub fn stats(&self) -> &FileStats {
        &self.stats
    }

    /// The faults that fired, as a script that makes them fire again.
    #[must_use]
    pub fn fired_script(&self) -> &[ScriptedFileFault] {
        self.inject.fired()
    }

    /// Lets a fault of this kind happen at the n-th opportunity from now, counted from 0.
    pub fn fail_nth(&mut self, kind: FileFault, n: u64) {
        self.inject.fail_nth(kind, n);
    }

    fn hash_of(&self) -> HashOf {
        HashOf {
            space: self.config.capacity_bytes != 0,
        }
    }

    /// A hash of what callers see by name: names, links, bytes, set times; with limited space also what is allocated.
    #[must_use]
    pub fn image_hash(&self) -> u128 {
        self.live.hash(self.hash_of())
    }

    /// A hash of what is durable.
    #[must_use]
    pub fn durable_hash(&self) -> u128 {
        self.tree_hash(&self.durable)
    }

    pub(crate) fn tree_hash(&self, tree: &Tree) -> u128 {
        tree.hash(self.hash_of())
    }

    /// With noting on, a copy is kept after each step. Off forgets them.
    pub fn note_moments(&mut self, on: bool) {
        self.moments = on.then(Moments::default);
    }

    /// Begins to count moments anew: the first 4,096 are kept, and of all behind them one in 256 and the last of each call.
    pub fn begin_moments(&mut self) {
        if let Some(moments) = &mut self.moments {
            moments.count = 0;
        }
    }

    /// Whether of the moments behind those so far one in many is kept only. What they stand for then is a stretch: see [`stretch`](Self::stretch).
    fn are_moments_sparse(count: u64) -> bool {
        count > MOMENTS_ALL
    }

    /// The number of the stretch of moments of which one is kept; nothing while all are.
    #[must_use]
    pub fn stretch(&self) -> Option<u64> {
        let count = self.moments.as_ref()?.count;
        Self::are_moments_sparse(count).then_some(count / MOMENTS_STRIDE)
    }

    /// The copies since the last take, in order. The last is as the file system is now.
    pub fn take_moments(&mut self) -> Vec<Moment> {
        let Some(moments) = &mut self.moments else {
            return Vec::new();
        };
        let last = moments.passed_over.take();
        let mut kept = std::mem::take(&mut moments.kept);
        kept.extend(last.map(|step| self.copy(step)));
        kept
    }

    pub(crate) fn moment(&mut self, step: StepNote) {
        let Some(moments) = &mut self.moments else {
            return;
        };
        moments.count += 1;
        let is_kept = !Self::are_moments_sparse(moments.count)
            || moments.count.is_multiple_of(MOMENTS_STRIDE);
        moments.passed_over = (!is_kept).then(|| step.clone());
        if is_kept {
            let moment = self.copy(step);
            self.moments.get_or_insert_default().kept.push(moment);
        }
    }

    /// The file system as it is now. Moments hold no moments, so the list is away while the copy is made.
    fn copy(&mut self, step: StepNote) -> Moment {
        let moments = self.moments.take();
        let mut files = self.clone();
        self.moments = moments;
        files.within_change = matches!(step, StepNote::Pending { .. });
        Moment {
            after_ns: files.elapsed,
            files,
            step,
        }
    }

    /// With noting on, each call is kept with its arguments. Off forgets them.
    pub fn note_ops(&mut self, on: bool) {
        self.op_notes = on.then(Arc::default);
    }

    /// The calls since noting began.
    #[must_use]
    pub fn noted_ops(&self) -> &[OpNote] {
        self.op_notes.as_ref().map_or(&[], |notes| notes)
    }

    /// Numbers a call, lets it happen, and notes it.
    pub(crate) fn call<T>(
        &mut self,
        call: Call<'_>,
        body: impl FnOnce(&mut Self, u64) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let op = self.ops;
        self.ops += 1;
        self.stats.calls += 1;
        self.elapsed += self.config.call_ns;
        self.intervene(op, true);
        if self.op_notes.is_none() {
            let result = body(self, op);
            self.intervene(op, false);
            return result;
        }
        let mut note = self.note_of(op, &call);
        let result = body(self, op);
        self.intervene(op, false);
        note.error = result.as_ref().err().copied();
        if note.ino.is_none() {
            note.ino = call.path.and_then(|path| self.peek(call.fd, path));
        }
        if let Some(notes) = &mut self.op_notes {
            Arc::make_mut(notes).push(note);
        }
        result
    }

    fn note_of(&self, op: u64, call: &Call<'_>) -> OpNote {
        let base = self.descriptors.get(call.fd).ok().map(|open| open.ino);
        let join = |base: Option<Ino>, path: &[u8]| -> Arc<str> {
            let path = path.escape_ascii().to_string();
            match base.map(|ino| self.live.path(ino)) {
                Some(base) if base != "." => format!("{base}/{path}").into(),
                _ => path.into(),
            }
        };
        let ino = match call.path {
            Some(path) => self.peek(call.fd, path),
            None => base,
        };
        let is_sync = call.kind == CallKind::Sync;
        let node = base.and_then(|ino| self.live.nodes.get(ino));
        let fallback = || base.map_or("?".into(), |ino| self.live.path(ino).into());
        let other = call.other.map(|(fd, path)| {
            let is_target = call.kind == CallKind::Symlink;
            let base = self.descriptors.get(fd).ok().map(|open| open.ino);
            join(base.filter(|_| !is_target), path)
        });
        OpNote {
            op,
            kind: call.kind,
            ino,
            path: call.path.map_or_else(fallback, |path| join(base, path)),
            other,
            offset: call.offset,
            len: call.len,
            sync: is_sync.then_some(self.syncs),
            is_directory: node.is_some_and(|node| node.directory().is_some()),
            error: None,
        }
    }

    /// What a path leads to, without a trace.
    fn peek(&self, fd: Fd, path: &[u8]) -> Option<Ino> {
        let at = self.descriptors.get(fd).ok()?.ino;
        let found = resolve(&self.live, at, path, Follow::Never, |_, _| {});
        found.ok()?.ino
    }

    /// Follows a path from an open directory.
    pub(crate) fn find(&mut self, fd: Fd, path: &[u8], follow: Follow) -> Result<Found, Errno> {
        match self.find_parent(fd, path, follow)? {
            found if found.too_long => Err(Errno::NameTooLong),
            found => Ok(found),
        }
    }

    /// Follows a path from an open directory; the last part may be too long for a name.
    pub(crate) fn find_parent(
        &mut self,
        fd: Fd,
        path: &[u8],
        follow: Follow,
    ) -> Result<Found, Errno> {
        let at = self.descriptors.get(fd)?.ino;
        let mut looked = Vec::new();
        let noting = self.reads.is_some();
        let found = resolve(&self.live, at, path, follow, |directory, name| {
            if noting {
                looked.push((directory, Arc::clone(name)));
            }
        });
        for (directory, name) in looked {
            self.observe(Observation::Name { directory, name });
        }
        found
    }

    /// The number that callers see for an inode.
    pub(crate) fn number(&mut self, ino: Ino) -> u64 {
        if let Some(number) = self.numbers.get(&ino) {
            return *number;
        }
        let number = self.numbers.len() as u64 + 1;
        Arc::make_mut(&mut self.numbers).insert(ino, number);
        number
    }

    /// How many pages are free.
    pub(crate) fn free_pages(&self) -> u64 {
        match self.config.capacity_bytes {
            0 => UNBOUNDED_PAGES.saturating_sub(self.used_pages),
            capacity => (capacity / PAGE_BYTES).saturating_sub(self.used_pages),
        }
    }

    /// Bytes that are free for data; nothing if there is no limit.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        let limited = self.config.capacity_bytes != 0;
        limited.then(|| self.free_pages() * PAGE_BYTES)
    }
}
