//! A score for kvsim that it was not tuned for: the engine's source is edited in one place at a time, and the shipped
//! scenarios are run on each edited engine.
//!
//! One build per edit would take days. So all edits go into one module, each behind a switch that a guest option sets:
//!
//! - [`find`] parses a source file and lists its [`mutation`]s; [`values`] knows what replaces what;
//! - [`schemata`] writes the source with a switch at each of them;
//! - [`scratch`] makes a copy of the engine from such sources, and [`compile`] builds it, without those edits that do not compile;
//! - [`plan`] names the scenarios, [`hunt`] runs them on one mutation, [`coverage`] says which of them execute its line;
//! - [`results`] keeps a line per mutation, [`known`] has the reasons of the edits that survive, and [`page`] writes the score.
//!
//! Invariant: with no switch set, the module does what the engine does; only its fuel differs.

pub mod compile;
pub mod coverage;
pub mod find;
pub mod hunt;
pub mod known;
pub mod mutation;
pub mod page;
pub mod plan;
pub mod results;
pub mod schemata;
pub mod scratch;
pub mod values;
