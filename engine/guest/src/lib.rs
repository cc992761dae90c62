//! The engine behind the guest ABI of kvsim, version 1: this crate only translates.
//!
//! For a host target it is empty: the ABI exists only in a sandbox. `abi` holds the exports and `imports` the imports, with all
//! that is unsafe about them; `guest` holds the one engine of the instance, and `port` is what that reaches the host by; `payload` parses
//! what the host hands in. `options` says whether the engine is used as the library uses it too: `outside`, `keys_first` and `ahead`.

#[cfg(target_family = "wasm")]
mod abi;
#[cfg(target_family = "wasm")]
mod ahead;
#[cfg(target_family = "wasm")]
mod call;
#[cfg(target_family = "wasm")]
mod guest;
#[cfg(target_family = "wasm")]
mod imports;
#[cfg(target_family = "wasm")]
mod keys_first;
#[cfg(any(target_family = "wasm", test))]
#[cfg_attr(
    test,
    expect(dead_code, reason = "on a host only the parsing is tested")
)]
mod options;
#[cfg(target_family = "wasm")]
mod outside;
#[cfg(any(target_family = "wasm", test))]
#[cfg_attr(
    test,
    expect(dead_code, reason = "on a host only the parsing is tested")
)]
mod payload;
#[cfg(target_family = "wasm")]
mod port;

/// The heap begins in the memory that the module has from its start, so that a short process run never asks its host for more.
#[cfg(target_family = "wasm")]
#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
