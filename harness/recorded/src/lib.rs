//! The native path, crashed: work on a real disk is recorded call by call, and the recording is crashed at every point.
//!
//! A power cut cannot be tried on the machine that runs the test, and killing a process shows only what the page cache
//! hides. So threads work on a real database, through the real driver, while `kvsim_native::record` notes every call to
//! the kernel and every acknowledgement. The recording is then replayed into the simulated device, which is as strict
//! as any. At each point, states are drawn that a power cut there could have left. The engine recovers from each, in
//! memory, and the oracle of `kvsim run` judges what it shows. The next session begins on the disk with one of those
//! states, so that the native recovery is recorded too.
//!
//! - [`session`]: threads and tasks at work on a real database, recorded
//! - [`replay`]: a recording, step by step, on the device and before the oracle
//! - [`recover`]: the engine on an image in memory
//! - [`judge`]: states at a point, judged on all cores
//! - [`take_out`]: the same recording with one flush or write-through left out, which has to be caught
//! - [`prove`]: all of that together; [`report`]: what came of it
//!
//! What a recording holds depends on the machine. Given a recording, what is judged depends on the seed alone.
//!
//! **A recording errs on the strict side.** A call is noted as begun before the kernel is told, and as ended after the
//! kernel has answered. A request is noted before the engine sees it, and as answered before its caller sees the
//! answer. So no crash that could happen is left out.

mod judge;
mod prove;
mod recover;
mod replay;
pub mod report;
mod session;
mod take_out;

pub use kvsim_native::DriverChoice;

pub use judge::{Found, Tally};
pub use prove::{Plan, Proof, Setting, Watch, prove};
pub use session::Calls;
pub use take_out::{Kind, TakenOut};
