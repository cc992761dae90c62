//! Tests of the engine on a small deterministic device. One binary: to build one for each file took nine times as long.
#![allow(clippy::cast_possible_truncation, reason = "test sizes are small")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failing seed has to be told"
)]

mod common;

mod absorb;
mod behaviour;
mod changes;
mod counting;
mod crash;
mod durable_mark;
mod filters;
mod gc;
mod little_index;
mod live_records;
mod load_behind;
mod log_free;
mod opening;
mod promise;
mod scans;
mod space;
mod tail_rewrite;
mod unreadable;
