//! Scans that are done outside the engine but for their beginning and their end. A thread that drives the engine reads the leaves, joins them, and reads the values, while others use the engine.
//!
//! Such a scan may begin anew, and then shows that later moment: nobody can tell, since its answer comes later still. A scan by a request shows its arrival, as the guest's ABI wants it.
//!
//! Invariant: between its beginning and its end the engine counts such a scan as a read under way.

use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{Entry, RequestId, ScanRange};
use crate::checkpoint::stretch::Stretch;
use crate::core::{Core, Phase};
use crate::format::page::PageRef;
use crate::format::to_usize;
use crate::read::join::{Next, RunsScan};
use crate::read::outside_values::OutsideValues;
use crate::read::record::CannotRead;
use crate::read::state::Slot;

/// A scan between its beginning and its end. It has to be given back to the engine: [`Engine::end_join`](crate::Engine::end_join) or [`Engine::drop_join`](crate::Engine::drop_join).
#[derive(Debug)]
#[must_use]
pub struct Join {
    scan: RunsScan,
    /// Those of the part under way, the oldest run's first, with their bytes if they are in memory.
    leaves: Vec<(PageRef, Option<Arc<[u8]>>)>,
    /// Those that were read and that the engine has not seen.
    read: Vec<(PageRef, Arc<[u8]>)>,
    reads: u64,
    /// It begins anew.
    again: bool,
    /// Whether there are more entries, once the last part was joined.
    more: Option<bool>,
    /// The entries, once the engine has shown where their values are.
    values: Option<Result<OutsideValues, Error>>,
}

impl Join {
    /// Reads the leaves of the part under way, where memory has not got them, and joins them; or the values, once the engine has shown these. `read` is given places of the device, an offset and so many bytes each, and
    /// returns what it has read there in the same order, or says that it cannot. Several of them can be read at once. Then the scan has ended, or the engine has to show what comes next: [`Engine::show_next`](crate::Engine::show_next).
    ///
    /// # Errors
    /// [`CannotRead`]: the scan has to be dropped, or this is called again once `read` has what it had not.
    pub fn go_on(
        &mut self,
        read: impl FnMut(&[(u64, usize)]) -> Option<Vec<IoBuf>>,
    ) -> Result<(), CannotRead> {
        if let Some(Ok(values)) = &mut self.values {
            return values.read(self.scan.id(), self.scan.geometry(), read);
        }
        let went_on = self.bring(read).and_then(|()| self.join());
        if went_on.is_err() {
            // What is damaged must not be kept: to read it again may help.
            self.read.clear();
        }
        went_on
    }

