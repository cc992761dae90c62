//! What a failure that is no matter of order takes: a torn write, or a recovery that is cut short.

use kvsim_sim::{Trace, TraceEvent};
use kvsim_simdisk::{CrashKind, OpId, Sectors};

use super::search::Suspect;
use kvsim_api::units::thousands;
use kvsim_scenario::case::Case;

/// A read of a process run.
pub(super) struct Read {
    /// The process run, from 1.
    run: u64,
    op: OpId,
    offset: u64,
    len_bytes: u64,
}

/// All reads of a case, in order.
pub(super) fn reads(trace: &Trace) -> Vec<Read> {
    let (mut run, mut reads) = (0, Vec::new());
    for record in trace.events() {
        match record.event {
            TraceEvent::Open { .. } => run += 1,
            TraceEvent::Submit {
                op,
                kind: "read",
                offset,
                len_bytes,
                ..
            } => reads.push(Read {
                run,
                op,
                offset,
                len_bytes,
            }),
            _ => {}
        }
    }
    reads
}

/// What has to be so for the case to fail, in words; nothing if none of it matters.
pub(super) fn all(suspect: &mut Suspect<'_>, reads: &[Read]) -> Vec<String> {
    let mut conditions = Vec::new();
    for process_run in 0..=suspect.last {
        for (op, sectors) in torn(suspect.case, process_run) {
            let mut whole = suspect.case.clone();
            let mut lost = suspect.case.clone();
            if let (Some(whole), Some(lost)) = (
                whole.process_runs[process_run].crash.as_mut(),
                lost.process_runs[process_run].crash.as_mut(),
            ) {
                for persisted_write in &mut whole.persisted {
                    if persisted_write.id == op {
                        persisted_write.sectors = Sectors::All;
                    }
                }
                lost.persisted
                    .retain(|persisted_write| persisted_write.id != op);
            }
            if suspect.is_over() || suspect.fails(&whole) || suspect.fails(&lost) {
                continue;
            }
            let write = suspect.timeline.operation(op);
            let mut sentence = format!("{write} is not torn ({sectors})");
            let met = suspect.timeline.range(op).and_then(|(offset, len_bytes)| {
                let later = reads
                    .iter()
                    .filter(|read| read.run > process_run as u64 + 1);
                let mut over = later.filter(|read| {
                    read.offset < offset + len_bytes && offset < read.offset + read.len_bytes
                });
                over.next()
            });
            if let Some(read) = met {
                sentence.push_str(&format!(
                    ", which operation {} meets, a read of {} bytes at offset {} in process run {}",
                    read.op,
                    thousands(read.len_bytes),
                    thousands(read.offset),
                    read.run
                ));
            }
            conditions.push(sentence);
        }
    }
    for process_run in 1..=suspect.last {
        let run = &suspect.case.process_runs[process_run];
        let is_recovery = run.requests.is_empty() && run.close_after_event.is_none();
        if !is_recovery || suspect.is_over() {
            continue;
        }
        let mut without = suspect.case.clone();
        without.process_runs.remove(process_run);
        if !suspect.fails(&without) {
            let how = match run.crash.as_ref().map(|crash| crash.kind) {
                Some(CrashKind::Process) => "killed",
                _ => "cut short by a power cut",
            };
            let number = process_run + 1;
            conditions.push(format!("the recovery of process run {number} is not {how}"));
        }
    }
    conditions
}

/// The torn writes of a cut, and what is left of each.
fn torn(case: &Case, process_run: usize) -> Vec<(OpId, String)> {
    let persisted = case.process_runs[process_run]
        .crash
        .iter()
        .flat_map(|it| &it.persisted);
    let torn = persisted.filter_map(|persisted_write| match &persisted_write.sectors {
        Sectors::All => None,
        Sectors::Torn {
            kept,
            garbage,
            torn_at,
            unreadable,
        } => {
            let numbers: Vec<String> = kept.iter().map(u64::to_string).collect();
            let mut what = match numbers.len() {
                0 => "no sector of it is new".to_owned(),
                1 => format!("only its sector {} is new", numbers[0]),
                _ => format!("only its sectors {} are new", numbers.join(", ")),
            };
            if let Some((sector, _)) = garbage {
                what.push_str(&format!(", sector {sector} is garbage"));
            }
            if let Some(sector) = unreadable {
                what.push_str(&format!(", sector {sector} cannot be read"));
            }
            if let Some((sector, byte)) = torn_at {
                what.push_str(&format!(", sector {sector} is new up to byte {byte}"));
            }
            Some((persisted_write.id, what))
        }
    });
    torn.collect()
}
