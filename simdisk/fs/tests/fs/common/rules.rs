//! A second reading of the rules, written from the profile's page and not from the crate: what a crash can leave of a short run.
//!
//! It is slow and simple: all events of the run stay in one list, a relation between pairs of events says which must come with which, a sync
//! takes events as there for good, and every subset of all events is tried.

#[path = "rules_outcomes.rs"]
mod outcomes;

use std::collections::{BTreeMap, BTreeSet};

use kvsim_fs::{CallOrder, DurableAt, Reach, Rules, StaleContents, SyncCommits};

/// Sectors of a page.
const SECTORS: usize = 8;
/// A file of the run: its number.
pub(crate) type File = usize;

/// What an engine does, in sectors of 512 bytes. Names are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Opens a name and creates the file if there is none.
    Create(u8),
    /// Writes sectors of one value from this sector on.
    Write {
        name: u8,
        sector: usize,
        count: usize,
        value: u8,
    },
    /// Sets the size, in sectors.
    Resize { name: u8, sectors: usize },
    /// Lets the one name have what the other one has.
    Rename { from: u8, to: u8 },
    /// Removes a name.
    Unlink(u8),
    /// Syncs a file.
    SyncFile(u8),
    /// Gives the file of the one name the other name too, if that is free.
    Link { from: u8, to: u8 },
    /// Syncs a directory.
    SyncDirectory(u8),
    /// Closes what was opened of a name, and opens it anew.
    Close(u8),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Data {
        page: usize,
        /// Sectors of the page, and what each holds after it.
        sectors: Vec<(usize, u8)>,
        first: bool,
        tail: bool,
    },
    Mapped {
        page: usize,
    },
    /// In sectors.
    Size {
        from: usize,
        to: usize,
        by_write: bool,
    },
    Truncate {
        to: usize,
    },
    /// Names and what each refers to after it.
    Names(Vec<(u8, Option<File>)>),
}

#[derive(Debug, Clone)]
struct Event {
    act: usize,
    file: Option<File>,
    what: What,
    /// There for good.
    durable: bool,
    /// Events that it must not come without, by what a call has asked for.
    after: Vec<usize>,
}

/// Files as somebody sees them: what each sector holds; 255 for what a block held before.
pub(crate) type Seen = BTreeMap<u8, Vec<u8>>;

#[derive(Debug, Clone, Default)]
struct FileState {
    size: usize,
    pages: BTreeMap<usize, [u8; SECTORS]>,
}

#[derive(Debug, Clone, Default)]
struct State {
    names: BTreeMap<u8, File>,
    files: BTreeMap<File, FileState>,
}

/// The directory that a name is in.
pub(crate) fn directory_of(name: u8) -> u8 {
    u8::from(name >= 3)
}

