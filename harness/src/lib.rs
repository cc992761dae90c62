//! Placeholder.

pub mod oracle;
pub mod value;
pub mod workload;
pub mod zipf;
