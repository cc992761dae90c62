//! The engines that users would take instead, behind the interface of the benchmarks.
//!
//! Each is set up as its own documentation says for the durability that is asked for, and its configuration is printed beside its
//! figures. `full`: every commit is flushed to the device before it returns; `tests/flushes.rs` counts. `relaxed`: no flush for
//! each commit; what that means differs between engines and is in the configuration. `os` is `full` here: what `fsync` does is
//! what these engines ask for. Values are incompressible unless a scenario says otherwise, so compression is off where it is on
//! by default.
//!
//! Each engine has a feature of its own; those of the Go world, which run in a process of their own, have one together. `bundled`
//! has all that cargo builds alone, `all` has RocksDB too, which wants a library of the system.

#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "go")]
pub mod go;
#[cfg(feature = "lmdb")]
pub mod lmdb;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[cfg(feature = "sled")]
pub mod sled;
#[cfg(feature = "sqlite")]
pub mod sqlite;

mod common;

use kvsim_store::Engine;

/// All that were built.
#[must_use]
pub fn all() -> Vec<Box<dyn Engine>> {
    #[cfg_attr(not(feature = "go"), expect(unused_mut, reason = "Go's are added"))]
    let mut all: Vec<Box<dyn Engine>> = vec![
        #[cfg(feature = "rocksdb")]
        Box::new(rocksdb::RocksDb),
        #[cfg(feature = "fjall")]
        Box::new(fjall::Fjall),
        #[cfg(feature = "lmdb")]
        Box::new(lmdb::Lmdb),
        #[cfg(feature = "redb")]
        Box::new(redb::Redb),
        #[cfg(feature = "sled")]
        Box::new(sled::Sled),
        #[cfg(feature = "sqlite")]
        Box::new(sqlite::Sqlite),
    ];
    #[cfg(feature = "go")]
    all.extend(
        go::all()
            .into_iter()
            .map(|one| Box::new(one) as Box<dyn Engine>),
    );
    all
}
