//! Engines that use files beside persistence profiles: each engine on each profile is explored with the same requests, and what is found is made small,
//! blamed, and asked of the other profiles.
//!
//! - [`modules`]: which engines; `engines/board.toml` lists them
//! - [`judge`]: one cell
//! - [`cell`], [`class`]: what a cell says
//! - [`told`]: the findings of an engine, each once
//! - [`order`]: which profile is weaker than which
//! - [`documented`]: what an engine's own documentation says
//! - [`store`]: the folder; a finished cell is not run again
//! - [`board`], [`text`]: all of it, as JSON and as text
//!
//! Invariant: a cell depends on module, scenario, profile and version alone, except for its real time.

pub mod board;
pub mod cell;
pub mod class;
pub mod documented;
pub mod judge;
pub mod modules;
pub mod order;
pub mod store;
pub mod text;
pub mod told;
