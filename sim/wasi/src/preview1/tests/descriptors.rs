//! Functions on open descriptors.

use super::error::{BADF, FAULT, INVAL, ISDIR, NAMETOOLONG, NOTCAPABLE, SPIPE};
use super::{BUFFER, CREATE, DB, Machine, READ, RESULT, VECTORS, WRITE, call};

const DIRECTORY: u8 = 3;
const REGULAR_FILE: u8 = 4;

#[test]
fn fd_write_and_fd_read_go_on_where_they_left() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(machine.write(fd, b"hello "), Ok(6));
    assert_eq!(machine.write(fd, b"world"), Ok(5));
    assert_eq!(machine.read(fd, 10), Ok(Vec::new()));
    assert_eq!(call!(machine, fd_seek, fd, 3_i64, 0, RESULT), 0);
    assert_eq!(machine.read(fd, 5), Ok(b"lo wo".to_vec()));
    assert_eq!(machine.read(fd, 100), Ok(b"rld".to_vec()));
}

/// Goal: several buffers are one read or write. Method: two of each, the middle one empty.
#[test]
fn vectors_are_gathered_and_scattered() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.put(BUFFER, b"abcdef");
    let vector = |machine: &mut Machine| {
        let parts = [(BUFFER, 2), (BUFFER, 0), (BUFFER + 4, 2)];
        let bytes: Vec<u8> = parts
            .iter()
            .flat_map(|(address, len): &(i32, i32)| [address.to_le_bytes(), len.to_le_bytes()].concat())
            .collect();
        machine.put(VECTORS, &bytes);
    };
    vector(&mut machine);
    assert_eq!(call!(machine, fd_pwrite, fd, VECTORS, 3, 1_i64, RESULT), 0);
    assert_eq!(machine.u32_at(RESULT), 4);
    assert_eq!(machine.read_at(fd, 9, 0), Ok(b"\0abef".to_vec()));
    machine.put(BUFFER, b"......");
    vector(&mut machine);
    assert_eq!(call!(machine, fd_pread, fd, VECTORS, 3, 1_i64, RESULT), 0);
    assert_eq!(machine.get(BUFFER, 6), b"ab..ef");
    assert_eq!(machine.u32_at(RESULT), 4);
}

#[test]
fn fd_pwrite_and_fd_pread_leave_the_position() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(machine.write_at(fd, b"xyz", 5), Ok(3));
    assert_eq!(call!(machine, fd_tell, fd, RESULT), 0);
    assert_eq!(machine.u64_at(RESULT), 0);
    assert_eq!(machine.read_at(fd, 8, 0), Ok(b"\0\0\0\0\0xyz".to_vec()));
    assert_eq!(machine.read_at(fd, 8, 8), Ok(Vec::new()));
    assert_eq!(machine.write_at(fd, b"x", -1), Err(INVAL));
    assert_eq!(machine.read_at(0, 1, 0), Err(SPIPE));
}

#[test]
fn a_descriptor_that_is_open_for_one_thing_does_not_do_the_other() {
    let mut machine = Machine::new();
    let writer = machine.open("a", CREATE, WRITE).expect("it is made");
    assert_eq!(machine.write(writer, b"x"), Ok(1));
    assert_eq!(machine.read(writer, 1), Err(BADF));
    let reader = machine.open("a", 0, READ).expect("it is there");
    assert_eq!(machine.read(reader, 1), Ok(b"x".to_vec()));
    assert_eq!(machine.write(reader, b"y"), Err(BADF));
    assert_eq!(call!(machine, fd_filestat_set_size, reader, 0_i64), INVAL);
    assert_eq!(machine.read(DB, 1), Err(ISDIR));
    assert_eq!(machine.write(DB, b"x"), Err(BADF));
    assert_eq!(machine.read(99, 1), Err(BADF));
}

