//! A running instance: events in by the exports, operations and replies out by the imports.

use kvsim_simdisk::{DiskError, Excerpt, Nanos};
use wasmtime::{Instance, Memory, Store, TypedFunc, WasmParams, WasmResults};

use super::host::{self, HostState};
use crate::GuestError;
use crate::codec::{self, Expects};
use crate::guest::{Call, CallEnd, Guest, GuestLimits, Outbox};
use crate::stack::Stack;

/// What the opening and most requests fit in.
const PAYLOAD_BYTES: usize = 1024;

/// An instance in its store.
pub(super) struct WasmGuest {
    store: Store<HostState>,
    limits: GuestLimits,
    memory: Memory,
    instance: Instance,
    buffer: TypedFunc<i32, i32>,
    open: TypedFunc<(i64, i32, i32), i64>,
    request: TypedFunc<(i64, i64, i32, i32), i64>,
    complete: TypedFunc<(i64, i64, i32, i32), i64>,
    /// Looked up when it is first called: many lives end before.
    tick: Option<TypedFunc<i64, i64>>,
    /// Payloads are encoded here, and the allocation kept.
    payload: Vec<u8>,
}

fn export<P: WasmParams, R: WasmResults>(
    store: &mut Store<HostState>,
    instance: &Instance,
    name: &str,
) -> Result<TypedFunc<P, R>, GuestError> {
    instance
        .get_typed_func(store, name)
        .map_err(|_| GuestError::MissingExport(name.to_owned()))
}

/// Calls one of its functions.
fn run<P: WasmParams, R: WasmResults>(
    store: &mut Store<HostState>,
    limits: &GuestLimits,
    function: &TypedFunc<P, R>,
    params: P,
) -> Result<R, GuestError> {
    function
        .call(&mut *store, params)
        .map_err(|error| host::verdict(&error, store.data(), limits))
}

impl WasmGuest {
    pub(super) fn new(
        mut store: Store<HostState>,
        instance: &Instance,
        limits: GuestLimits,
    ) -> Result<Self, GuestError> {
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| GuestError::MissingExport("memory".to_owned()))?;
        store.data_mut().memory = Some(memory);
        Ok(WasmGuest {
            limits,
            memory,
            instance: *instance,
            buffer: export(&mut store, instance, "kv_buffer")?,
            open: export(&mut store, instance, "kv_open")?,
            request: export(&mut store, instance, "kv_request")?,
            complete: export(&mut store, instance, "kv_complete")?,
            tick: None,
            store,
            payload: Vec::with_capacity(PAYLOAD_BYTES),
        })
    }

    pub(super) fn abi_version(&mut self) -> Result<u32, GuestError> {
        let version = export(&mut self.store, &self.instance, "kv_abi_version")?;
        let version: i32 = run(&mut self.store, &self.limits, &version, ())?;
        Ok(version.cast_unsigned())
    }

    /// The text that a function without parameters points to: its address in the upper half, its length in the lower.
    pub(super) fn text(&mut self, name: &str) -> Result<String, GuestError> {
        let function = export(&mut self.store, &self.instance, name)?;
        let place: i64 = run(&mut self.store, &self.limits, &function, ())?;
        let place = place.cast_unsigned();
        let (start, len) = (place >> 32, place & u64::from(u32::MAX));
        let bytes = usize::try_from(start)
            .ok()
            .zip(usize::try_from(len).ok())
            .and_then(|(start, len)| self.memory.data(&self.store).get(start..start + len))
            .ok_or_else(|| {
                GuestError::Abi(format!(
                    "{name}: {len} bytes at {start} are outside its memory"
                ))
            })?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| GuestError::Abi(format!("{name}: a text is not UTF-8")))
    }

    /// Puts the payload into a buffer of the guest's and says where.
    fn place(&mut self) -> Result<(i32, i32), GuestError> {
        let len = i32::try_from(self.payload.len())
            .map_err(|_| GuestError::Host("a payload of 2 GiB".to_owned()))?;
        let ptr = run(&mut self.store, &self.limits, &self.buffer, len)?;
        if ptr == 0 {
            let what = format!("no buffer of {len} bytes");
            return Err(GuestError::OutOfMemory {
                limit_bytes: self.limits.memory_bytes_max,
                what,
                stack: Stack::default(),
            });
        }
        self.memory
            .write(&mut self.store, ptr.cast_unsigned() as usize, &self.payload)
            .map_err(|_| {
                GuestError::Abi(format!(
                    "kv_buffer: {len} bytes at {} are outside its memory",
                    ptr.cast_unsigned()
                ))
            })?;
        Ok((ptr, len))
    }

    fn completed(
        &mut self,
        tag: u64,
        result: Result<Option<&Excerpt>, DiskError>,
    ) -> Result<(i32, i32), GuestError> {
        let Some(buffer) = self.store.data_mut().tags.remove(&tag) else {
            return Err(GuestError::Host(format!(
                "a completion of tag {tag}, which is not in flight"
            )));
        };
        let status = match result {
            Ok(bytes) => {
                if let (Some((ptr, len)), Some(bytes)) = (buffer, bytes) {
                    assert_eq!(
                        bytes.len(),
                        len as usize,
                        "a read returns what was asked for"
                    );
                    let start = ptr as usize;
                    let buffer = self.memory.data_mut(&mut self.store);
                    let mut rest = buffer.get_mut(start..start + bytes.len()).ok_or_else(|| {
                        GuestError::Abi("its read buffer is outside its memory".to_owned())
                    })?;
                    for part in bytes.parts() {
                        let (place, after) = rest.split_at_mut(part.len());
                        place.copy_from_slice(part);
                        rest = after;
                    }
                }
                0
            }
            Err(DiskError::Read) => 1,
            Err(DiskError::Write) => 2,
            Err(DiskError::Flush) => 3,
            Err(DiskError::NoSpace) => 4,
        };
        let len = if status == 0 {
            buffer.map_or(0, |(_, len)| len.cast_signed())
        } else {
            0
        };
        Ok((status, len))
    }
}

