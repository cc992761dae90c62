//! A second reading of the rules, written from the profile's page and not from the crate: what a crash can leave of a short run.
//!
//! It is slow and simple. Nothing is ever made durable and forgotten: all events of the run stay in one list, a relation between pairs of events
//! says which must come with which, a sync marks events as there for good, and every subset of all events is tried.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_fs::{CallOrder, DurableAt, Reach, Rules, SyncCommits};

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
    /// Syncs the directory.
    SyncDirectory,
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

/// A file as somebody sees it: its size in sectors and what each holds; 255 for what a block held before.
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

/// A run, event by event.
pub(crate) struct Reading<'a> {
    rules: &'a Rules,
    events: Vec<Event>,
    live: State,
    files: usize,
    /// Per file: whether its size was set to 0 while it was open.
    truncated: BTreeSet<File>,
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
                self.resize(number, file, sectors);
            }
            Act::Rename { from, to } => {
                let Some(file) = file(from) else { return false };
                if from != to {
                    self.rename(number, file, from, to);
                }
            }
            Act::Unlink(name) => {
                if self.live.names.remove(&name).is_none() {
                    return false;
                }
                self.add(number, None, What::Names(vec![(name, None)]));
            }
            Act::SyncFile(name) => {
                let Some(file) = file(name) else { return false };
                self.sync(Some(file));
            }
            Act::SyncDirectory => self.sync(None),
            Act::Close(name) => {
                let Some(file) = file(name) else { return false };
                if self.truncated.remove(&file) && self.rules.close_after_truncate_flushes {
                    let all = self.events.iter().enumerate();
                    let of_it = all.filter(|(_, event)| event.file == Some(file));
                    self.closed.extend(of_it.map(|(at, _)| at));
                }
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
            if first && self.rules.stale_contents {
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
            if to == 0 {
                self.truncated.insert(file);
            }
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

    fn sync(&mut self, of: Option<File>) {
        if self.rules.fsync_reaches == Reach::Drive {
            return;
        }
        let order = self.rules.sync_commits == SyncCommits::WhatIsBefore;
        let covers = |event: &Event| match (&event.what, of) {
            (What::Names(_), None) => true,
            (What::Names(names), Some(file)) => {
                let all = self.rules.sync_commits == SyncCommits::AllNames;
                // The file loses or gets a name.
                let its = names
                    .iter()
                    .any(|(name, to)| *to == Some(file) || self.had(event, *name, file));
                all || (self.rules.fsync_file_persists_entry && its)
            }
            (_, None) => false,
            (_, Some(file)) => event.file == Some(file),
        };
        let mut set: Vec<bool> = self.events.iter().map(covers).collect();
        let late = self
            .events
            .iter()
            .zip(&set)
            .any(|(event, covered)| *covered && !event.durable && self.is_late(&event.what));
        if order && late {
            for at in 0..set.len() {
                set[at] |= self.is_metadata(&self.events[at].what);
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

    /// Ways for an event to persist: nothing, all, and with tears some of its sectors.
    fn ways(&self, event: &Event, tears_max: usize) -> Vec<Option<Vec<usize>>> {
        let all = match &event.what {
            What::Data { sectors, .. } => sectors.iter().map(|(at, _)| *at).collect(),
            _ => Vec::new(),
        };
        if event.durable {
            return vec![Some(all)];
        }
        let mut ways = vec![None, Some(all.clone())];
        let whole =
            matches!(event.what, What::Data { first: true, .. }) && self.rules.unwritten_extents;
        if self.rules.torn_page && !whole && all.len() > 1 && all.len() <= tears_max {
            for bits in 1..(1_u32 << all.len()) - 1 {
                let kept = all.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
                ways.push(Some(kept.map(|(_, sector)| *sector).collect()));
            }
        }
        ways
    }

    /// All that a power cut now can leave. Pages of up to so many sectors are torn.
    pub(crate) fn outcomes(&self, tears_max: usize) -> BTreeSet<Seen> {
        let ways: Vec<_> = self
            .events
            .iter()
            .map(|event| self.ways(event, tears_max))
            .collect();
        let mut found = BTreeSet::new();
        let mut chosen = vec![0; ways.len()];
        loop {
            let kept: Vec<&Option<Vec<usize>>> = chosen
                .iter()
                .zip(&ways)
                .map(|(way, ways)| &ways[*way])
                .collect();
            if self.is_possible(&kept) {
                found.insert(self.replay(&kept));
            }
            // The next combination.
            let Some(at) = (0..chosen.len()).find(|&at| chosen[at] + 1 < ways[at].len()) else {
                return found;
            };
            chosen[at] += 1;
            chosen[..at].fill(0);
        }
    }

    /// How many combinations [`Reading::outcomes`] tries.
    pub(crate) fn combinations(&self, tears_max: usize) -> usize {
        let ways = self
            .events
            .iter()
            .map(|event| self.ways(event, tears_max).len());
        ways.fold(1, usize::saturating_mul)
    }

    fn is_possible(&self, kept: &[&Option<Vec<usize>>]) -> bool {
        let all_of = |at: usize| match &self.events[at].what {
            What::Data { sectors, .. } => sectors.len(),
            _ => 0,
        };
        for late in 0..kept.len() {
            let Some(theirs) = kept[late] else { continue };
            for early in 0..late {
                if self.events[early].durable || !self.must_come_first(early, late, true) {
                    continue;
                }
                // The log of a sync may have put the later one there without the earlier one.
                if self.events[late].durable {
                    continue;
                }
                let (a, b) = (&self.events[early].what, &self.events[late].what);
                let whole =
                    matches!(a, What::Data { first: true, .. }) && self.rules.unwritten_extents;
                let versions = matches!((a, b), (What::Data { .. }, What::Data { .. }))
                    && !whole
                    && !self.events[late].after.contains(&early)
                    && self.rules.torn_page
                    && self.rules.call_order != CallOrder::Everything;
                let fine = match kept[early] {
                    None if versions => self.shared(early, theirs).is_empty(),
                    None => false,
                    Some(ours) if versions => self
                        .shared(early, theirs)
                        .iter()
                        .all(|at| ours.contains(at)),
                    Some(ours) => ours.len() == all_of(early),
                };
                if !fine {
                    return false;
                }
            }
        }
        true
    }

    fn shared(&self, early: usize, theirs: &[usize]) -> Vec<usize> {
        match &self.events[early].what {
            What::Data { sectors, .. } => {
                let ours = sectors.iter().map(|(at, _)| *at);
                ours.filter(|at| theirs.contains(at)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn replay(&self, kept: &[&Option<Vec<usize>>]) -> Seen {
        let mut names: BTreeMap<u8, File> = BTreeMap::new();
        let mut files: BTreeMap<File, FileState> = BTreeMap::new();
        for (event, kept) in self.events.iter().zip(kept) {
            let Some(kept) = kept else { continue };
            if let What::Names(changes) = &event.what {
                for (name, to) in changes {
                    match to {
                        Some(file) => names.insert(*name, *file),
                        None => names.remove(name),
                    };
                }
                continue;
            }
            let file = files.entry(event.file.expect("of a file")).or_default();
            match &event.what {
                What::Data { page, sectors, .. } => {
                    let bytes = file.pages.entry(*page).or_default();
                    for (at, value) in sectors.iter().filter(|(at, _)| kept.contains(at)) {
                        bytes[*at] = *value;
                    }
                }
                What::Mapped { page } => {
                    file.pages.insert(*page, [255; SECTORS]);
                }
                What::Size { to, .. } => file.size = *to,
                What::Truncate { to } => {
                    file.size = *to;
                    file.pages.retain(|page, _| *page < to.div_ceil(SECTORS));
                }
                What::Names(_) => {}
            }
        }
        let see = |file: &File| {
            let state = files.get(file).cloned().unwrap_or_default();
            let sector = |at: usize| {
                state
                    .pages
                    .get(&(at / SECTORS))
                    .map_or(0, |page| page[at % SECTORS])
            };
            (0..state.size).map(sector).collect()
        };
        names
            .iter()
            .map(|(name, file)| (*name, see(file)))
            .collect()
    }
}
