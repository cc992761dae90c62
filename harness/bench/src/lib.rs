//! Benchmarks: the workload of a scenario on a real disk, on our engine and on those that its users would take instead.
//!
//! - [`store`]: what is measured, behind one interface; [`native`] is ours, [`slots`] a file with no engine, for comparison
//! - [`stream`]: what clients do, drawn beforehand so that drawing costs nothing while the clock runs
//! - [`load`]: clients, closed loop or open loop, threads or tasks
//! - [`counters`]: what the process and the device say that was written; [`amplification`]: that beside the engine's own word
//! - [`rounds`]: warm-up, rounds that alternate between the engines, medians with their spread
//! - [`serve`]: the process that each engine has for itself; [`openings`]: what an opening after a crash takes
//! - [`report`]: the table; [`json`]: the same for programs; [`html`]: the same as a page; [`export`]: as CSV and Markdown
//! - [`calibrate`]: a disk and its machine as a profile for the simulator; [`predict`]: what it says of a workload, by clients
//!   ([`play`]) on the processors of [`host`]
//!
//! Clocks and threads live here; nothing here reaches the simulation.

pub mod amplification;
pub mod calibrate;
mod contender;
pub mod counters;
pub mod export;
pub mod host;
pub mod html;
pub mod json;
pub mod load;
pub mod native;
mod numbers;
pub mod openings;
pub mod play;
pub mod predict;
pub mod report;
pub mod rounds;
pub mod serve;
pub mod slots;
pub mod store;
pub mod stream;
