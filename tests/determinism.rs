//! The same seed gives the same trace, whatever runs it.

fn main() {}
