//! Standard output and standard error: results there, everything else here; a reader that went away is no error.

pub(crate) mod junit;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod trace;

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use kvsim_harness::summary::text::Colour;
use serde::Serialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exit::Exit;

/// Whether a result was asked for and could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a result. When the reader is gone (`kvsim … | head`), nothing is printed. When the result cannot be written
/// (a full disk), that is reported once, and [`lost`] says so.
pub(crate) fn print(text: &str) {
    let mut out = stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        complain(&format!("error: cannot write the results: {error}"));
    }
}

/// Prints results as one JSON document; how the program ends then.
pub(crate) fn print_json(document: &impl Serialize, exit: Exit) -> Exit {
    match serde_json::to_string_pretty(document) {
        Ok(document) => {
            print(&format!("{document}\n"));
            exit
        }
        Err(error) => {
            complain(&format!(
                "internal error: cannot write the results as JSON: {error}"
            ));
            exit.and(Exit::Internal)
        }
    }
}

/// How a program ends that had nothing else to regret.
pub(crate) fn lost() -> Exit {
    if LOST.load(Ordering::Relaxed) {
        Exit::Internal
    } else {
        Exit::Clean
    }
}

/// Prints what a person must know and a program that reads results must not.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

/// Whether results may be coloured.
pub(crate) fn colour() -> Colour {
    let wanted =
        stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { Colour::On } else { Colour::Off }
}

/// Sends the log to standard error: `KVSIM_LOG` is a filter as of `tracing`, `-v` a shorthand.
pub(crate) fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let wanted = std::env::var("KVSIM_LOG").unwrap_or_default();
    let filter = match wanted.parse::<Targets>() {
        _ if wanted.is_empty() => Targets::new().with_default(level),
        Ok(filter) => filter,
        Err(error) => {
            complain(&format!(
                "warning: KVSIM_LOG is no filter and is left aside: {error}"
            ));
            Targets::new().with_default(level)
        }
    };
    let coloured =
        stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(coloured)
        // It would be told on standard error, which may be what nobody reads any more.
        .log_internal_errors(false)
        .without_time();
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
}
