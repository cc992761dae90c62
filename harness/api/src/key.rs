//! A key as a person is shown it.

use crate::units::thousands;

/// Bytes of a key that a person is shown.
const SHOWN_BYTES_MAX: usize = 40;

/// A key for a person, in quotes: `""` if it is empty; what cannot be printed is escaped, and of a long one the beginning is shown.
#[must_use]
pub fn printable(key: &[u8]) -> String {
    let mut shown = String::from('"');
    for chunk in key[..key.len().min(SHOWN_BYTES_MAX)].utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => shown.extend(['\\', c]),
                '\0' => shown.push_str("\\0"),
                c if c.is_control() => shown.extend(c.escape_default()),
                c => shown.push(c),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown.push('"');
    if key.len() > SHOWN_BYTES_MAX {
        shown.push_str(&format!("… of {} bytes", thousands(key.len() as u64)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    /// Goal: a person can read any key, and tell where it begins and ends. Method: none, words, quotes, what cannot be printed, and too much.
    #[test]
    fn every_key_can_be_read() {
        assert_eq!(printable(b""), "\"\"");
        assert_eq!(printable(b"user 7"), "\"user 7\"");
        assert_eq!(printable(b"a\"b\\"), "\"a\\\"b\\\\\"");
        assert_eq!(printable("ä".as_bytes()), "\"ä\"");
        assert_eq!(printable(b"\0\n\xff"), "\"\\0\\n\\xff\"");
        let long = printable(&[b'k'; 1_500]);
        assert_eq!(long, format!("\"{}\"… of 1,500 bytes", "k".repeat(40)));
    }
}
