//! Each function of preview 1, called by a small guest: what it answers, and what the file system holds after it.

mod descriptors;
mod mapped;
mod paths;
mod process;

use kvsim_fs::{FileConfig, FileSystem};
use kvsim_sim::GuestLimits;
use wasmtime::{Engine, Instance, Module, Store, Val};

use crate::calls::CallTrace;
use crate::clock::Clock;
use crate::host::{Begin, Host};
use crate::imports::{Form, check, linker};
use crate::table::Table;

/// The functions of preview 1 with their parameters, `i` for `i32` and `l` for `i64`, from its witx file.
pub(super) const FUNCTIONS: [(&str, &str); 46] = [
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "ili"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("fd_advise", "illi"),
    ("fd_allocate", "ill"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "ill"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "il"),
    ("fd_filestat_set_times", "illi"),
    ("fd_pread", "iiili"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_prestat_get", "ii"),
    ("fd_pwrite", "iiili"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiili"),
    ("fd_renumber", "ii"),
    ("fd_seek", "ilii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiilli"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiillii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// A guest that exports each function as it imports it.
pub(super) fn guest() -> String {
    let (mut imports, mut exports) = (String::new(), String::new());
    let own =
        [("map", "ilii"), ("unmap", "ii")].map(|(name, parameters)| ("kvsim", name, parameters));
    let preview1 = FUNCTIONS.map(|(name, parameters)| ("wasi_snapshot_preview1", name, parameters));
    for (module, name, parameters) in preview1.into_iter().chain(own) {
        let types: Vec<&str> = parameters
            .chars()
            .map(|it| if it == 'l' { "i64" } else { "i32" })
            .collect();
        let types = types.join(" ");
        let result = if name == "proc_exit" {
            ""
        } else {
            "(result i32)"
        };
        imports +=
            &format!("(import \"{module}\" \"{name}\" (func ${name} (param {types}) {result}))\n");
        let gets: String = (0..parameters.len())
            .map(|at| format!("local.get {at} "))
            .collect();
        exports +=
            &format!("(func (export \"{name}\") (param {types}) {result} {gets} call ${name})\n");
    }
    format!("(module {imports} (memory (export \"memory\") 4) {exports})")
}

/// Where tests put paths, buffers and results in the guest's memory.
pub(super) const PATH: i32 = 1_024;
pub(super) const OTHER_PATH: i32 = 2_048;
pub(super) const BUFFER: i32 = 8_192;
pub(super) const VECTORS: i32 = 4_096;
pub(super) const RESULT: i32 = 512;
/// Error numbers of preview 1.
pub(super) mod error {
    pub(crate) const BADF: i32 = 8;
    pub(crate) const EXIST: i32 = 20;
    pub(crate) const FAULT: i32 = 21;
    pub(crate) const ILSEQ: i32 = 25;
    pub(crate) const INVAL: i32 = 28;
    pub(crate) const ISDIR: i32 = 31;
    pub(crate) const LOOP: i32 = 32;
    pub(crate) const MFILE: i32 = 33;
    pub(crate) const NAMETOOLONG: i32 = 37;
    pub(crate) const NOENT: i32 = 44;
    pub(crate) const NOTDIR: i32 = 54;
    pub(crate) const NOTEMPTY: i32 = 55;
    pub(crate) const NOTSOCK: i32 = 57;
    pub(crate) const SPIPE: i32 = 70;
    pub(crate) const NOTCAPABLE: i32 = 76;
}
pub(super) const READ: i64 = 1 << 1;
pub(super) const WRITE: i64 = 1 << 6;
pub(super) const CREATE: i32 = 1;
pub(super) const DB: i32 = 3;

/// An instance of the guest on a file system of its own.
pub(super) struct Machine {
    pub(super) store: Store<Host>,
    instance: Instance,
}

/// An argument of a call.
pub(super) trait Argument {
    fn value(self) -> Val;
}

impl Argument for i32 {
    fn value(self) -> Val {
        Val::I32(self)
    }
}

impl Argument for i64 {
    fn value(self) -> Val {
        Val::I64(self)
    }
}

/// Calls a function with arguments of either type; the error number that it gives.
macro_rules! call {
    ($machine:expr, $name:ident $(, $argument:expr)* $(,)?) => {
        $machine.call(stringify!($name), &[$($crate::preview1::tests::Argument::value($argument)),*])
    };
}
pub(super) use call;

impl Machine {
    pub(super) fn new() -> Machine {
        Machine::on(FileSystem::new(&FileConfig::default(), 7).expect("the default is possible"))
    }

    pub(super) fn on(mut files: FileSystem) -> Machine {
        files.note_moments(true);
        let engine = Engine::new(wasmtime::Config::new().consume_fuel(true)).expect("an engine");
        let module = Module::new(&engine, wat::parse_str(guest()).expect("it is right"))
            .expect("it compiles");
        let limits = GuestLimits {
            memory_bytes_max: 1 << 20,
            fuel_per_call: 1 << 40,
            events_per_answer: 1,
            idle_ns_per_answer: 1,
        };
        let mut store = Store::new(
            &engine,
            Host::new(Begin {
                name: "tester".to_owned(),
                limits,
                files,
                table: Table::new(),
                clock: Clock::new(0, 0),
                seed: 1,
                line: None,
                trace: CallTrace::default(),
            }),
        );
        store.set_fuel(1 << 40).expect("fuel is on");
        let linker = linker(&engine, Form::Reactor).expect("it links");
        check(&module, &linker, &mut store)
            .expect("every function of preview 1 is there with its type");
        let instance = linker.instantiate(&mut store, &module).expect("it starts");
        store.data_mut().memory = instance.get_memory(&mut store, "memory");
        store.data_mut().begin_call();
        Machine { store, instance }
    }

    pub(super) fn try_call(
        &mut self,
        name: &str,
        arguments: &[Val],
    ) -> Result<i32, wasmtime::Error> {
        let function = self
            .instance
            .get_func(&mut self.store, name)
            .expect("it is exported");
        let mut results = [Val::I32(-1)];
        function.call(&mut self.store, arguments, &mut results)?;
        Ok(results[0].unwrap_i32())
    }

    /// The one function without a result.
    pub(super) fn exit(&mut self, code: i32) -> Result<(), wasmtime::Error> {
        let function = self
            .instance
            .get_func(&mut self.store, "proc_exit")
            .expect("it is exported");
        function.call(&mut self.store, &[Val::I32(code)], &mut [])
    }

    pub(super) fn call(&mut self, name: &str, arguments: &[Val]) -> i32 {
        self.try_call(name, arguments).expect("the call returns")
    }

    pub(super) fn put(&mut self, address: i32, bytes: &[u8]) -> i32 {
        let memory = self.store.data().memory.expect("there is one");
        memory
            .write(&mut self.store, address as usize, bytes)
            .expect("it fits");
        i32::try_from(bytes.len()).expect("short")
    }

    pub(super) fn get(&mut self, address: i32, len: usize) -> Vec<u8> {
        let memory = self.store.data().memory.expect("there is one");
        memory.data(&self.store)[address as usize..][..len].to_vec()
    }

    pub(super) fn u32_at(&mut self, address: i32) -> u32 {
        u32::from_le_bytes(self.get(address, 4).try_into().expect("four bytes"))
    }

    pub(super) fn u64_at(&mut self, address: i32) -> u64 {
        u64::from_le_bytes(self.get(address, 8).try_into().expect("eight bytes"))
    }

    /// Opens a path below `/db`.
    pub(super) fn open(&mut self, path: &str, flags: i32, rights: i64) -> Result<i32, i32> {
        self.open_with(path, flags, rights, 0)
    }

    pub(super) fn open_with(
        &mut self,
        path: &str,
        flags: i32,
        rights: i64,
        fdflags: i32,
    ) -> Result<i32, i32> {
        let len = self.put(PATH, path.as_bytes());
        match call!(
            self, path_open, DB, 1, PATH, len, flags, rights, 0_i64, fdflags, RESULT
        ) {
            0 => Ok(self.u32_at(RESULT).cast_signed()),
            error => Err(error),
        }
    }

    /// A file for reading and writing that is made if it is not there.
    pub(super) fn create(&mut self, path: &str) -> i32 {
        self.open(path, CREATE, READ | WRITE)
            .expect("it can be made")
    }

    fn vector(&mut self, address: i32, len: usize) {
        let len = u32::try_from(len).expect("short");
        let mut vector = address.to_le_bytes().to_vec();
        vector.extend(len.to_le_bytes());
        self.put(VECTORS, &vector);
    }

    pub(super) fn write(&mut self, fd: i32, bytes: &[u8]) -> Result<u32, i32> {
        self.put(BUFFER, bytes);
        self.vector(BUFFER, bytes.len());
        match call!(self, fd_write, fd, VECTORS, 1, RESULT) {
            0 => Ok(self.u32_at(RESULT)),
            error => Err(error),
        }
    }

    pub(super) fn write_at(&mut self, fd: i32, bytes: &[u8], offset: i64) -> Result<u32, i32> {
        self.put(BUFFER, bytes);
        self.vector(BUFFER, bytes.len());
        match call!(self, fd_pwrite, fd, VECTORS, 1, offset, RESULT) {
            0 => Ok(self.u32_at(RESULT)),
            error => Err(error),
        }
    }

    pub(super) fn read(&mut self, fd: i32, len: usize) -> Result<Vec<u8>, i32> {
        self.vector(BUFFER, len);
        match call!(self, fd_read, fd, VECTORS, 1, RESULT) {
            0 => {
                let read = self.u32_at(RESULT) as usize;
                Ok(self.get(BUFFER, read))
            }
            error => Err(error),
        }
    }

    pub(super) fn read_at(&mut self, fd: i32, len: usize, offset: i64) -> Result<Vec<u8>, i32> {
        self.vector(BUFFER, len);
        match call!(self, fd_pread, fd, VECTORS, 1, offset, RESULT) {
            0 => {
                let read = self.u32_at(RESULT) as usize;
                Ok(self.get(BUFFER, read))
            }
            error => Err(error),
        }
    }

    /// A call that takes a path below `/db` and nothing else.
    pub(super) fn on_path(&mut self, name: &str, path: &str) -> i32 {
        let len = self.put(PATH, path.as_bytes());
        self.call(name, &[Val::I32(DB), Val::I32(PATH), Val::I32(len)])
    }

    /// Kind, links and size of a path.
    pub(super) fn stat(&mut self, path: &str, follow: i32) -> Result<(u8, u64, u64), i32> {
        let len = self.put(PATH, path.as_bytes());
        match call!(self, path_filestat_get, DB, follow, PATH, len, RESULT) {
            0 => Ok((
                self.get(RESULT + 16, 1)[0],
                self.u64_at(RESULT + 24),
                self.u64_at(RESULT + 32),
            )),
            error => Err(error),
        }
    }

    /// The log lines so far.
    pub(super) fn logged(&mut self) -> Vec<String> {
        let out = self.store.data().out.iter();
        let lines = out.filter_map(|item| match item {
            kvsim_sim::OutItem::Log { text, .. } => Some(text.clone()),
            _ => None,
        });
        lines.collect()
    }

    /// How many steps the file system has made so far.
    pub(super) fn steps(&mut self) -> usize {
        self.store.data_mut().take_steps();
        let out = self.store.data().out.iter();
        out.filter(|item| matches!(item, kvsim_sim::OutItem::Step(_)))
            .count()
    }
}