/// A run, event by event.
pub(crate) struct Reading<'a> {
    rules: &'a Rules,
    events: Vec<Event>,
    live: State,
    files: usize,
    /// Names through which a size was set to 0 since they were opened.
    truncated: BTreeSet<u8>,
    /// Events that all later metadata must not come without.
    closed: Vec<usize>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(rules: &'a Rules) -> Self {
        Reading {
            rules,
            events: Vec::new(),
            live: State::default(),
            files: 0,
            truncated: BTreeSet::new(),
            closed: Vec::new(),
        }
    }

    /// How many events are not there for good.
    pub(crate) fn pending(&self) -> usize {
        self.events.iter().filter(|event| !event.durable).count()
    }

    fn add(&mut self, act: usize, file: Option<File>, what: What) -> usize {
        let after = if self.is_metadata(&what) {
            self.closed.clone()
        } else {
            Vec::new()
        };
        self.events.push(Event {
            act,
            file,
            what,
            durable: self.rules.durable_at == DurableAt::Write,
            after,
        });
        self.events.len() - 1
    }

    /// Whether the journal has it in the order of calls.
    fn is_metadata(&self, what: &What) -> bool {
        match self.rules.call_order {
            CallOrder::None => false,
            CallOrder::Everything => true,
            CallOrder::Metadata => match what {
                What::Names(_) | What::Truncate { .. } => true,
                What::Size { by_write, .. } => !by_write || !self.rules.delayed_allocation,
                What::Data { .. } | What::Mapped { .. } => false,
            },
        }
    }

    /// Whether the journal has it when its page is written back.
    fn is_late(&self, what: &What) -> bool {
        self.rules.call_order == CallOrder::Metadata
            && match what {
                What::Data { first, .. } => *first,
                What::Mapped { .. } => true,
                What::Size { .. } => !self.is_metadata(what),
                What::Names(_) | What::Truncate { .. } => false,
            }
    }

    /// Does what an engine does. Says whether it could.
    pub(crate) fn act(&mut self, number: usize, act: Act) -> bool {
        let file = |name: u8| self.live.names.get(&name).copied();
        match act {
            Act::Create(name) => {
                if file(name).is_none() {
                    let new = self.files;
                    self.files += 1;
                    self.live.names.insert(name, new);
                    self.live.files.insert(new, FileState::default());
                    self.add(number, None, What::Names(vec![(name, Some(new))]));
                }
            }
            Act::Write {
                name,
                sector,
                count,
                value,
            } => {
                let Some(file) = file(name) else { return false };
                self.write(number, file, sector, count, value);
            }
            Act::Resize { name, sectors } => {
                let Some(file) = file(name) else { return false };
                if sectors == 0 && self.live.files[&file].size > 0 {
                    self.truncated.insert(name);
                }
                self.resize(number, file, sectors);
            }
            Act::Rename { from, to } => {
                let Some(file) = file(from) else { return false };
                // Two names of one file: nothing happens.
                if self.live.names.get(&to) != Some(&file) {
                    let replaced = self.live.names.get(&to).copied();
                    self.rename(number, file, from, to);
                    if let Some(replaced) = replaced {
                        self.close(to, replaced);
                    }
                    if self.truncated.remove(&from) {
                        self.truncated.insert(to);
                    }
                }
            }
            Act::Unlink(name) => {
                let Some(file) = self.live.names.remove(&name) else {
                    return false;
                };
                self.add(number, None, What::Names(vec![(name, None)]));
                self.close(name, file);
            }
            Act::SyncFile(name) => {
                let Some(file) = file(name) else { return false };
                self.sync(Ok(file));
            }
            Act::Link { from, to } => {
                let Some(file) = file(from) else { return false };
                if self.live.names.contains_key(&to) {
                    return false;
                }
                self.live.names.insert(to, file);
                self.add(number, None, What::Names(vec![(to, Some(file))]));
            }
            Act::SyncDirectory(directory) => self.sync(Err(directory)),
            Act::Close(name) => {
                let Some(file) = file(name) else { return false };
                self.close(name, file);
            }
        }
        true
    }

    fn write(&mut self, act: usize, file: File, sector: usize, count: usize, value: u8) {
        let mut at = sector;
        let end = sector + count;
        while at < end {
            let page = at / SECTORS;
            let stop = end.min((page + 1) * SECTORS);
            let state = self.live.files.get_mut(&file).expect("a file");
            let first = !state.pages.contains_key(&page);
            let bytes = state.pages.entry(page).or_default();
            bytes[at % SECTORS..=(stop - 1) % SECTORS].fill(value);
            let bytes = *bytes;
            let from = state.size;
            state.size = state.size.max(stop);
            let to = state.size;
            let mut touched: Vec<usize> = (at % SECTORS..=(stop - 1) % SECTORS).collect();
            if first && self.rules.stale_contents != StaleContents::None {
                self.add(act, Some(file), What::Mapped { page });
                touched = (0..SECTORS).collect();
            }
            let sectors = touched.into_iter().map(|at| (at, bytes[at])).collect();
            let what = What::Data {
                page,
                sectors,
                first,
                tail: false,
            };
            self.add(act, Some(file), what);
            if to > from {
                let by_write = true;
                self.add(act, Some(file), What::Size { from, to, by_write });
            }
            at = stop;
        }
    }

    fn resize(&mut self, act: usize, file: File, to: usize) {
        let state = self.live.files.get_mut(&file).expect("a file");
        let from = state.size;
        state.size = to;
        if to > from {
            let by_write = false;
            self.add(act, Some(file), What::Size { from, to, by_write });
        } else if to < from {
            let end = to.div_ceil(SECTORS);
            state.pages.retain(|page, _| *page < end);
            let page = to / SECTORS;
            let zeroed = match state.pages.get_mut(&page) {
                Some(bytes) if bytes[to % SECTORS..].iter().any(|byte| *byte != 0) => {
                    bytes[to % SECTORS..].fill(0);
                    true
                }
                _ => false,
            };
            self.add(act, Some(file), What::Truncate { to });
            if zeroed {
                let sectors = (to % SECTORS..SECTORS).map(|at| (at, 0)).collect();
                let what = What::Data {
                    page,
                    sectors,
                    first: false,
                    tail: true,
                };
                self.add(act, Some(file), what);
            }
        }
    }

    fn rename(&mut self, act: usize, file: File, from: u8, to: u8) {
        let replaced = self.live.names.insert(to, file);
        self.live.names.remove(&from);
        let flush = replaced.is_some() && self.rules.rename_over_flushes;
        let all = self.events.iter().enumerate();
        let data: Vec<usize> = all
            .filter(|(_, event)| flush && event.file == Some(file))
            .map(|(at, _)| at)
            .collect();
        let begins = if self.rules.rename_atomic {
            self.add(act, None, What::Names(vec![(from, None), (to, Some(file))]))
        } else {
            if replaced.is_some() {
                self.add(act, None, What::Names(vec![(to, None)]));
            }
            let begins = self.add(act, None, What::Names(vec![(to, Some(file))]));
            self.add(act, None, What::Names(vec![(from, None)]));
            begins
        };
        self.events[begins].after.extend(data);
    }

    /// Whether a crash cannot leave the later event without the earlier one. `order` lets the order of calls count.
    fn must_come_first(&self, early: usize, late: usize, order: bool) -> bool {
        let (a, b) = (&self.events[early], &self.events[late]);
        if early >= late {
            return false;
        }
        if b.after.contains(&early) {
            return true;
        }
        if order
            && self.is_metadata(&a.what)
            && (self.is_metadata(&b.what) || self.is_late(&b.what))
        {
            return true;
        }
        if let (What::Names(one), What::Names(two)) = (&a.what, &b.what) {
            return one
                .iter()
                .any(|(name, _)| two.iter().any(|(other, _)| name == other));
        }
        if a.file.is_none() || a.file != b.file {
            return false;
        }
        let is_size = |what: &What| matches!(what, What::Size { .. } | What::Truncate { .. });
        if is_size(&a.what) && is_size(&b.what) {
            return true;
        }
        let page_of = |what: &What| match what {
            What::Data { page, .. } | What::Mapped { page } => Some(*page),
            _ => None,
        };
        // What a page held before it was given up matters no more.
        let given_up = |page: usize| {
            self.events[early + 1..late].iter().any(|event| {
                event.file == a.file
                    && matches!(event.what, What::Truncate { to } if to.div_ceil(SECTORS) <= page)
            })
        };
        match (&a.what, &b.what) {
            (What::Truncate { to }, what) => {
                page_of(what).is_some_and(|page| to.div_ceil(SECTORS) <= page)
            }
            (
                What::Data {
                    page,
                    sectors,
                    first,
                    ..
                },
                What::Data {
                    page: other,
                    sectors: theirs,
                    ..
                },
            ) => {
                let base = *first && self.rules.unwritten_extents;
                let shares = sectors
                    .iter()
                    .any(|(at, _)| theirs.iter().any(|(other, _)| at == other));
                page == other && !given_up(*page) && (base || shares || !self.rules.torn_page)
            }
            (What::Mapped { page }, what)
            | (What::Data { page, .. }, what @ What::Mapped { .. }) => {
                page_of(what) == Some(*page) && !given_up(*page)
            }
            (What::Data { page, tail, .. }, What::Size { from, by_write, .. }) => {
                let end = (page + 1) * SECTORS;
                let own = a.act == b.act && *by_write && end > *from && !tail;
                let zeros = *tail && *page == from / SECTORS;
                (self.rules.data_before_size && own) || (self.rules.zero_tail && zeros)
            }
            _ => false,
        }
    }

    /// The file that was opened of a name is closed.
    fn close(&mut self, name: u8, file: File) {
        if self.truncated.remove(&name) && self.rules.close_after_truncate_flushes {
            let all = self.events.iter().enumerate();
            let of_it = all.filter(|(_, event)| event.file == Some(file));
            self.closed.extend(of_it.map(|(at, _)| at));
        }
    }

    /// A sync of a file, or of a directory.
    fn sync(&mut self, of: Result<File, u8>) {
        if self.rules.fsync_reaches == Reach::Drive {
            return;
        }
        let order = self.rules.sync_commits == SyncCommits::WhatIsBefore;
        let covers = |event: &Event| match (&event.what, of) {
            (What::Names(_), _) if self.rules.sync_commits == SyncCommits::AllNames => true,
            (What::Names(names), Err(directory)) => names
                .iter()
                .any(|(name, _)| directory_of(*name) == directory),
            (What::Names(names), Ok(file)) => {
                // The file loses or gets a name.
                let its = names
                    .iter()
                    .any(|(name, to)| *to == Some(file) || self.had(event, *name, file));
                self.rules.fsync_file_persists_entry && its
            }
            (_, Err(_)) => false,
            (_, Ok(file)) => event.file == Some(file),
        };
        let mut set: Vec<bool> = self.events.iter().map(covers).collect();
        let late = self
            .events
            .iter()
            .zip(&set)
            .any(|(event, covered)| *covered && !event.durable && self.is_late(&event.what));
        if order && late {
            for (event, covered) in self.events.iter().zip(&mut set) {
                *covered |= self.is_metadata(&event.what);
            }
        }
        loop {
            let before = set.clone();
            for late in 0..set.len() {
                for early in 0..late {
                    // What is there for good brings nothing along any more.
                    let counts = set[late] && !self.events[late].durable;
                    set[early] |= counts && self.must_come_first(early, late, order);
                }
            }
            if set == before {
                break;
            }
        }
        for (event, covered) in self.events.iter_mut().zip(set) {
            event.durable |= covered;
        }
    }

    /// Whether a name referred to a file just before an event.
    fn had(&self, event: &Event, name: u8, file: File) -> bool {
        let mut names = BTreeMap::new();
        for other in &self.events {
            if std::ptr::eq(other, event) {
                break;
            }
            if let What::Names(changes) = &other.what {
                for (name, to) in changes {
                    names.insert(*name, *to);
                }
            }
        }
        names.get(&name) == Some(&Some(file))
    }
}
