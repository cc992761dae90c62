//! The configurations of Wasmtime for file engines.
//!
//! Determinism: fuel and never epochs; NaNs canonical; no threads, shared memory or relaxed SIMD; memory bounded by the limits.

use std::sync::OnceLock;

use kvsim_sim::GuestError;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails};

/// What instances are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A few process runs: each instance is mapped anew.
    Few,
    /// Many short process runs: instances take turns in slots that stay mapped, and only changed pages are put back.
    Many,
    /// A replay whose calls are traced: source files and lines are read from the module's debug information.
    Traced,
}

/// The host's stack for a call. Foreign engines recurse more than ours: a parser of SQL, a garbage collector.
const STACK_BYTES: usize = 1 << 20;

/// Bytes of a slot that are put back by copying; what a guest has changed beyond is given back to the system.
const KEPT_BYTES: usize = 16 << 20;

/// Elements of a table in a slot. A table holds each function whose address is taken; those of a large Go program are tens of thousands.
const TABLE_ELEMENTS: usize = 1 << 18;

fn configuration(purpose: Purpose) -> Config {
    let mut config = Config::new();
    config.consume_fuel(true);
    config.epoch_interruption(false);
    config.cranelift_nan_canonicalization(true);
    config.wasm_relaxed_simd(false);
    config.wasm_wide_arithmetic(true);
    config.wasm_memory64(false);
    config.wasm_multi_memory(false);
    config.max_wasm_stack(STACK_BYTES);
    config.async_stack_size(STACK_BYTES + (1 << 20));
    config.memory_init_cow(true);
    if purpose == Purpose::Traced {
        config.wasm_backtrace_details(WasmBacktraceDetails::Enable);
    }
    config.allocation_strategy(match purpose {
        Purpose::Few | Purpose::Traced => InstanceAllocationStrategy::OnDemand,
        Purpose::Many => {
            let mut pool = PoolingAllocationConfig::default();
            pool.max_memory_size(4 << 30)
                .linear_memory_keep_resident(KEPT_BYTES)
                .table_elements(TABLE_ELEMENTS)
                .table_keep_resident(KEPT_BYTES)
                .max_core_instance_size(16 << 20)
                .pagemap_scan(Enabled::Auto);
            InstanceAllocationStrategy::Pooling(pool)
        }
    });
    config
}

/// The engine for this purpose, one in the whole process.
pub(crate) fn engine(purpose: Purpose) -> Result<&'static Engine, GuestError> {
    static FEW: OnceLock<Result<Engine, String>> = OnceLock::new();
    static MANY: OnceLock<Result<Engine, String>> = OnceLock::new();
    static TRACED: OnceLock<Result<Engine, String>> = OnceLock::new();
    let engine = match purpose {
        Purpose::Few => &FEW,
        Purpose::Many => &MANY,
        Purpose::Traced => &TRACED,
    };
    let made = engine.get_or_init(|| {
        Engine::new(&configuration(purpose)).map_err(|error| format!("{error:#}"))
    });
    made.as_ref()
        .map_err(|error| GuestError::Host(error.clone()))
}
