//! What the judge accepts and what it refuses, on small histories that are written out, and on random ones beside a model.
#![allow(missing_docs, reason = "a test")]

mod any_random;
mod barrier;
mod cases;
mod excuses;
mod legal;
mod places;
mod policies;
mod random;
mod relaxed;
mod returned;
mod support;
mod truth;