/// Goal: a bad address is an error and has no effect. Method: a result beyond the memory for a write and an opening.
#[test]
fn a_result_outside_memory_is_refused_before_anything_is_done() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    let steps = machine.steps();
    machine.put(VECTORS, &[0; 8]);
    assert_eq!(call!(machine, fd_write, fd, VECTORS, 1, 1 << 30), FAULT);
    assert_eq!(call!(machine, fd_write, fd, -8, 1, RESULT), FAULT);
    assert_eq!(call!(machine, fd_write, fd, VECTORS, 1 << 20, RESULT), INVAL);
    machine.put(super::PATH, b"b");
    let opened = call!(machine, path_open, DB, 1, super::PATH, 1, CREATE, READ, 0_i64, 0, -2);
    assert_eq!(opened, FAULT);
    assert_eq!(machine.stat("b", 1), Err(super::error::NOENT));
    assert_eq!(machine.steps(), steps);
}

#[test]
fn fd_advise_checks_and_does_nothing() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(call!(machine, fd_advise, fd, 0_i64, 100_i64, 4), 0);
    assert_eq!(call!(machine, fd_advise, fd, 0_i64, 100_i64, 6), INVAL);
    assert_eq!(call!(machine, fd_advise, fd, -1_i64, 100_i64, 0), INVAL);
    assert_eq!(call!(machine, fd_advise, 1, 0_i64, 100_i64, 0), SPIPE);
    assert_eq!(call!(machine, fd_advise, 50, 0_i64, 100_i64, 0), BADF);
}

#[test]
fn fd_allocate_grows_a_file_and_never_shrinks_it() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(call!(machine, fd_allocate, fd, 100_i64, 28_i64), 0);
    assert_eq!(machine.stat("a", 1).expect("it is there").2, 128);
    assert_eq!(call!(machine, fd_allocate, fd, 0_i64, 10_i64), 0);
    assert_eq!(machine.stat("a", 1).expect("it is there").2, 128);
    assert_eq!(machine.read_at(fd, 4, 100), Ok(vec![0; 4]));
    assert_ne!(call!(machine, fd_allocate, fd, -1_i64, 10_i64), 0);
}

#[test]
fn fd_close_frees_the_number() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(call!(machine, fd_close, fd), 0);
    assert_eq!(call!(machine, fd_close, fd), BADF);
    assert_eq!(machine.create("b"), fd);
}

/// Goal: syncs reach the file system: of a file, of its data alone, of a directory. Method: nothing stays pending after all of them.
#[test]
fn fd_sync_and_fd_datasync_make_files_and_directories_durable() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"x").expect("it is written");
    assert!(!machine.store.data().files.pending().is_empty());
    assert_eq!(call!(machine, fd_datasync, fd), 0);
    assert_eq!(call!(machine, fd_sync, fd), 0);
    assert_eq!(call!(machine, fd_sync, DB), 0);
    assert!(machine.store.data().files.pending().is_empty());
    assert_eq!(call!(machine, fd_sync, 99), BADF);
    assert_eq!(call!(machine, fd_sync, 1), INVAL);
}

/// Goal: a descriptor opened with O_SYNC syncs by itself. Method: nothing of its data stays pending after a write.
#[test]
fn a_descriptor_with_the_flag_sync_makes_each_write_durable() {
    let mut machine = Machine::new();
    let plain = machine.create("a");
    assert_eq!(call!(machine, fd_sync, plain), 0);
    assert_eq!(call!(machine, fd_sync, DB), 0);
    let fd = machine.open_with("a", 0, READ | WRITE, 16).expect("it is there");
    machine.write(fd, b"x").expect("it is written");
    assert!(machine.store.data().files.pending().is_empty());
    machine.write_at(fd, b"y", 10).expect("it is written");
    assert!(machine.store.data().files.pending().is_empty());
}

