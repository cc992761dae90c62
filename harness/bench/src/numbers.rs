//! Counts and times as floating-point numbers and back, for figures and fits.

/// A count or a time; what is beyond 2⁵³ is rounded.
#[expect(clippy::cast_precision_loss, reason = "figures, not counting")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

/// The nearest whole number; 0 for what is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and rounded on purpose"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}
