//! Parts of the Wasmtime host that a second kind of host shares: compiled modules, bounds on memory, stacks, payloads.

pub use crate::codec::{Expects, decode_body, decode_status, encode_request};
pub use crate::wasm::backtrace::readable;
pub use crate::wasm::cache::compiled;
pub use crate::wasm::limiter::Limiter;
pub use crate::wasm::{first_line, read as read_module};
