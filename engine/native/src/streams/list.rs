//! Lists of streams.

use super::handle::{StreamInfo, Streams};
use super::layout::Header;
use crate::api::error::Failure;
use crate::api::key_range::KeyRange;
use crate::database::range::{OwnedEntry, Range};

/// A stream in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its key.
    pub key: Box<[u8]>,
    /// What is known of it.
    pub info: StreamInfo,
}

/// The streams of a range of keys as they were at one moment, from both ends, without what they hold. Made by [`Streams::list`].
///
/// A header that cannot be read is an error that names its key; after that the list goes on, if the database can.
#[derive(Debug, Clone)]
pub struct StreamList {
    streams: Streams,
    headers: Range,
}

impl StreamList {
    pub(super) fn new(streams: &Streams, range: &impl KeyRange) -> Result<StreamList, Failure> {
        Ok(StreamList {
            headers: streams.database.range(streams.layout.headers(range))?,
            streams: streams.clone(),
        })
    }

    fn entry(&self, entry: Result<OwnedEntry, Failure>) -> Result<StreamEntry, Failure> {
        let OwnedEntry { key, value } = entry?;
        let key = self.streams.layout.stream_of(&key);
        let info = Header::parse(key, &value)?.into();
        let key = key.into();
        Ok(StreamEntry { key, info })
    }
}

impl Iterator for StreamList {
    type Item = Result<StreamEntry, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.headers.next()?;
        Some(self.entry(entry))
    }
}

impl DoubleEndedIterator for StreamList {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.headers.next_back()?;
        Some(self.entry(entry))
    }
}

impl std::iter::FusedIterator for StreamList {}