impl Guest for WasmGuest {
    fn call(
        &mut self,
        now: Nanos,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<CallEnd, GuestError> {
        let fuel = self.limits.fuel_per_call;
        self.store
            .set_fuel(fuel)
            .map_err(|error| GuestError::Host(error.to_string()))?;
        self.store.data_mut().begin_call();
        std::mem::swap(&mut self.store.data_mut().out, out);
        let now = now.cast_signed();
        let ended = self.dispatch(now, call);
        std::mem::swap(&mut self.store.data_mut().out, out);
        let wish = ended?;
        let left = self
            .store
            .get_fuel()
            .map_err(|error| GuestError::Host(error.to_string()))?;
        Ok(CallEnd {
            fuel: fuel - left,
            elapsed_ns: 0,
            wake_at: u64::try_from(wish).ok(),
        })
    }

    fn reached(&self) -> &[u32] {
        &self.store.data().reached
    }
}

impl WasmGuest {
    fn dispatch(&mut self, now: i64, call: Call<'_>) -> Result<i64, GuestError> {
        match call {
            Call::Open(config) => {
                self.payload.clear();
                codec::encode_open(config, &mut self.payload);
                let (ptr, len) = self.place()?;
                self.store.data_mut().requests.insert(0, Expects::Nothing);
                let params = (now, ptr, len);
                run(&mut self.store, &self.limits, &self.open, params)
            }
            Call::Request { id, request } => {
                self.payload.clear();
                codec::encode_request(request, &mut self.payload);
                let (ptr, len) = self.place()?;
                self.store
                    .data_mut()
                    .requests
                    .insert(id, Expects::of(request));
                let params = (now, id.cast_signed(), ptr, len);
                run(&mut self.store, &self.limits, &self.request, params)
            }
            Call::Complete { tag, result } => {
                let (status, len) = self.completed(tag, result)?;
                let params = (now, tag.cast_signed(), status, len);
                run(&mut self.store, &self.limits, &self.complete, params)
            }
            Call::Tick => {
                let tick = match self.tick.take() {
                    Some(tick) => tick,
                    None => export(&mut self.store, &self.instance, "kv_tick")?,
                };
                let ended = run(&mut self.store, &self.limits, &tick, now);
                self.tick = Some(tick);
                ended
            }
        }
    }
}
