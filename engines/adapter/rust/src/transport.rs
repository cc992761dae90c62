//! How messages come and answers go.

use std::io::{ErrorKind, Read as _, Write as _};

use crate::{Engine, Server};

/// The directory that kvsim opens for the engine.
const DIRECTORY: &str = "/db";

/// What the exports of a reactor use; see [`crate::export_engine`].
pub struct Reactor<E> {
    server: Option<Server<E>>,
    message: Vec<u8>,
    answer: Vec<u8>,
}

impl<E: Engine> Default for Reactor<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Engine> Reactor<E> {
    /// Before the first message.
    #[must_use]
    pub const fn new() -> Self {
        Reactor { server: None, message: Vec::new(), answer: Vec::new() }
    }

    /// Where the next message of `length` bytes goes; valid until the next call.
    pub fn buffer(&mut self, length: usize) -> *mut u8 {
        self.message.clear();
        self.message.resize(length.max(1), 0);
        self.message.as_mut_ptr()
    }

    /// Answers the message in the buffer: address and length, valid until the next call.
    ///
    /// # Panics
    /// The message is longer than the buffer, or the engine panics.
    pub fn answer(&mut self, length: usize) -> (*const u8, usize) {
        let server = self.server.get_or_insert_with(|| Server::new(DIRECTORY));
        self.answer = server.answer(&self.message[..length]);
        (self.answer.as_ptr(), self.answer.len())
    }
}

/// Answers messages from stdin on stdout until stdin ends: each is a `u32` length, then the bytes. The database is in `/db`, or in the directory
/// that the program's first argument names, which a native program is given.
///
/// # Panics
/// Stdin ends within a message, stdout takes no more, or the engine panics.
pub fn serve_stdio<E: Engine>() {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| DIRECTORY.into());
    let mut server = Server::<E>::new(directory);
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    loop {
        let mut length = [0; 4];
        match input.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return,
            read => read.expect("stdin can be read"),
        }
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        input.read_exact(&mut message).expect("a message is whole");
        let answer = server.answer(&message);
        let length = u32::try_from(answer.len()).expect("below 4 GiB");
        let written = output.write_all(&length.to_le_bytes()).and_then(|()| output.write_all(&answer)).and_then(|()| output.flush());
        written.expect("stdout takes the answer");
    }
}

/// Makes a reactor of a type with the trait [`Engine`]: the exports `kv_buffer` and `kv_message` of a `cdylib`.
#[macro_export]
macro_rules! export_engine {
    ($engine:ty) => {
        thread_local! {
            static REACTOR: std::cell::RefCell<$crate::Reactor<$engine>> = const { std::cell::RefCell::new($crate::Reactor::new()) };
        }

        /// The address of at least `length` bytes for the next message.
        #[no_mangle]
        pub extern "C" fn kv_buffer(length: u32) -> *mut u8 {
            REACTOR.with(|reactor| reactor.borrow_mut().buffer(length as usize))
        }

        /// Answers the message in the buffer; the answer's address in the upper 32 bits, its length in the lower.
        #[no_mangle]
        pub extern "C" fn kv_message(length: u32) -> u64 {
            REACTOR.with(|reactor| {
                let (address, length) = reactor.borrow_mut().answer(length as usize);
                (address as u64) << 32 | length as u64
            })
        }
    };
}
