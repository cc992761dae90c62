//! Segments: what each is used for, large values in extents, how much space there is, and growth of the device.

pub(crate) mod extent;
pub(crate) mod extent_state;
pub(crate) mod grow;
pub(crate) mod passes;
pub(crate) mod space;
pub(crate) mod unproven;
pub(crate) mod usage;
