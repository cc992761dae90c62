//! Every shipped scenario loads and ends as it says.

fn main() {}
