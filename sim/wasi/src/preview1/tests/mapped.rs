//! Mappings: they show the file, whatever changes it.

use super::error::{BADF, FAULT, INVAL, ISDIR};
use super::{CREATE, DB, Machine, READ, WRITE, call};

/// Where the guest keeps a page for a mapping.
const PLACE: i32 = 65_536;
const PAGE: i32 = 4_096;
const TRUNCATE: i32 = 8;

fn mapped(machine: &mut Machine, len: usize) -> Vec<u8> {
    machine.get(PLACE, len)
}

/// Goal: a mapping is equal to the file at any time. Method: each call that changes a file, through several descriptors.
#[test]
fn a_mapping_follows_its_file() {
    let mut machine = Machine::new();
    let (writer, mapper) = (machine.create("a"), machine.create("a"));
    machine.write(writer, b"abcdef").expect("it is written");
    assert_eq!(call!(machine, map, mapper, 0_i64, PLACE, 2 * PAGE), 0);
    assert_eq!(mapped(&mut machine, 8), b"abcdef\0\0");
    assert_eq!(call!(machine, fd_close, mapper), 0);
    machine.write_at(writer, b"XY", 1).expect("it is written");
    assert_eq!(mapped(&mut machine, 8), b"aXYdef\0\0");
    machine.write(writer, b"gh").expect("it is written");
    assert_eq!(mapped(&mut machine, 9), b"aXYdefgh\0");
    assert_eq!(call!(machine, fd_filestat_set_size, writer, 3_i64), 0);
    assert_eq!(mapped(&mut machine, 9), b"aXY\0\0\0\0\0\0");
    assert_eq!(call!(machine, fd_filestat_set_size, writer, 9_000_i64), 0);
    machine.write_at(writer, b"end", 8_190).expect("it is written");
    assert_eq!(machine.get(PLACE + 8_188, 5), b"\0\0en\0");
    machine.open("a", TRUNCATE, READ | WRITE).expect("it is there");
    assert_eq!(mapped(&mut machine, 3), [0; 3]);
    assert_eq!(machine.get(PLACE + 8_190, 2), [0; 2]);
    let appender = machine.open_with("a", 0, WRITE, 1).expect("it is there");
    machine.write(appender, b"app").expect("it is written");
    assert_eq!(mapped(&mut machine, 4), b"app\0");
}

/// Goal: what happens to other files or other parts does not show. Method: another file, a part before the mapping, a write over its edge.
#[test]
fn a_mapping_shows_its_part_of_its_file_alone() {
    let mut machine = Machine::new();
    let (a, b) = (machine.create("a"), machine.create("b"));
    assert_eq!(call!(machine, map, a, i64::from(PAGE), PLACE, PAGE), 0);
    machine.write(b, b"other").expect("it is written");
    machine.write_at(a, b"before", 0).expect("it is written");
    assert_eq!(mapped(&mut machine, 4), [0; 4]);
    machine.write_at(a, b"1234", i64::from(PAGE) - 2).expect("it is written");
    assert_eq!(mapped(&mut machine, 4), b"34\0\0");
    machine.write_at(a, b"5678", 2 * i64::from(PAGE) - 2).expect("it is written");
    assert_eq!(machine.get(PLACE + PAGE - 3, 5), b"\x0056\0\0");
}

#[test]
fn a_mapping_that_is_taken_off_stays_as_it_is() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"abc").expect("it is written");
    assert_eq!(call!(machine, map, fd, 0_i64, PLACE, PAGE), 0);
    assert_eq!(call!(machine, unmap, PLACE, PAGE), 0);
    machine.write_at(fd, b"X", 0).expect("it is written");
    assert_eq!(mapped(&mut machine, 3), b"abc");
    assert_eq!(call!(machine, unmap, PLACE, PAGE), INVAL);
}

#[test]
fn a_mapping_that_cannot_be_is_refused() {
    let mut machine = Machine::new();
    let fd = machine.open("a", CREATE, READ | WRITE).expect("it is made");
    assert_eq!(call!(machine, map, fd, 5_i64, PLACE, PAGE), INVAL);
    assert_eq!(call!(machine, map, fd, 0_i64, PLACE + 1, PAGE), INVAL);
    assert_eq!(call!(machine, map, fd, 0_i64, PLACE, 0), INVAL);
    assert_eq!(call!(machine, map, fd, 0_i64, PLACE, 1 << 20), FAULT);
    assert_eq!(call!(machine, map, fd, -4_096_i64, PLACE, PAGE), INVAL);
    assert_eq!(call!(machine, map, 77, 0_i64, PLACE, PAGE), BADF);
    assert_eq!(call!(machine, map, DB, 0_i64, PLACE, PAGE), ISDIR);
    assert_eq!(call!(machine, map, fd, 0_i64, PLACE, PAGE), 0);
    assert_eq!(call!(machine, map, fd, 0_i64, PLACE, PAGE), INVAL);
}
