//! The second reading of the rules: from events to what a crash can leave.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_fs::CallOrder;

use super::{Event, File, FileState, Reading, SECTORS, Seen, What};

impl Reading<'_> {
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
            for (early, ours) in kept.iter().enumerate().take(late) {
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
                let fine = match ours {
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
