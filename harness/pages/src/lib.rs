//! Pages for a browser. It draws what was found and is known to nobody who finds it.
//!
//! - [`page`]: the one skeleton and style; [`page::chart`]: bars and curves
//! - [`report`]: runs, explorations and failures as pages

pub mod page;
#[cfg(any(test, feature = "parsed"))]
pub mod parsed;
pub mod report;
