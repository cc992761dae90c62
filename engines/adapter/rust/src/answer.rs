//! The page of a scan.

/// Takes the entries of a scan up to its limits.
#[derive(Debug)]
pub struct Page {
    limit: u32,
    max_bytes: u64,
    count: u32,
    bytes: u64,
    is_full: bool,
    entries: Vec<u8>,
}

impl Page {
    pub(crate) fn new(limit: u32, max_bytes: u32) -> Self {
        Page { limit, max_bytes: max_bytes.into(), count: 0, bytes: 0, is_full: false, entries: Vec::new() }
    }

    /// The next entry of the scan. False: the page is full, and the engine ends its scan.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.bytes += (key.len() + value.len()) as u64;
        if self.count > 0 && (self.count >= self.limit || self.bytes > self.max_bytes) {
            self.is_full = true;
            return false;
        }
        self.count += 1;
        for length in [key.len(), value.len()] {
            let length = u32::try_from(length).expect("below 4 GiB");
            self.entries.extend_from_slice(&length.to_le_bytes());
        }
        self.entries.extend_from_slice(key);
        self.entries.extend_from_slice(value);
        true
    }

    pub(crate) fn body(self) -> Vec<u8> {
        let mut body = self.count.to_le_bytes().to_vec();
        body.extend_from_slice(&[u8::from(self.is_full), 0, 0, 0]);
        body.extend(self.entries);
        body
    }
}
