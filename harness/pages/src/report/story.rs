//! What a page tells of a failure: the run that was recorded, and the part of it that matters.

use kvsim_sim::Cut;
use kvsim_simdisk::Nanos;

use kvsim_drive::timeline::{Entry, Kind, Lane};
pub(crate) use kvsim_findings::story::Story;

/// Lines before the last cut that are shown.
const BEFORE: usize = 260;
/// Lines after it.
const AFTER: usize = 140;
/// Lines about the operation concerned.
const CONCERNED_MAX: usize = 12;

/// A stretch of a time line.
pub(super) struct Scene<'a> {
    /// Its lines.
    pub(super) entries: &'a [Entry],
    /// Each cut in it: when, and what to call it.
    pub(super) cuts: Vec<(Nanos, &'static str)>,
    /// The last cut, and whether it only killed the process.
    pub(super) cut: Option<(&'a Cut, bool)>,
    /// The operation that the failure is about.
    hot: Option<String>,
}

impl Scene<'_> {
    /// Whether a line is about the operation concerned.
    pub(super) fn is_hot(&self, entry: &Entry) -> bool {
        self.hot
            .as_ref()
            .is_some_and(|hot| entry.what.starts_with(hot.as_str()))
    }

    pub(super) fn end_ns(&self) -> Nanos {
        self.entries.last().map_or(0, |entry| entry.at_ns)
    }
}

/// What was left out of a scene, counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Earlier {
    pub(super) lines: u64,
    pub(super) requests: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
    pub(super) cuts: u64,
}

impl Earlier {
    fn count(&mut self, entry: &Entry) {
        self.lines += 1;
        match (entry.kind, entry.lane) {
            (Kind::Request(_), _) => self.requests += 1,
            (Kind::Submit(_), Lane::Writes) => self.writes += 1,
            (Kind::Submit(_), Lane::Flushes) => self.flushes += 1,
            (Kind::Cut(_), _) => self.cuts += 1,
            _ => {}
        }
    }
}

/// The last device of a story, told up to its end.
pub(super) struct Telling<'a> {
    /// The lines that are shown.
    pub(super) entries: Vec<Entry>,
    /// What came before them.
    pub(super) earlier: Earlier,
    /// Lines at the end that are not shown.
    pub(super) later: u64,
    /// The lines about the operation concerned, wherever they are.
    pub(super) concerned: Vec<Entry>,
    cuts: &'a [Cut],
    hot: Option<String>,
}

impl<'a> Telling<'a> {
    /// The part of a story around its last cut, or at its end if there was none.
    pub(super) fn of(story: &'a Story) -> Option<Telling<'a>> {
        let (number, trace) = (1..).zip(&story.recording.devices).last()?;
        let hot = story.facts.op.map(|op| format!("op {op}: "));
        let about = |entry: &Entry| hot.as_ref().is_some_and(|hot| entry.what.starts_with(hot));
        let mut entries = Vec::new();
        let mut concerned = Vec::new();
        for entry in kvsim_drive::timeline::Entries::new(number, trace) {
            if about(&entry) && concerned.len() < CONCERNED_MAX {
                concerned.push(entry.clone());
            }
            entries.push(entry);
        }
        let is_cut = |entry: &Entry| matches!(entry.kind, Kind::Cut(_));
        let last_cut = entries.iter().rposition(is_cut);
        let centre = last_cut.unwrap_or(entries.len());
        let start = centre.saturating_sub(BEFORE);
        // Not in the middle of what a cut left.
        let start = start
            + entries[start..]
                .iter()
                .take_while(|entry| entry.kind == Kind::Fate)
                .count();
        let fates = entries.get(centre + 1..).map_or(0, |after| {
            after
                .iter()
                .take_while(|entry| entry.kind == Kind::Fate)
                .count()
        });
        let end = (centre + 1 + fates + AFTER).min(entries.len());
        let mut earlier = Earlier::default();
        entries[..start]
            .iter()
            .for_each(|entry| earlier.count(entry));
        let later = (entries.len() - end) as u64;
        entries.truncate(end);
        entries.drain(..start);
        Some(Telling {
            entries,
            earlier,
            later,
            concerned,
            cuts: &trace.notes().cuts,
            hot,
        })
    }

    /// What is to be drawn.
    pub(super) fn scene(&self) -> Scene<'_> {
        let mut cuts = Vec::new();
        let mut last = None;
        for entry in &self.entries {
            if let Kind::Cut(number) = entry.kind {
                let killed = entry.what.starts_with("PROCESS");
                cuts.push((entry.at_ns, if killed { "killed" } else { "cut" }));
                last = self.cuts.get(number).map(|cut| (cut, killed));
            }
        }
        Scene {
            entries: &self.entries,
            cuts,
            cut: last,
            hot: self.hot.clone(),
        }
    }
}
