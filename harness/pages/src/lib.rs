//! Pages for a browser. It draws what was found and is known to nobody who finds it.
//!
//! - [`page`]: the one skeleton and style; [`page::chart`]: bars and curves
//! - [`report`]: runs, explorations and failures as pages
//!
//! **A page is made of the run.** [`page`] is the one skeleton, style and escape for all pages; no real time is on those of [`report`].

pub mod page;
#[cfg(any(test, feature = "parsed"))]
pub mod parsed;
pub mod report;