#[test]
fn fd_fdstat_get_tells_kind_flags_and_rights() {
    let mut machine = Machine::new();
    assert_eq!(call!(machine, fd_fdstat_get, DB, RESULT), 0);
    assert_eq!(machine.get(RESULT, 1), [DIRECTORY]);
    assert_ne!(machine.u64_at(RESULT + 16), 0);
    let fd = machine.open_with("a", CREATE, READ | WRITE, 1).expect("it is made");
    assert_eq!(call!(machine, fd_fdstat_get, fd, RESULT), 0);
    assert_eq!(machine.get(RESULT, 4), [REGULAR_FILE, 0, 1, 0]);
    assert_eq!(machine.u64_at(RESULT + 8), (READ | WRITE).cast_unsigned());
    assert_eq!(call!(machine, fd_fdstat_get, 2, RESULT), 0);
    assert_eq!(call!(machine, fd_fdstat_get, 20, RESULT), BADF);
}

/// Goal: a descriptor can be told to append, and to stop. Method: writes after a seek to the start.
#[test]
fn fd_fdstat_set_flags_turns_appending_on_and_off() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"abc").expect("it is written");
    assert_eq!(call!(machine, fd_fdstat_set_flags, fd, 1), 0);
    assert_eq!(call!(machine, fd_seek, fd, 0_i64, 0, RESULT), 0);
    machine.write(fd, b"d").expect("it is written");
    assert_eq!(machine.read_at(fd, 9, 0), Ok(b"abcd".to_vec()));
    assert_eq!(call!(machine, fd_fdstat_set_flags, fd, 0), 0);
    assert_eq!(call!(machine, fd_seek, fd, 0_i64, 0, RESULT), 0);
    machine.write(fd, b"X").expect("it is written");
    assert_eq!(machine.read_at(fd, 9, 0), Ok(b"Xbcd".to_vec()));
    assert_eq!(call!(machine, fd_fdstat_set_flags, fd, 64), INVAL);
    // Go sets its standard streams to not block.
    assert_eq!(call!(machine, fd_fdstat_set_flags, 1, 4), 0);
}

#[test]
fn fd_fdstat_set_rights_only_takes_away() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(call!(machine, fd_fdstat_set_rights, fd, READ, 0_i64), 0);
    assert_eq!(machine.write(fd, b"x"), Err(BADF));
    assert_eq!(machine.read(fd, 1), Ok(Vec::new()));
    assert_eq!(call!(machine, fd_fdstat_set_rights, fd, READ | WRITE, 0_i64), NOTCAPABLE);
}

#[test]
fn fd_filestat_get_tells_size_and_identity() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"12345").expect("it is written");
    assert_eq!(call!(machine, fd_filestat_get, fd, RESULT), 0);
    let inode = machine.u64_at(RESULT + 8);
    assert_eq!(machine.get(RESULT + 16, 1), [REGULAR_FILE]);
    assert_eq!([machine.u64_at(RESULT + 24), machine.u64_at(RESULT + 32)], [1, 5]);
    let other = machine.create("b");
    assert_eq!(call!(machine, fd_filestat_get, other, RESULT), 0);
    assert_ne!(machine.u64_at(RESULT + 8), inode);
    assert_eq!(call!(machine, fd_filestat_get, 0, RESULT), 0);
    assert_eq!(call!(machine, fd_filestat_get, 66, RESULT), BADF);
}

#[test]
fn fd_filestat_set_size_cuts_and_grows_with_zeros() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"12345").expect("it is written");
    assert_eq!(call!(machine, fd_filestat_set_size, fd, 2_i64), 0);
    assert_eq!(call!(machine, fd_filestat_set_size, fd, 4_i64), 0);
    assert_eq!(machine.read_at(fd, 9, 0), Ok(b"12\0\0".to_vec()));
    assert_eq!(call!(machine, fd_filestat_set_size, fd, -4_i64), INVAL);
}

