//! The Wasmtime host: a module of the guest ABI, checked, compiled once and kept on disk, started many times.
//!
//! Determinism: fuel and never epochs; NaNs canonical; no threads, shared memory or relaxed SIMD; memory bounded by the
//! scenario. A failed growth within that bound is the host's failure and makes the run invalid.

pub(crate) mod backtrace;
pub(crate) mod cache;
mod engine;
mod host;
mod instance;
pub(crate) mod limiter;
mod load;
mod program;

pub use backtrace::first_line;
pub use engine::Instances;
pub use program::{WasmProgram, read};
