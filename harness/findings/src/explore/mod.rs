//! What an exploration found.

mod counts;
pub mod json;
mod merge;
mod report;
pub mod text;

pub use counts::{ErrorCounts, WorkErrorCounts};
pub use merge::merge;
pub use report::{ExploreReport, LeftOutCounts, Level, PointCount};
