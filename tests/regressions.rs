//! Failing cases that were found once, run again.

fn main() {}
