//! Tests: no bytes whatsoever make a parser panic, and no changed byte goes unnoticed.

use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use super::page::{self, Page, PageRef, Tree};
use super::pointer::{Chunk, Pointer};
use super::record::{self, RecordKind, Records, record_bytes};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::superblock::Superblock;
use super::{Geometry, HEADER_AREA_BYTES, KEY_BYTES_MAX};
use crate::format::checksum::Identity;
use crate::index::entry;

const GEOMETRY: Geometry = Geometry {
    sector_bytes: 512,
    block_bytes: 4096,
    segment_bytes: 65_536,
};

fn id() -> Identity {
    Identity::new([3; 16])
}

/// SplitMix64 as an endless stream of bytes.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 27)).to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

/// Gives bytes to every parser; what they say does not matter.
fn parse_all(bytes: &[u8]) {
    let id = id();
    let _ = Superblock::decode(0, bytes);
    let _ = SegmentHeader::decode(&id, 1, 0, bytes);
    if let Ok(header) = FrameHeader::decode(&id, 69_632, 61_440, bytes) {
        let _ = header.check_body(&id, bytes);
    }
    let _ = record::verify(&id, 70_000, bytes);
    Records::new(70_000, bytes).for_each(drop);
    let _ = Pointer::decode(&GEOMETRY, 10, bytes);
    let reference = PageRef {
        offset: HEADER_AREA_BYTES,
        len: super::len32(bytes.len()),
        checksum: 1,
    };
    let _ = Page::decode(&id, Tree::Run, &reference, bytes);
    let _ = entry::decode(&GEOMETRY, 10, bytes);
    parse_entries(bytes);
}

/// Gives bytes to the parser of a page's entries, in a page that is right otherwise.
fn parse_entries(bytes: &[u8]) {
    let mut page = Vec::new();
    page::begin(&mut page);
    page.extend_from_slice(bytes);
    let reference = page::finish(&id(), Tree::Run, 0, 3, HEADER_AREA_BYTES, 512, &mut page);
    let page = Page::decode(&id(), Tree::Run, &reference, &page).expect("is whole");
    let _ = page.each(|key, payload| {
        assert!(key.len() <= KEY_BYTES_MAX && payload.len() <= bytes.len());
        Ok(())
    });
}

/// Goal: garbage is an error. Method: noise and zeroes of many lengths, and records with plausible lengths, to every parser.
#[test]
fn garbage_is_an_error_and_never_a_panic() {
    for len in (0..300).chain([511, 512, 4096, 70_000]) {
        parse_all(&vec![0; len]);
        parse_all(&vec![0xff; len]);
        for seed in 0..8 {
            parse_all(&noise(seed * 1000 + len as u64, len));
        }
    }
    for seed in 0..20_000 {
        let mut bytes = noise(seed, 64);
        bytes[16] = (seed % 7) as u8;
        bytes[19] = 0;
        bytes[21..24].fill(0);
        Records::new(0, &bytes).for_each(drop);
        // Lengths that are near to what is there.
        bytes.iter_mut().step_by(5).for_each(|byte| *byte &= 7);
        parse_entries(&bytes);
    }
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0; 4096];
    let lsn = 69_632 + FRAME_HEADER_BYTES as u64;
    let bytes = record_bytes(3, 5);
    record::encode(
        &id(),
        lsn,
        RecordKind::Put,
        9,
        b"key",
        b"value",
        &mut frame[FRAME_HEADER_BYTES..],
    );
    let header = FrameHeader {
        epoch: 2,
        lsn: 69_632,
        body_bytes: super::len32(bytes),
        records: 1,
        first_sequence: 9,
        previous_checksum: 77,
        durable: 65_536,
        has_extents: false,
        body_checksum: 0,
        header_checksum: 0,
    };
    header.seal(&id(), &mut frame);
    frame
}

