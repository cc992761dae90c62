//! Files that people name: read whole, and never for ever.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// No scenario is longer.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// The text in a file of at most `bytes_max`. A device such as `/dev/zero` never ends; reading it stops there.
///
/// # Errors
/// The file cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("it is longer than {} MiB", bytes_max >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what does not end is refused, and so is what is one byte too long. Method: a device, and a file at the bound.
    #[test]
    fn reading_ends() {
        let error = read_text(Path::new("/dev/zero"), 1 << 20).expect_err("it never ends");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("four");
        std::fs::write(&path, "four").expect("it can be written");
        assert_eq!(read_text(&path, 4).expect("it fits"), "four");
        assert!(read_text(&path, 3).is_err());
        std::fs::write(&path, [0xff]).expect("it can be written");
        let error = read_text(&path, 4).expect_err("it is no text");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
