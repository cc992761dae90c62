//! A storage engine that uses files, behind kvsim's messages.
//!
//! An engine is a type with the trait [`Engine`]. [`export_engine!`] makes a module of it:
//!
//! - a *reactor*, as a `cdylib` for `wasm32-wasip1`: `kv_buffer` and `kv_message` are its exports. The quicker one;
//! - a *command*, as a program whose `main` calls [`serve_stdio`]: messages on stdin, answers on stdout.
//!
//! The adapter decodes each message, checks what the contract asks of every engine (lengths of keys, unknown snapshots, requests after a
//! close), calls the engine, and encodes the answer. A panic is written to stderr and ends the process run; kvsim shows what was written.
#![warn(missing_docs)]

mod answer;
mod error;
mod payload;
mod server;
mod transport;

pub use answer::Page;
pub use error::{Error, Result, Status};
pub use payload::{Change, Durability, Options, Range};
pub use server::Server;
pub use transport::{serve_stdio, Reactor};

use std::path::Path;

/// What survives a crash, of the writes that were not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A prefix of the order in which the writes were handed in.
    Prefix,
    /// Each write stands for itself.
    Each,
}

/// What an engine is, offers and promises. What is not offered is not asked.
#[derive(Debug, Clone)]
pub struct Offers {
    /// Name and version.
    pub engine: String,
    /// For people: what was set.
    pub settings: String,
    /// [`Engine::batch`] is there.
    pub batch: bool,
    /// [`Engine::scan`] is there.
    pub scan: bool,
    /// A scan may go from the last key to the first.
    pub reverse_scan: bool,
    /// [`Engine::snapshot`] is there.
    pub snapshot: bool,
    /// A write may ask to be answered when it is accepted.
    pub relaxed: bool,
    /// [`Engine::sync`] is there.
    pub sync: bool,
    /// What survives.
    pub order: Order,
    /// A longer key is answered `Invalid`. Bytes.
    pub max_key_bytes: usize,
    /// A longer value is answered `Invalid`. Bytes.
    pub max_value_bytes: usize,
    /// Other policies of the guest ABI: name and value.
    pub policies: Vec<(&'static str, String)>,
}

impl Offers {
    /// Puts, deletes and gets alone; set what else there is.
    #[must_use]
    pub fn new(engine: impl Into<String>, settings: impl Into<String>) -> Self {
        Offers {
            engine: engine.into(),
            settings: settings.into(),
            batch: false,
            scan: false,
            reverse_scan: false,
            snapshot: false,
            relaxed: false,
            sync: false,
            order: Order::Prefix,
            max_key_bytes: 1024,
            max_value_bytes: 65536,
            policies: Vec::new(),
        }
    }
}

/// What can be read: the newest state, or a snapshot.
pub trait Read {
    /// The value of a key.
    ///
    /// # Errors
    /// What the engine says.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Gives the entries of `range` to the page, in the range's direction, until [`Page::add`] returns false.
    ///
    /// # Errors
    /// What the engine says.
    fn scan(&self, _range: &Range, _page: &mut Page) -> Result<()> {
        Err(Error::not_offered("scan"))
    }
}

/// A storage engine. A method that [`Engine::offers`] does not name is not called.
pub trait Engine: Read + Sized + 'static {
    /// What the engine is and offers. Asked before the opening too.
    fn offers() -> Offers;

    /// Opens the database below `directory`, or creates one. An unknown option is [`Options::unknown`].
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn open(directory: &Path, options: &Options) -> Result<Self>;

    /// Sets a key.
    ///
    /// # Errors
    /// What the engine says; see [`Status`] for what each status means.
    fn put(&mut self, key: &[u8], value: &[u8], durability: Durability) -> Result<()>;

    /// Takes a key away. It is no error if it is not there.
    ///
    /// # Errors
    /// What the engine says.
    fn delete(&mut self, key: &[u8], durability: Durability) -> Result<()>;

    /// All of the changes or none; the last change of a key counts.
    ///
    /// # Errors
    /// What the engine says.
    fn batch(&mut self, _changes: &[Change], _durability: Durability) -> Result<()> {
        Err(Error::not_offered("batch"))
    }

    /// The present state, which stays readable until it is dropped.
    ///
    /// # Errors
    /// What the engine says.
    fn snapshot(&mut self) -> Result<Box<dyn Read>> {
        Err(Error::not_offered("snapshot"))
    }

    /// Makes durable all that was accepted.
    ///
    /// # Errors
    /// What the engine says.
    fn sync(&mut self) -> Result<()> {
        Err(Error::not_offered("sync"))
    }

    /// Makes all durable and ends.
    ///
    /// # Errors
    /// What the engine says.
    fn close(self) -> Result<()>;

    /// Lets work in the background go on.
    fn idle(&mut self) {}
}
