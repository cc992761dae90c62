//! What is missing in a guest that uses files: a sync of a file, or of a directory.
//!
//! A case keeps some of the steps that were pending when it was cut. What it lost is what a sync would have saved: of each file or directory of which
//! steps were lost, or torn, a sync right after the last call that made one of them is tried by itself, and where none helps alone, the set of all is
//! made as small as it can be. What helps is said with the place in the engine's own source: the case is run once more, and the call is noted with
//! the functions that made it.

use kvsim_sim::{Cut, CutOp, Effort, Frame, Intervention, Place, StepOf, TracedCall};
use kvsim_simdisk::{CrashKind, Sectors};

use super::search::Suspect;
use crate::fewer::fewer;
use kvsim_findings::blame::{Blame, Fix, Missing};

/// A sync that may be missing.
#[derive(Debug, Clone)]
struct Candidate {
    process_run: usize,
    /// The last call that made a step which was lost.
    call: u64,
    ino: u32,
    /// What was lost, in words.
    lost: Vec<String>,
    of_names: bool,
    path: String,
}

/// What is to blame.
pub(super) fn search(suspect: &mut Suspect<'_>, cuts: &[Cut]) -> Blame {
    let candidates = candidates(suspect, cuts);
    let mut blame = Blame::default();
    let mut helping: Vec<Candidate> = Vec::new();
    for candidate in &candidates {
        if suspect.all_help_together(&[intervention(candidate)]) {
            helping.push(candidate.clone());
        }
    }
    if helping.is_empty() && candidates.len() > 1 {
        let mut all_help = |some: &[Candidate]| {
            let interventions: Vec<Intervention> = some.iter().map(intervention).collect();
            suspect.all_help_together(&interventions)
        };
        if all_help(&candidates) {
            helping = fewer(candidates, &mut all_help);
            blame.together = helping.len() > 1;
        }
    }
    let calls = helping.iter().map(|it| it.call).collect();
    let places = suspect.places_of(&calls);
    let fixes = helping
        .iter()
        .map(|it| fix(suspect, it, places.get(&it.call)));
    blame.fixes = fixes.collect();
    blame.tried = suspect.tried;
    // Answers that come too early, and calls in another order, are not tried: if no sync helps, nothing is known.
    blame.exhausted = suspect.is_over() || blame.fixes.is_empty();
    blame
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
        let is_lost = |op: &&CutOp| !op.dropped && op.survived != Some(Sectors::All);
        for op in cut.pending.iter().filter(is_lost) {
            let Some(step) = &op.step else { continue };
            let words = op.words.clone().unwrap_or_default();
            add(&mut all, process_run, step, words);
        }
    }
    all.sort_by_key(|it| (std::cmp::Reverse(it.process_run), !it.of_names));
    all
}

fn add(all: &mut Vec<Candidate>, process_run: usize, step: &StepOf, words: String) {
    let same = |it: &&mut Candidate| it.process_run == process_run && it.ino == step.ino;
    match all.iter_mut().find(same) {
        Some(known) => {
            known.call = known.call.max(step.call);
            known.lost.push(words);
            if known.of_names {
                known.path.clone_from(&step.path);
            }
        }
        None => all.push(Candidate {
            process_run,
            call: step.call,
            ino: step.ino,
            lost: vec![words],
            of_names: step.of_names,
            path: step.path.clone(),
        }),
    }
}

fn intervention(candidate: &Candidate) -> Intervention {
    Intervention {
        process_run: candidate.process_run as u64 + 1,
        place: Place::Called(candidate.call),
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
        candidate.call,
        place.map(said).unwrap_or_default()
    );
    suspect.fix(Missing::Sync, candidate.process_run, &sentence)
}

/// A call and the functions of the engine that made it, innermost first: those of a language's own library aside.
fn said(call: &TracedCall) -> String {
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
    let frames: Vec<String> = call
        .frames
        .iter()
        .filter(|it| !is_library(it))
        .take(FRAMES_SAID)
        .map(said_of)
        .collect();
    if frames.is_empty() {
        return format!(" ({})", call.name);
    }
    format!(" ({} in {})", call.name, frames.join(", in "))
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
