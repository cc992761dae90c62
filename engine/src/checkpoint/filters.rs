//! Writing the filter of a run behind its pages. So an opening need not read all entries to make filters anew.
//!
//! A filter is written only where it takes little beside its run, and there is room: a checkpoint that does not find enough writes everything anew without filters, for which there
//! always is. Of a run that has none on the device an opening reads the leaves.

use crate::checkpoint::leaves::Leaves;
use crate::checkpoint::pages::PageSink;
use crate::core::Core;
use crate::format::filter::{self, Filter};
use crate::format::page::PageRef;
use crate::index::weight::Weight;

/// A filter takes at most such a share of what its run takes.
const RUN_SHARE: u64 = 4;

/// Writes the filter of the run whose pages were placed last. `NONE`: it is not worth it. `None`: no segment is free.
pub(super) fn write(
    core: &mut Core,
    sink: &mut PageSink,
    leaves: &Leaves,
    weight: Weight,
) -> Option<PageRef> {
    let (geometry, entries) = (core.geometry, leaves.keys());
    let bytes = filter::bytes_of(entries, geometry.block_bytes);
    let is_large = bytes > geometry.segment_bytes || bytes * RUN_SHARE > sink.run_bytes();
    if !sink.takes_filters() || is_large {
        return Some(PageRef::NONE);
    }
    let offset = sink.place(core, bytes)?;
    let filter = Filter {
        entries,
        keys: weight.keys,
        pages_bytes: weight.pages_bytes,
        words: leaves.filter(),
    };
    let (bytes, reference) = filter.encode(&core.id, offset, geometry.block_bytes);
    sink.put(&bytes);
    Some(reference)
}
