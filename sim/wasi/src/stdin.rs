//! How a command is given messages and gives answers: its standard input and output, each message with its length before it.

use std::sync::{Arc, Mutex, PoisonError};

/// What passes between the host and a command. Both hold it; only one of them runs at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mailbox(Arc<Mutex<Passing>>);

/// What passes.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// What the command has not read yet.
    input: Vec<u8>,
    /// How much of it is read.
    read: usize,
    /// No message will follow.
    pub(crate) ended: bool,
    /// What the command has written.
    pub(crate) output: Vec<u8>,
    /// It waits for input that is not there.
    pub(crate) waits: bool,
}

/// An answer longer than that is refused.
const ANSWER_BYTES_MAX: usize = 64 << 20;

impl Mailbox {
    fn with<R>(&self, does: impl FnOnce(&mut Passing) -> R) -> R {
        does(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands in a message, its length before it.
    pub(crate) fn send(&self, message: &[u8]) {
        self.with(|it| {
            it.input.drain(..it.read);
            it.read = 0;
            let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
            it.input.extend_from_slice(&len.to_le_bytes());
            it.input.extend_from_slice(message);
            it.waits = false;
        });
    }

    /// Bytes of the input, at most `len`; nothing while there are none and more may come.
    pub(crate) fn read(&self, len: usize) -> Option<Vec<u8>> {
        self.with(|it| {
            let rest = &it.input[it.read..];
            if rest.is_empty() && !it.ended && len > 0 {
                it.waits = true;
                return None;
            }
            let bytes = rest[..len.min(rest.len())].to_vec();
            it.read += bytes.len();
            Some(bytes)
        })
    }

    /// Whether a read would give something at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.with(|it| it.read < it.input.len() || it.ended)
    }

    /// Bytes that the command writes; false if they are too many.
    pub(crate) fn write(&self, bytes: &[u8]) -> bool {
        self.with(|it| {
            it.output.extend_from_slice(bytes);
            it.output.len() <= ANSWER_BYTES_MAX
        })
    }

    /// The answer, if it is whole; or what is wrong with what is there.
    pub(crate) fn take_answer(&self) -> Result<Option<Vec<u8>>, String> {
        self.with(|it| {
            let Some((head, rest)) = it.output.split_first_chunk::<4>() else {
                return Ok(None);
            };
            let len = u32::from_le_bytes(*head) as usize;
            if len > ANSWER_BYTES_MAX {
                return Err(format!("an answer of {len} bytes; at most {ANSWER_BYTES_MAX} are taken"));
            }
            if rest.len() > len {
                let more = rest.len() - len;
                return Err(format!("{more} bytes on standard output beyond the answer"));
            }
            if rest.len() < len {
                return Ok(None);
            }
            let answer = rest.to_vec();
            it.output.clear();
            Ok(Some(answer))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a command may read in any pieces. Method: a message read byte by byte, then nothing until the next.
    #[test]
    fn messages_are_read_in_any_pieces() {
        let mailbox = Mailbox::default();
        mailbox.send(b"ab");
        let mut read = Vec::new();
        while let Some(byte) = mailbox.read(1) {
            read.extend(byte);
        }
        assert_eq!(read, b"\x02\0\0\0ab");
        assert!(!mailbox.is_ready());
        mailbox.send(b"c");
        assert_eq!(mailbox.read(100), Some(b"\x01\0\0\0c".to_vec()));
    }

    /// Goal: an answer is taken when it is whole, and nothing may follow it. Method: in two pieces, then with a byte too many.
    #[test]
    fn an_answer_is_whole_and_alone() {
        let mailbox = Mailbox::default();
        mailbox.write(b"\x02\0\0\0a");
        assert_eq!(mailbox.take_answer(), Ok(None));
        mailbox.write(b"b");
        assert_eq!(mailbox.take_answer(), Ok(Some(b"ab".to_vec())));
        mailbox.write(b"\x01\0\0\0ab");
        mailbox.take_answer().expect_err("a byte too many");
    }
}