#[test]
fn fd_filestat_set_times_sets_what_its_flags_name() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    assert_eq!(call!(machine, fd_filestat_set_times, fd, 1_000_000_000_i64, 2_000_000_000_i64, 1 | 4), 0);
    assert_eq!(call!(machine, fd_filestat_get, fd, RESULT), 0);
    let times = [machine.u64_at(RESULT + 40), machine.u64_at(RESULT + 48)];
    assert_eq!(times, [1_000_000_000, 2_000_000_000]);
    assert_eq!(call!(machine, fd_filestat_set_times, fd, 0_i64, 0_i64, 8), 0);
    assert_eq!(call!(machine, fd_filestat_get, fd, RESULT), 0);
    assert_eq!(machine.u64_at(RESULT + 40), 1_000_000_000);
    assert_ne!(machine.u64_at(RESULT + 48), 2_000_000_000);
    // A time cannot be both given and now.
    assert_eq!(call!(machine, fd_filestat_set_times, fd, 0_i64, 0_i64, 1 | 2), INVAL);
}

#[test]
fn fd_prestat_get_and_fd_prestat_dir_name_name_the_directory() {
    let mut machine = Machine::new();
    for (fd, name) in [(3, "/db"), (4, "/")] {
        assert_eq!(call!(machine, fd_prestat_get, fd, RESULT), 0);
        let len = machine.u32_at(RESULT + 4);
        assert_eq!((machine.u32_at(RESULT), len as usize), (0, name.len()));
        assert_eq!(call!(machine, fd_prestat_dir_name, fd, BUFFER, len.cast_signed()), 0);
        assert_eq!(machine.get(BUFFER, name.len()), name.as_bytes());
    }
    assert_eq!(call!(machine, fd_prestat_dir_name, 3, BUFFER, 2), NAMETOOLONG);
    assert_eq!(call!(machine, fd_prestat_get, 5, RESULT), BADF);
    assert_eq!(call!(machine, fd_prestat_get, 0, RESULT), BADF);
}

#[test]
fn fd_renumber_moves_and_closes_what_was_there() {
    let mut machine = Machine::new();
    let (a, b) = (machine.create("a"), machine.create("b"));
    machine.write(a, b"of a").expect("it is written");
    assert_eq!(call!(machine, fd_renumber, a, b), 0);
    assert_eq!(machine.read_at(b, 9, 0), Ok(b"of a".to_vec()));
    assert_eq!(machine.read_at(a, 9, 0), Err(BADF));
    assert_eq!(call!(machine, fd_renumber, b, 70), BADF);
    assert_eq!(call!(machine, fd_renumber, b, b), 0);
}

#[test]
fn fd_seek_and_fd_tell_agree() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"12345").expect("it is written");
    for (offset, whence, expected) in [(2_i64, 0, 2_u64), (-1, 1, 1), (-1, 2, 4), (10, 2, 15)] {
        assert_eq!(call!(machine, fd_seek, fd, offset, whence, RESULT), 0);
        assert_eq!(machine.u64_at(RESULT), expected);
        assert_eq!(call!(machine, fd_tell, fd, RESULT), 0);
        assert_eq!(machine.u64_at(RESULT), expected);
    }
    assert_eq!(call!(machine, fd_seek, fd, -1_i64, 0, RESULT), INVAL);
    assert_eq!(call!(machine, fd_seek, fd, -99_i64, 1, RESULT), INVAL);
    assert_eq!(call!(machine, fd_seek, fd, 0_i64, 3, RESULT), INVAL);
    assert_eq!(call!(machine, fd_seek, 1, 0_i64, 1, RESULT), SPIPE);
    assert_eq!(call!(machine, fd_tell, 1, RESULT), SPIPE);
}

/// Goal: outputs are lines of the log, in the order of writing; the input is empty. Method: lines in pieces on both.
#[test]
fn standard_output_and_error_become_log_lines() {
    let mut machine = Machine::new();
    assert_eq!(machine.write(1, b"one\ntw"), Ok(6));
    assert_eq!(machine.write(2, b"oops\n"), Ok(5));
    assert_eq!(machine.write(1, b"o\n"), Ok(2));
    assert_eq!(machine.logged(), ["one", "oops", "two"]);
    assert_eq!(machine.read(0, 10), Ok(Vec::new()));
    assert_eq!(machine.write(0, b"x"), Err(BADF));
}
