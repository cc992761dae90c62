//! The engines that users would take instead, behind the interface of the benchmarks.
//!
//! Each is set up as its own documentation says for the durability that is asked for, and its configuration is printed beside its
//! figures. `full`: every commit is flushed to the device before it returns. `relaxed`: no flush for each commit; what that means
//! differs between engines and is in the configuration.

mod fjall;
mod lmdb;
mod redb;
mod sqlite;

use kvsim_store::{Engine, StoreError};

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(fjall::Fjall),
        Box::new(lmdb::Lmdb),
        Box::new(redb::Redb),
        Box::new(sqlite::Sqlite),
    ]
}

fn failed(engine: &'static str) -> impl Fn(&dyn std::fmt::Display) -> StoreError {
    move |what| StoreError {
        engine,
        what: what.to_string(),
    }
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}
