//! The guest ABI for those who write a guest: every name and number of it, in a file for each language.
//!
//! Invariant: the numbers are those of this crate; the tests here hold them to the codec.

/// `kvsim.h`
pub const C: &str = include_str!("../abi/kvsim.h");
/// `kvsim.rs`
pub const RUST: &str = include_str!("../abi/kvsim.rs");
/// `kvsim.zig`
pub const ZIG: &str = include_str!("../abi/kvsim.zig");

#[cfg(test)]
mod tests;
