//! What is missing in a guest that uses files: a sync of a file, or of a directory.
//!
//! A case keeps some of the steps that were pending when it was cut. What it lost is what a sync would have saved. So of each file or directory of which
//! steps were lost, or torn, a sync right after the last call that made such a step is tried, and after those before it. Where that helps, the first call is looked
//! for after which a sync still helps: it is the place at which the engine had to do it. Where none helps alone, the set of all is made as small as it
//! can be. Where that does not help either, all that each call changes is synced after each call, and then after as few calls as are
//! enough; if that does not help, no sync is missing.
//!
//! What helps is said with the place in the engine's own source: the case is run once more, and the call is noted with the functions that made it.

use std::collections::BTreeSet;

use kvsim_sim::{Cut, CutOp, Effort, Frame, Intervention, Place, StepOf, TraceEvent, TracedCall};
use kvsim_simdisk::{CrashKind, Sectors};

use super::conditions;
use super::search::Suspect;
use crate::fewer::fewer;
use kvsim_findings::blame::{Blame, Fix, Missing};

/// A sync that may be missing.
#[derive(Debug, Clone)]
struct Candidate {
    process_run: usize,
    /// The calls that made a step which was pending, in order.
    calls: Vec<u64>,
    /// Which of them made a step that was lost, or torn: places in `calls`.
    lost_at: Vec<usize>,
    /// Which of them the sync follows.
    at: usize,
    ino: u32,
    /// What was lost, in words.
    lost: Vec<String>,
    of_names: bool,
    path: String,
}

impl Candidate {
    fn call(&self) -> u64 {
        self.calls[self.at]
    }
}

/// A call that changes something, and that in words.
#[derive(Debug, Clone)]
struct Changing {
    process_run: usize,
    call: u64,
    what: String,
}

/// After so many of the calls that made what was lost of a file a sync is tried, the last ones.
const TRIED_MAX: usize = 8;

/// What is to blame.
pub(super) fn search(suspect: &mut Suspect<'_>, cuts: &[Cut]) -> Blame {
    let candidates = candidates(suspect, cuts);
    let mut blame = Blame::default();
    let mut helping: Vec<Candidate> = Vec::new();
    for candidate in &candidates {
        // What the last of them loses may be lost because the cut falls into it: then the sync is missing before that call.
        for &at in candidate.lost_at.iter().rev().take(TRIED_MAX) {
            let mut candidate = candidate.clone();
            candidate.at = at;
            if suspect.all_help_together(&[intervention(&candidate)]) {
                helping.push(earliest(suspect, &candidate, &[]));
                break;
            }
        }
    }
    if helping.is_empty() && candidates.len() > 1 {
        let mut all_help = |some: &[Candidate]| {
            let interventions: Vec<Intervention> = some.iter().map(intervention).collect();
            suspect.all_help_together(&interventions)
        };
        if all_help(&candidates) {
            helping = fewer(candidates, &mut all_help);
            for at in 0..helping.len() {
                let others = helping.iter().enumerate().filter(|(other, _)| *other != at);
                let others: Vec<Intervention> = others.map(|(_, it)| intervention(it)).collect();
                helping[at] = earliest(suspect, &helping[at], &others);
            }
            blame.together = helping.len() > 1;
        }
    }
    let calls = helping.iter().map(Candidate::call).collect();
    let places = suspect.places_of(&calls);
    let fixes = helping
        .iter()
        .map(|it| fix(suspect, it, places.get(&it.call())));
    blame.fixes = fixes.collect();
    if blame.fixes.is_empty() && !suspect.is_over() {
        sync_everything(suspect, &mut blame);
    }
    blame.tried = suspect.tried;
    // Calls in another order are not tried: if no sync helps, it is not known whether that would.
    blame.exhausted = suspect.is_over() || blame.fixes.is_empty();
    blame
}

