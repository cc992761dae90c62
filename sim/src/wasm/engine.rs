//! How Wasmtime is set up: what modules may use, and how the memory of instances comes and goes.

use std::sync::OnceLock;

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::GuestError;

const WASM_STACK_BYTES: usize = 512 << 10;

/// How the memory of instances comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instances {
    /// Each is mapped anew. Any module will do.
    Fresh,
    /// They take turns in slots that stay mapped: between two of them only the pages that the first has changed are put back. For
    /// many short process runs. A module that does not fit a slot gets fresh ones.
    Reused,
}

/// Bytes of a slot that are put back by copying; what a guest has changed beyond is given back to the system.
const KEPT_BYTES: usize = 16 << 20;

fn configuration(instances: Instances) -> Config {
    let mut config = Config::new();
    config.consume_fuel(true);
    config.epoch_interruption(false);
    config.cranelift_nan_canonicalization(true);
    config.wasm_relaxed_simd(false);
    config.wasm_wide_arithmetic(true);
    config.wasm_memory64(false);
    config.wasm_multi_memory(false);
    config.wasm_tail_call(false);
    config.max_wasm_stack(WASM_STACK_BYTES);
    config.memory_init_cow(true);
    config.allocation_strategy(match instances {
        Instances::Fresh => InstanceAllocationStrategy::OnDemand,
        Instances::Reused => {
            let mut pool = PoolingAllocationConfig::default();
            pool.max_memory_size(4 << 30)
                .linear_memory_keep_resident(KEPT_BYTES)
                .table_keep_resident(KEPT_BYTES)
                .pagemap_scan(Enabled::Auto);
            InstanceAllocationStrategy::Pooling(pool)
        }
    });
    config
}

/// The one engine of this process for such instances.
pub(super) fn engine(instances: Instances) -> Result<&'static Engine, GuestError> {
    static FRESH: OnceLock<Result<Engine, String>> = OnceLock::new();
    static REUSED: OnceLock<Result<Engine, String>> = OnceLock::new();
    let engine = match instances {
        Instances::Fresh => &FRESH,
        Instances::Reused => &REUSED,
    };
    let made = engine.get_or_init(|| {
        Engine::new(&configuration(instances)).map_err(|error| format!("{error:#}"))
    });
    made.as_ref()
        .map_err(|error| GuestError::Host(error.clone()))
}
