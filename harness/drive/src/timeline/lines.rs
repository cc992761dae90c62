//! The lines of `--trace`: every event, and under it every fault that it brought.
//!
//! Invariant: faults are no events. They follow from the seed, and the hash of a trace is over events alone.

use kvsim_sim::{Trace, TraceEvent};
use kvsim_simdisk::Sectors;

use super::words;

/// Every event of a trace that was kept, in order, each followed by the faults that fired with it: one for the operation that it submits, one for each
/// operation that a cut loses or tears.
pub(crate) fn lines(trace: &Trace) -> Vec<String> {
    let notes = trace.notes();
    let mut faults = notes.faults.iter().peekable();
    let mut cuts = notes.cuts.iter().peekable();
    let mut lines = Vec::new();
    for record in trace.events() {
        lines.push(record.to_string());
        let head = record.head();
        while let Some(fired) = faults.next_if(|fired| fired.event <= record.number) {
            let (op, what) = (fired.fault.op(), words::strike(&fired.fault));
            lines.push(format!("{head}fault     op {op}: {what}"));
        }
        if !matches!(record.event, TraceEvent::Crash(_)) {
            continue;
        }
        let Some(cut) = cuts.next() else { continue };
        for op in &cut.pending {
            if op.survived != Some(Sectors::All) {
                let (what, fate) = (words::operation(op), words::fate(op, cut.sector_bytes));
                lines.push(format!("{head}fault     op {}, {what}: {fate}", op.op));
            }
        }
    }
    lines
}
