//! Reading leaves of runs that somebody has chosen, in their order, several reads in flight. Leaves that lie one behind the other are read in one go.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;

use crate::api::error::Error;
use crate::checkpoint::stretch::Stretch;
use crate::format::damage::Mismatch;
use crate::format::page::{Page, PageRef, Tree};
use crate::runtime::handle::Handle;

const READS_IN_FLIGHT_MAX: usize = 16;

/// Leaves that are still to be read. The first reads are under way from the beginning.
pub(crate) struct LeafReader<'a> {
    handle: &'a Handle,
    leaves: Peekable<std::vec::IntoIter<PageRef>>,
    in_flight: VecDeque<Source>,
    /// Whether leaves are kept in memory once they are read, and taken from there.
    keeps: bool,
}

/// Where leaves come from.
enum Source {
    Device(Stretch),
    Memory(PageRef, Arc<[u8]>),
}

impl<'a> LeafReader<'a> {
    pub(crate) fn new(handle: &'a Handle, leaves: Vec<PageRef>) -> LeafReader<'a> {
        LeafReader::start(handle, leaves, false)
    }

    /// Where leaves near these will be read again soon.
    pub(crate) fn keeping(handle: &'a Handle, leaves: Vec<PageRef>) -> LeafReader<'a> {
        LeafReader::start(handle, leaves, true)
    }

    fn start(handle: &'a Handle, leaves: Vec<PageRef>, keeps: bool) -> LeafReader<'a> {
        let mut reader = LeafReader {
            handle,
            leaves: leaves.into_iter().peekable(),
            in_flight: VecDeque::new(),
            keeps,
        };
        reader.begin_some();
        reader
    }

    fn begin_some(&mut self) {
        while self.in_flight.len() < READS_IN_FLIGHT_MAX
            && let Some(source) = self.next_source()
        {
            self.in_flight.push_back(source);
        }
    }

    fn next_source(&mut self) -> Option<Source> {
        if self.keeps
            && let Some(leaf) = self.leaves.peek()
            && let Some(bytes) = self.handle.with(|core| core.kept_leaf(leaf))
        {
            let leaf = self.leaves.next().expect("it was just seen");
            return Some(Source::Memory(leaf, bytes));
        }
        let mut stretch = Stretch::take(&mut self.leaves)?;
        self.handle.with(|core| core.stats.index_reads += 1);
        stretch.begin(self.handle);
        Some(Source::Device(stretch))
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
        while let Some(source) = self.in_flight.pop_front() {
            self.begin_some();
            let (handle, keeps) = (self.handle, self.keeps);
            match source {
                Source::Memory(reference, bytes) => {
                    leaf(&reference, &bytes).map_err(|it| it.at(reference.offset))?;
                }
                Source::Device(stretch) => {
                    let read = stretch.each(handle, |reference, bytes| {
                        leaf(reference, bytes)?;
                        if keeps {
                            handle.with(|core| core.keep_leaf(reference, bytes));
                        }
                        Ok(())
                    });
                    read.await?;
                }
            }
        }
        Ok(())
    }
}
