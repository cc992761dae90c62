//! Reading leaves of runs that somebody has chosen, in their order, several reads in flight. Leaves that lie one behind the other are read in one go.

use std::collections::VecDeque;
use std::iter::Peekable;

use crate::api::error::Error;
use crate::checkpoint::stretch::Stretch;
use crate::format::damage::Mismatch;
use crate::format::page::{Page, PageRef, Tree};
use crate::runtime::handle::Handle;

const READS_IN_FLIGHT_MAX: usize = 8;

/// Leaves that are still to be read. The first reads are under way from the beginning.
pub(crate) struct LeafReader<'a> {
    handle: &'a Handle,
    leaves: Peekable<std::vec::IntoIter<PageRef>>,
    in_flight: VecDeque<Stretch>,
}

impl<'a> LeafReader<'a> {
    pub(crate) fn new(handle: &'a Handle, leaves: Vec<PageRef>) -> LeafReader<'a> {
        let mut reader = LeafReader {
            handle,
            leaves: leaves.into_iter().peekable(),
            in_flight: VecDeque::new(),
        };
        reader.begin_some();
        reader
    }

    fn begin_some(&mut self) {
        while self.in_flight.len() < READS_IN_FLIGHT_MAX
            && let Some(mut stretch) = Stretch::take(&mut self.leaves)
        {
            self.handle.with(|core| core.stats.index_reads += 1);
            stretch.begin(self.handle);
            self.in_flight.push_back(stretch);
        }
    }

    /// Hands out the entries of all leaves, key and payload, one leaf after the other.
    pub(crate) async fn each(
        self,
        mut entry: impl FnMut(&PageRef, &[u8], &[u8]) -> Result<(), Mismatch>,
    ) -> Result<(), Error> {
        let id = self.handle.with(|core| core.id);
        let read = self.each_leaf(|leaf, bytes| {
            let page = Page::decode(&id, Tree::Run, leaf, bytes)?;
            page.each(|key, payload| entry(leaf, key, payload))
        });
        read.await
    }

    /// Hands out the bytes of all leaves, one after the other.
    pub(crate) async fn each_leaf(
        mut self,
        mut leaf: impl FnMut(&PageRef, &[u8]) -> Result<(), Mismatch>,
    ) -> Result<(), Error> {
        while let Some(stretch) = self.in_flight.pop_front() {
            self.begin_some();
            stretch.each(self.handle, &mut leaf).await?;
        }
        Ok(())
    }
}
