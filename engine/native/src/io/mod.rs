//! The file or device, what it promises, and the drivers that carry operations to it.

#[cfg(target_vendor = "apple")]
pub(crate) mod apple;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod image;