/// Goal: a frame is whole or rejected. Method: flip every bit of header and body, and move it elsewhere.
#[test]
fn every_bit_of_a_frame_counts() {
    let whole = |bytes: &[u8], lsn| {
        FrameHeader::decode(&id(), lsn, 61_440, bytes)
            .and_then(|h| h.check_body(&id(), bytes).map(|_| ()))
    };
    let mut frame = frame();
    assert_eq!(whole(&frame, 69_632), Ok(()));
    assert!(whole(&frame, 73_728).is_err(), "at another place");
    assert!(
        FrameHeader::decode(&id(), 69_632, 100, &frame).is_err(),
        "longer than its segment"
    );
    assert!(
        FrameHeader::decode(&Identity::new([4; 16]), 69_632, 61_440, &frame).is_err(),
        "of another database"
    );
    for bit in 0..(FRAME_HEADER_BYTES + record_bytes(3, 5)) * 8 {
        frame[bit / 8] ^= 1 << (bit % 8);
        assert!(whole(&frame, 69_632).is_err(), "bit {bit}");
        frame[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Goal: a segment header, a record and a page are whole or rejected. Method: flip every bit of each.
#[test]
fn every_bit_of_headers_records_and_pages_counts() {
    let header = SegmentHeader {
        epoch: 2,
        logical: 5,
        physical: 3,
        next: 4,
        previous_end: 7,
        previous_checksum: 8,
        durable: 9,
    };
    let mut bytes = vec![0; 4096];
    header.encode(&id(), &mut bytes);
    assert_eq!(SegmentHeader::decode(&id(), 5, 3, &bytes), Ok(header));
    assert!(
        SegmentHeader::decode(&id(), 6, 3, &bytes).is_err()
            && SegmentHeader::decode(&id(), 5, 2, &bytes).is_err()
    );
    each_bit(&mut bytes[..SEGMENT_HEADER_BYTES], |bytes| {
        SegmentHeader::decode(&id(), 5, 3, bytes).is_err()
    });

    let mut bytes = vec![0; record_bytes(3, 5)];
    record::encode(
        &id(),
        1234,
        RecordKind::Put,
        9,
        b"key",
        b"value",
        &mut bytes,
    );
    assert!(
        record::verify(&id(), 1234, &bytes).is_ok() && record::verify(&id(), 1235, &bytes).is_err()
    );
    each_bit(&mut bytes, |bytes| {
        record::verify(&id(), 1234, bytes).is_err()
    });

    let mut bytes = Vec::new();
    page::begin(&mut bytes);
    page::push(&mut bytes, 0, b"key", b"payload");
    page::push(&mut bytes, 2, b"kept", b"");
    let reference = page::finish(&id(), Tree::Run, 0, 2, HEADER_AREA_BYTES, 512, &mut bytes);
    let page = Page::decode(&id(), Tree::Run, &reference, &bytes).expect("is whole");
    let mut entries = Vec::new();
    let all = page.each(|key, payload| {
        entries.push((key.to_vec(), payload.to_vec()));
        Ok(())
    });
    let expected = [
        (b"key".to_vec(), b"payload".to_vec()),
        (b"kept".to_vec(), Vec::new()),
    ];
    assert_eq!((all, &entries[..]), (Ok(()), &expected[..]));
    assert!(Page::decode(&id(), Tree::Table, &reference, &bytes).is_err());
    each_bit(&mut bytes, |bytes| {
        Page::decode(&id(), Tree::Run, &reference, bytes).is_err()
    });
}

fn each_bit(bytes: &mut [u8], noticed: impl Fn(&[u8]) -> bool) {
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(noticed(bytes), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Goal: a pointer never leads off the device or over a segment's end. Method: chunks at and beyond every border.
#[test]
fn a_pointer_stays_on_the_device_and_in_its_segments() {
    let decode = |offset, len| {
        let pointer = Pointer {
            total: len,
            chunks: Box::new([Chunk {
                offset,
                len,
                checksum: 1,
            }]),
        };
        Pointer::decode(&GEOMETRY, 2, &pointer.encode()).map(|_| ())
    };
    assert_eq!(decode(HEADER_AREA_BYTES, 65_536), Ok(()));
    for (offset, len) in [
        (0, 10),
        (HEADER_AREA_BYTES, 65_537),
        (HEADER_AREA_BYTES + 512, 10),
        (HEADER_AREA_BYTES + 61_440, 4097),
        (HEADER_AREA_BYTES + 2 * 65_536, 10),
        (u64::MAX - 4095, 10),
        (HEADER_AREA_BYTES, 0),
    ] {
        assert!(decode(offset, len).is_err(), "{offset} {len}");
    }
}
