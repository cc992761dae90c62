//! The image of a reactor after its `_initialize`: its memory and globals, as a module of its own.
//!
//! A process run that starts from the image does what one does that runs `_initialize` on an empty file system with seed 0. It saves the time of
//! that: the start of Go's runtime takes longer than most recoveries.
//!
//! Wizer (the crate `wasmtime-wizer`) writes the module: the same code, with data and globals as they are after `_initialize`. It refuses modules
//! that could change what an image cannot hold, such as tables; these run `_initialize` in every process run.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wasmtime::{Instance, Store, Val};
use wasmtime_wizer::{InstanceState, ModuleContext, SnapshotVal, ValType, Wizer};

use crate::host::Host;

/// The export that a reactor is initialised by.
pub(crate) const INITIALIZE: &str = "_initialize";

/// A module that is ready to be run once and kept as an image.
pub(crate) struct Instrumented<'a> {
    wizer: Wizer,
    context: ModuleContext<'a>,
    /// The module to run: it exports its globals and memories.
    pub(crate) module: Vec<u8>,
}

/// Prepares a module.
///
/// # Errors
/// Why no image of it can be kept.
pub(crate) fn instrument(bytes: &[u8]) -> Result<Instrumented<'_>, String> {
    let mut wizer = Wizer::new();
    wizer.init_func(INITIALIZE);
    let (context, module) = wizer
        .instrument(bytes)
        .map_err(|error| kvsim_sim::sandbox::first_line(&error))?;
    Ok(Instrumented {
        wizer,
        context,
        module,
    })
}

impl Instrumented<'_> {
    /// The module of this instance as it is now.
    pub(crate) fn image(&self, store: &mut Store<Host>, instance: Instance) -> Result<Vec<u8>, String> {
        let mut state = State { store, instance };
        let snapshot = pin!(self.wizer.snapshot(&self.context, &mut state));
        // Nothing in it waits: its future is for stores whose calls do.
        match snapshot.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(image) => image.map_err(|error| kvsim_sim::sandbox::first_line(&error)),
            Poll::Pending => Err("the image was not taken at once".to_owned()),
        }
    }
}

struct State<'a> {
    store: &'a mut Store<Host>,
    instance: Instance,
}

impl InstanceState for State<'_> {
    async fn global_get(&mut self, name: &str, _type: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut *self.store, name);
        let global = global.expect("the instrumented module exports it");
        match global.get(&mut *self.store) {
            Val::I32(value) => SnapshotVal::I32(value),
            Val::I64(value) => SnapshotVal::I64(value),
            Val::F32(value) => SnapshotVal::F32(value),
            Val::F64(value) => SnapshotVal::F64(value),
            Val::V128(value) => SnapshotVal::V128(value.as_u128()),
            other => unreachable!("Wizer refuses mutable globals such as {other:?}"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut *self.store, name);
        let memory = memory.expect("the instrumented module exports it");
        contents(memory.data(&*self.store));
    }
}
