//! Identifiers of keyspaces, and the prefixes that their keys have in the file.
//!
//! Invariants:
//! - identifiers and prefixes are in the same order;
//! - no prefix is the beginning of another, or begins with the byte of the catalogue.
//!
//! The first byte says how long a prefix is: `0x01..=0x7f` is all of it, `0x80..=0xbf` has one more byte, `0xc0..=0xdf` two, `0xe0..=0xef` three. What its leading bits
//! leave free, and the further bytes, are the identifier, the most significant bits first. First bytes from `0xf0` on are of no keyspace.

use crate::api::key_prefix::KeyPrefix;

/// Identifiers are below this.
pub(super) const END: u32 = 1 << 28;

/// The prefix of the keys of a keyspace with this identifier, which is at least 1.
pub(super) fn prefix(identifier: u32) -> KeyPrefix {
    assert!(
        (1..END).contains(&identifier),
        "an identifier of a keyspace"
    );
    let (leading, len) = match identifier {
        0..0x80 => (0, 1),
        0x80..0x4000 => (0x80 << 8, 2),
        0x4000..0x20_0000 => (0xc0 << 16, 3),
        _ => (0xe0 << 24, 4),
    };
    let bytes: [u8; 4] = (leading | identifier).to_be_bytes();
    KeyPrefix::new(&bytes[4 - len..])
}

/// The identifier that a key's prefix is of, if the key has one.
pub(super) fn of_key(key: &[u8]) -> Option<u32> {
    let (bits, len) = match key.first()? {
        0x01..0x80 => (7, 1),
        0x80..0xc0 => (14, 2),
        0xc0..0xe0 => (21, 3),
        0xe0..0xf0 => (28, 4),
        _ => return None,
    };
    let bytes = key.get(..len)?;
    let number = bytes
        .iter()
        .fold(0, |high, low| high << 8 | u32::from(*low));
    Some(number & ((1 << bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: identifiers have prefixes of their own, in their order, none the beginning of another, and come back from any key with the prefix. Method: all around each
    /// number at which the length or a byte changes.
    #[test]
    fn prefixes_are_in_the_order_of_identifiers() {
        let edges = [
            1, 0x80, 0x100, 0x1ff, 0x4000, 0x1_0000, 0x20_0000, 0x100_0000, END,
        ];
        let mut identifiers: Vec<u32> = edges
            .iter()
            .flat_map(|edge| edge.saturating_sub(3)..edge + 3)
            .filter(|number| (1..END).contains(number))
            .collect();
        identifiers.sort_unstable();
        identifiers.dedup();
        assert_eq!(identifiers.last(), Some(&(END - 1)));
        for (&low, &high) in identifiers.iter().zip(&identifiers[1..]) {
            let [a, b] = [low, high].map(prefix);
            assert!(a.bytes() < b.bytes(), "{low} {high}");
            assert!(!b.bytes().starts_with(a.bytes()), "{low} {high}");
            for rest in [&[][..], &[0], &[255, 255, 255, 255]] {
                assert_eq!(of_key(&a.joined(rest)), Some(low));
            }
        }
        assert_eq!(prefix(0x7f).len(), 1);
        assert_eq!(prefix(END - 1).len(), 4);
        for none in [
            &[][..],
            &[0],
            b"\0next",
            &[0x80],
            &[0xf0, 1, 2, 3],
            &[0xff; 9],
        ] {
            assert_eq!(of_key(none), None);
        }
    }
}
