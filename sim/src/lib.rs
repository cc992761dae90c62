//! The simulated world around a storage engine: virtual time, the sandbox, crash and restart, the trace.
//!
//! Modelled: one guest on one processor, clients' requests arriving, a device completing, wake-ups; and the end of all that at
//! any point between two events. Invariants:
//! - one event a step; the order of events depends on virtual time and order of creation alone;
//! - a guest can do only what the ABI has, and whatever else it tries is a [`GuestError`] that names it;
//! - every event enters the trace hash, which depends on seed, configuration and guest and on nothing of the host.

pub mod abi;
pub mod api;
mod codec;
mod error;
mod fault;
mod guest;
mod intervention;
mod killed;
mod notes;
mod offers;
mod places;
mod policies;
pub mod sandbox;
mod stack;
mod steps;
mod storage;
mod trace;
mod wasm;
mod world;

pub use codec::ABI_VERSION;
pub use error::{GuestError, WorldError};
pub use fault::{StorageFault, split_script};
pub use guest::{
    Call, CallEnd, DeviceInfo, Guest, GuestHash, GuestLimits, LogLevel, Needs, OpenConfig, OutItem,
    Outbox, Program,
};
pub use intervention::{Effort, Intervention, Place};
pub use notes::{Asked, Cut, CutOp, FiredFault, Notes, StepOf};
pub use offers::{Offers, Order};
pub use places::{Frame, TracedCall};
pub use policies::{
    CommitOrder, FullTakes, GuestPolicies, ReadsSee, RecoverySurvives, RelaxedWindow, StatedNumber,
};
pub use stack::{Stack, Trapped};
pub use steps::step_words;
pub use storage::Storage;
pub use trace::{Trace, TraceEvent, TraceHash, TraceMode, TraceRecord, first_difference};
pub use wasm::{Instances, WasmProgram};
pub use world::{Moment, Step, World, WorldConfig};
