//! What a message holds, decoded. The layouts are those of the guest ABI; all numbers are little-endian.

use crate::{Error, Result};

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When it survives a power cut.
    Durable,
    /// When it is accepted. Only if [`crate::Offers::relaxed`] is set.
    Relaxed,
}

/// One member of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// Sets a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// Takes a key away.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Change<'a> {
    /// The key, and the value unless it is a delete.
    #[must_use]
    pub fn parts(&self) -> (&'a [u8], Option<&'a [u8]>) {
        match *self {
            Change::Put { key, value } => (key, Some(value)),
            Change::Delete { key } => (key, None),
        }
    }
}

/// Which entries a scan asks for: `start <= key < end`, keys as unsigned bytes. Never empty by its bounds.
#[derive(Debug, Clone, Copy)]
pub struct Range<'a> {
    /// From this key; `None`: from the first.
    pub start: Option<&'a [u8]>,
    /// To below this key; `None`: to the last.
    pub end: Option<&'a [u8]>,
    /// From the last to the first.
    pub is_reverse: bool,
}

impl<'a> Range<'a> {
    /// The bounds as the standard library has them.
    #[must_use]
    pub fn bounds(&self) -> (std::ops::Bound<&'a [u8]>, std::ops::Bound<&'a [u8]>) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        (self.start.map_or(Unbounded, Included), self.end.map_or(Unbounded, Excluded))
    }
}

/// The lines `name=value` of the scenario's `[guest.options]`.
#[derive(Debug, Clone, Default)]
pub struct Options(pub Vec<(String, String)>);

impl Options {
    /// An error that names the option.
    #[must_use]
    pub fn unknown(name: &str) -> Error {
        Error::invalid(format_args!("the option `{name}` is unknown"))
    }

    /// For an engine without options.
    ///
    /// # Errors
    /// There is one.
    pub fn none(&self) -> Result<()> {
        match self.0.first() {
            Some((name, _)) => Err(Options::unknown(name)),
            None => Ok(()),
        }
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(text).map_err(|_| Error::invalid("options are UTF-8"))?;
        let pairs = text.lines().map(|line| {
            let (name, value) =
                line.split_once('=').ok_or_else(|| Error::invalid(format_args!("the option `{line}` is no `name=value`")))?;
            Ok((name.to_owned(), value.to_owned()))
        });
        pairs.collect::<Result<Vec<_>>>().map(Options)
    }
}

/// The rest of a message; takes numbers and bytes from its beginning.
pub(crate) struct Payload<'a>(pub(crate) &'a [u8]);

impl<'a> Payload<'a> {
    /// The host sends whole messages only, so a short one is a defect of the transport.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        assert!(length <= self.0.len(), "kvsim adapter: a message is too short");
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.bytes(1)[0]
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().expect("four bytes"))
    }

    pub(crate) fn length(&mut self) -> usize {
        self.u32() as usize
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().expect("eight bytes"))
    }
}
