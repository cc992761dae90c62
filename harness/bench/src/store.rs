//! What is measured: one engine behind an interface that costs next to nothing. It has a crate of its own, so that the peers
//! are built without the simulator.

pub use kvsim_store::{Durability, Engine, Settings, Store, StoreError, Writing};