/// The same sync after the first call after which it helps. A sync later in the row saves all that one before it saves, so halves are enough.
fn earliest(
    suspect: &mut Suspect<'_>,
    candidate: &Candidate,
    others: &[Intervention],
) -> Candidate {
    let (mut best, mut low) = (candidate.clone(), 0);
    while low < best.at {
        let mut earlier = best.clone();
        earlier.at = usize::midpoint(low, best.at);
        let mut interventions = others.to_vec();
        interventions.push(intervention(&earlier));
        if suspect.all_help_together(&interventions) {
            best = earlier;
        } else {
            low = earlier.at + 1;
        }
    }
    best
}

/// All that each call changes is synced after it, and then after as few calls as are enough.
fn sync_everything(suspect: &mut Suspect<'_>, blame: &mut Blame) {
    let all = changing_calls(suspect);
    let mut all_help = |some: &[Changing]| {
        let interventions: Vec<Intervention> = some.iter().map(after_change).collect();
        !some.is_empty() && suspect.all_help_together(&interventions)
    };
    if !all_help(&all) {
        if !suspect.is_over() {
            blame.no_sync_helps = true;
            blame.conditions = conditions::all(suspect, &[]);
        }
        return;
    }
    let few = fewer(all, &mut all_help);
    blame.together = few.len() > 1;
    let calls: BTreeSet<u64> = few.iter().map(|it| it.call).collect();
    let places = suspect.places_of(&calls);
    let fixes = few.iter().map(|changing| {
        let Changing {
            process_run,
            call,
            what,
        } = changing;
        let by = places.get(call).map(said).unwrap_or_default();
        let sentence = format!("a sync after call {call}{by} of what it changes: it {what}");
        let mut fix = suspect.fix(Missing::Sync, *process_run, &sentence);
        fix.after_call = Some(*call);
        fix
    });
    blame.fixes = fixes.collect();
}

/// The calls of the process runs up to the last cut that change something, in order: of the last one also those after its cut, as if it had gone on.
fn changing_calls(suspect: &Suspect<'_>) -> Vec<Changing> {
    let mut calls: Vec<Changing> = Vec::new();
    let mut process_run = 0;
    for record in suspect.whole.events() {
        match &record.event {
            TraceEvent::Open { process_run: run } => {
                process_run = usize::try_from(*run - 1).unwrap_or(usize::MAX);
            }
            TraceEvent::Step {
                op,
                kind: "step",
                what,
                ..
            } if calls.last().is_none_or(|it| it.call != *op) => calls.push(Changing {
                process_run,
                call: *op,
                what: what.clone(),
            }),
            _ => {}
        }
    }
    calls
}

fn after_change(changing: &Changing) -> Intervention {
    Intervention {
        process_run: changing.process_run as u64 + 1,
        place: Place::Called(changing.call),
        effort: Effort::SyncChanged,
    }
}

/// The syncs that would have saved what the cuts lost, those of the last cut first, there those of directories before those of files.
fn candidates(suspect: &Suspect<'_>, cuts: &[Cut]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    let process_runs = suspect.case.process_runs.iter().enumerate();
    let cut = process_runs.filter_map(|(at, process_run)| Some((at, process_run.crash.as_ref()?)));
    for ((process_run, crash), cut) in cut.zip(cuts) {
        if crash.kind == CrashKind::Process {
            continue;
        }
        for op in &cut.pending {
            let Some(step) = &op.step else { continue };
            add(&mut all, process_run, step, op);
        }
    }
    all.retain(|it| !it.lost.is_empty());
    all.sort_by_key(|it| (std::cmp::Reverse(it.process_run), !it.of_names));
    all
}