    /// Joins what is there, up to where the engine has to show something.
    fn join(&mut self) -> Result<(), CannotRead> {
        while self.more.is_none() && !self.again {
            for (leaf, bytes) in self.leaves.drain(..) {
                let bytes = bytes.expect("it was brought");
                self.scan.take_leaf(&leaf, &bytes).map_err(|_| CannotRead)?;
            }
            match self.scan.end_part().map_err(|_| CannotRead)? {
                true => self.more = Some(true),
                false => self.begin_part(),
            }
            if !self.leaves.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The entries, and whether there are more, once all are chosen and have their values. Then nobody has to be answered: [`Engine::drop_join`](crate::Engine::drop_join).
    pub fn take_entries(&mut self) -> Option<(Vec<Entry>, bool)> {
        let more = self.more?;
        let slots = match &mut self.values {
            None => self.scan.take_complete()?.into_slots(),
            Some(values) => values.as_mut().ok()?.take_complete()?,
        };
        Some((slots.into_iter().map(Slot::into_entry).collect(), more))
    }

    fn begin_part(&mut self) {
        match self.scan.begin_part() {
            Next::Leaves(leaves) => {
                self.leaves = leaves.into_iter().map(|leaf| (leaf, None)).collect();
            }
            Next::Again => self.again = true,
            Next::End => self.more = Some(false),
        }
    }

    /// Reads what memory has not got, and what lies side by side in one piece.
    fn bring(
        &mut self,
        mut read: impl FnMut(&[(u64, usize)]) -> Option<Vec<IoBuf>>,
    ) -> Result<(), CannotRead> {
        let missing = self.leaves.iter().filter(|(_, bytes)| bytes.is_none());
        let mut missing = missing.map(|(leaf, _)| *leaf).peekable();
        let stretches: Vec<Stretch> = std::iter::from_fn(|| Stretch::take(&mut missing)).collect();
        if stretches.is_empty() {
            return Ok(());
        }
        let places: Vec<(u64, usize)> = stretches.iter().map(Stretch::place).collect();
        let pieces = read(&places).ok_or(CannotRead)?;
        self.reads += places.len() as u64;
        let mut wanted = self.leaves.iter_mut().filter(|(_, bytes)| bytes.is_none());
        for ((stretch, (offset, _)), piece) in stretches.iter().zip(places).zip(pieces) {
            for leaf in stretch.pages() {
                let at = to_usize(leaf.offset - offset);
                let bytes: Arc<[u8]> = piece[at..at + leaf.len as usize].into();
                let (_, kept) = wanted.next().expect("it was missing");
                *kept = Some(Arc::clone(&bytes));
                self.read.push((*leaf, bytes));
            }
        }
        Ok(())
    }
}

impl Core {
    /// Begins a scan, if it can be done outside.
    pub(crate) fn begin_join(&mut self, range: &ScanRange<'_>) -> Option<Join> {
        let now = self.phase == Phase::Running && self.queue.is_empty();
        let at = self.sequence_of(range.snapshot).ok().filter(|_| now)?;
        if self.has_all_in_memory(range) {
            return None;
        }
        let mut join = Join {
            scan: self.note_range(range, at, true),
            leaves: Vec::new(),
            read: Vec::new(),
            reads: 0,
            again: false,
            more: None,
            values: None,
        };
        join.begin_part();
        self.show_leaves(&mut join);
        Some(join)
    }

    /// Gives a scan what it needs next of what is in memory, and says where values are. Whether it can go on: else the engine has to answer it.
    pub(crate) fn show_next(&mut self, join: &mut Join) -> bool {
        if join.more.is_none() {
            self.show_leaves(join);
            return true;
        }
        if join.values.is_some() {
            return false;
        }
        self.reached(CoveragePoint::ScanJoinedOutside);
        let mut chosen = join.scan.take_chosen();
        let placed = self.place_chosen(&mut chosen);
        let values = placed.map(|()| OutsideValues::new(chosen.into_slots()));
        let goes_on = values.as_ref().is_ok_and(OutsideValues::lie_in_log);
        join.values = Some(values);
        goes_on
    }

    /// Gives a scan what memory has of the leaves that it needs next, and keeps what it has read.
    fn show_leaves(&mut self, join: &mut Join) {
        self.keep_read(join);
        if std::mem::take(&mut join.again) {
            self.note_again(&mut join.scan);
            join.begin_part();
        }
        for (leaf, bytes) in &mut join.leaves {
            *bytes = self.kept_leaf(leaf);
        }
    }

    fn keep_read(&mut self, join: &mut Join) {
        self.stats.index_reads += std::mem::take(&mut join.reads);
        if let Some(Ok(values)) = &mut join.values {
            self.stats.value_reads += std::mem::take(&mut values.values);
        }
        for (leaf, bytes) in join.read.drain(..) {
            self.keep_leaf(&leaf, bytes);
        }
    }

    /// Answers a scan whose values were shown, but not all are read.
    pub(crate) fn end_join(&mut self, id: RequestId, mut join: Join) {
        self.keep_read(&mut join);
        let more = join.more.expect("it has ended");
        let values = join.values.expect("they were shown");
        let slots = values.map(|values| (values.into_slots(), more));
        let (_, pass) = join.scan.into_chosen();
        self.answer_scan(id, pass, slots);
    }

    /// Nobody waits for an answer of the engine.
    pub(crate) fn drop_join(&mut self, mut join: Join) {
        self.keep_read(&mut join);
        self.forget_scan(join.scan);
    }
}

/// A scan goes on without the engine's lock.
const fn can_be_sent<T: Send>() {}
const _: () = can_be_sent::<Join>();
