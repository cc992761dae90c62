//! What whoever writes a guest of their own needs.
//!
//! - [`templates`]: engines to begin with, in Rust, C and Zig
//! - [`conformance`]: the rules of the guest ABI, one after the other, before anything is crashed
//! - [`suite`]: these rules, and four scenarios, in one table

pub mod conformance;
pub mod suite;
pub mod templates;
