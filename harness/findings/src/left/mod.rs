//! The files as a crash left them, written into a real directory; what a guest answers that is started on them, as text and as JSON.

mod directory;
mod json;

use std::fmt::Write as _;

use kvsim_api::units::thousands;
use kvsim_drive::case::{Answer, Left, Question};
use kvsim_drive::timeline::words;
use kvsim_fs::FileKind;
use kvsim_sim::api::Body;
use kvsim_simdisk::CrashKind;

pub use directory::{is_new_or_empty, write_files};
pub use json::{Document, document};

/// Which crash it was.
#[must_use]
pub fn crash(left: &Left) -> String {
    let kind = match left.kind {
        CrashKind::Power => "a power cut",
        CrashKind::Process => "a killed process",
    };
    let event = thousands(left.after_event);
    format!(
        "{kind} after event {event} of process run {}",
        left.process_run
    )
}

/// What was written and what was answered, for people.
#[must_use]
pub fn text(left: &Left, directory: &str) -> String {
    let listed = left.files.list();
    let mut text = format!("wrote into {directory} what {} left\n", crash(left));
    for file in &listed {
        let name = String::from_utf8_lossy(&file.path);
        let what = match file.kind {
            FileKind::File => format!("{} bytes", thousands(file.size)),
            FileKind::Directory => "a directory".to_owned(),
            FileKind::Symlink => "a symbolic link".to_owned(),
        };
        let _ = writeln!(text, "  {name:<40} {what}");
    }
    if listed.is_empty() {
        text.push_str("  nothing: there are no files\n");
    }
    text.push_str("asked of these files in the simulator\n");
    for question in &left.questions {
        let _ = writeln!(text, "  {:<40} {}", asked(question), answered(question));
    }
    text
}

/// A question in words.
fn asked(question: &Question) -> String {
    question
        .request
        .as_ref()
        .map_or_else(|| "open".to_owned(), words::request)
}

/// An answer in words.
fn answered(question: &Question) -> String {
    match &question.answer {
        Answer::Failed(what) => what.clone(),
        Answer::Reply(reply) => words::answered(reply),
    }
}

/// What a body holds as bytes: a value, or entries.
fn entries(body: &Body) -> Option<Vec<(&[u8], &[u8])>> {
    match body {
        Body::Entries { entries, .. } => Some(
            entries
                .iter()
                .map(|(key, value)| (key.as_slice(), value.as_slice()))
                .collect(),
        ),
        _ => None,
    }
}
