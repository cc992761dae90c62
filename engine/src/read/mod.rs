//! Reads: single values and scans, from memory, the cache or the device.

pub(crate) mod blind;
pub(crate) mod cache;
mod chosen;
pub(crate) mod find;
mod for_write;
pub(crate) mod join;
pub(crate) mod kept_leaves;
pub(crate) mod lookup;
pub(crate) mod outside;
mod outside_values;
mod pieces;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod scan_runs;
pub(crate) mod state;
pub(crate) mod subtract;
pub(crate) mod value;
pub(crate) mod waiting;
pub(crate) mod window;
