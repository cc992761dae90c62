//! Reading leaves of runs that somebody has chosen, in their order, several reads in flight.

use std::collections::VecDeque;

use crate::api::error::Error;
use crate::format::damage::Mismatch;
use crate::format::page::{Page, PageRef, Tree};
use crate::runtime::handle::{Handle, Io};

const READS_IN_FLIGHT_MAX: usize = 8;

/// Leaves that are still to be read. The first reads are under way from the beginning.
pub(crate) struct LeafReader<'a> {
    handle: &'a Handle,
    leaves: std::vec::IntoIter<PageRef>,
    in_flight: VecDeque<(PageRef, Io)>,
}

impl<'a> LeafReader<'a> {
    pub(crate) fn new(handle: &'a Handle, leaves: Vec<PageRef>) -> LeafReader<'a> {
        let mut reader = LeafReader {
            handle,
            leaves: leaves.into_iter(),
            in_flight: VecDeque::new(),
        };
        reader.begin_some();
        reader
    }

    fn begin_some(&mut self) {
        while self.in_flight.len() < READS_IN_FLIGHT_MAX
            && let Some(leaf) = self.leaves.next()
        {
            self.handle.with(|core| core.stats.index_reads += 1);
            let read = self.handle.read(leaf.offset, leaf.len.into());
            self.in_flight.push_back((leaf, read));
        }
    }

    /// Hands out the entries of all leaves, key and payload, one leaf after the other.
    pub(crate) async fn each(
        mut self,
        mut entry: impl FnMut(&PageRef, &[u8], &[u8]) -> Result<(), Mismatch>,
    ) -> Result<(), Error> {
        while let Some((leaf, read)) = self.in_flight.pop_front() {
            self.begin_some();
            let bytes = match read.await {
                Ok(bytes) => bytes.expect("a read brings its buffer"),
                Err(_) => {
                    let len = leaf.len.into();
                    self.handle.read_retry(leaf.offset, len).await?
                }
            };
            let id = self.handle.with(|core| core.id);
            let page = Page::decode(&id, Tree::Run, &leaf, &bytes);
            let result = page.and_then(|page| page.each(|key, payload| entry(&leaf, key, payload)));
            self.handle.give(bytes);
            result.map_err(|mismatch| mismatch.at(leaf.offset))?;
        }
        Ok(())
    }
}