fn add(all: &mut Vec<Candidate>, process_run: usize, step: &StepOf, op: &CutOp) {
    let is_lost = !op.dropped && op.survived != Some(Sectors::All);
    let words = op.words.clone().filter(|_| is_lost);
    let same = |it: &&mut Candidate| it.process_run == process_run && it.ino == step.ino;
    match all.iter_mut().find(same) {
        Some(known) => {
            if known.calls.last() != Some(&step.call) {
                known.calls.push(step.call);
            }
            let at = known.calls.len() - 1;
            if is_lost && known.lost_at.last() != Some(&at) {
                known.lost_at.push(at);
                known.at = at;
            }
            known.lost.extend(words);
            if known.of_names {
                known.path.clone_from(&step.path);
            }
        }
        None => all.push(Candidate {
            process_run,
            calls: vec![step.call],
            lost_at: if is_lost { vec![0] } else { Vec::new() },
            at: 0,
            ino: step.ino,
            lost: words.into_iter().collect(),
            of_names: step.of_names,
            path: step.path.clone(),
        }),
    }
}

fn intervention(candidate: &Candidate) -> Intervention {
    Intervention {
        process_run: candidate.process_run as u64 + 1,
        place: Place::Called(candidate.call()),
        effort: Effort::Sync(candidate.ino),
    }
}

/// A sync, and what the crash lost for want of it: `a sync of the directory after call 7: …, and the crash lost this of it: created wal-2`.
fn fix(suspect: &Suspect<'_>, candidate: &Candidate, place: Option<&TracedCall>) -> Fix {
    const SAID_MAX: usize = 3;
    let what = if candidate.of_names {
        match candidate.path.rsplit_once('/') {
            Some((directory, _)) => format!("the directory {directory}"),
            None => "the directory".to_owned(),
        }
    } else {
        candidate.path.clone()
    };
    let mut lost: Vec<&str> = candidate.lost.iter().map(String::as_str).collect();
    lost.dedup();
    let more = lost.len().saturating_sub(SAID_MAX);
    lost.truncate(SAID_MAX);
    let mut lost = lost.join(", ");
    if more > 0 {
        lost = format!("{lost} and {more} more");
    }
    let sentence = format!(
        "a sync of {what} after call {}{}: nothing synced it by then, and the crash lost this of it: {lost}",
        candidate.call(),
        place.map(said).unwrap_or_default()
    );
    let mut fix = suspect.fix(Missing::Sync, candidate.process_run, &sentence);
    fix.after_call = Some(candidate.call());
    fix.file = Some(candidate.ino);
    fix
}

/// A call and the functions of the engine that made it, innermost first: those of a language's own library aside.
fn said(call: &TracedCall) -> String {
    match own_functions(&call.frames) {
        functions if functions.is_empty() => format!(" ({})", call.name),
        functions => format!(" ({} in {functions})", call.name),
    }
}

/// The functions of an engine among these, innermost first: `walSync at sqlite/sqlite3.c:1, in commit at …`. Those of a language's own library are left out;
/// nothing if there are no others.
#[must_use]
pub fn own_functions(frames: &[Frame]) -> String {
    const FRAMES_SAID: usize = 4;
    // C, Rust, Zig, Go.
    const OF_LIBRARIES: [&str; 13] = [
        "__",
        "std::",
        "core::",
        "alloc::",
        "std.",
        "fs.",
        "posix.",
        "syscall.",
        "os.",
        "io.",
        "internal/",
        "internal_",
        "runtime.",
    ];
    let is_library = |frame: &Frame| {
        let file = frame.file.as_deref().unwrap_or_default();
        let function = frame.function.trim_start_matches('<');
        file.contains("libc")
            || file.contains("/library/")
            || OF_LIBRARIES.iter().any(|it| function.starts_with(it))
    };
    let frames: Vec<String> = frames
        .iter()
        .filter(|it| !is_library(it))
        .take(FRAMES_SAID)
        .map(said_of)
        .collect();
    frames.join(", in ")
}

/// `unixDelete at sqlite/sqlite3.c:47498`: of the path of the file only the end, for the rest is of the machine that built the engine.
fn said_of(frame: &Frame) -> String {
    const PARTS_SAID: usize = 2;
    let mut frame = frame.clone();
    frame.file = frame.file.map(|file| {
        let parts: Vec<&str> = file.split('/').filter(|it| !it.is_empty()).collect();
        parts[parts.len().saturating_sub(PARTS_SAID)..].join("/")
    });
    frame.to_string()
}
