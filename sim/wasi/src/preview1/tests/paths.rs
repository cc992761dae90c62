//! Functions that take a path.

use super::error::{
    EXIST, ILSEQ, INVAL, ISDIR, LOOP, MFILE, NAMETOOLONG, NOENT, NOTCAPABLE, NOTDIR, NOTEMPTY,
};
use super::{BUFFER, CREATE, DB, Machine, OTHER_PATH, PATH, READ, RESULT, WRITE, call};

const DIRECTORY: u8 = 3;
const REGULAR_FILE: u8 = 4;
const SYMBOLIC_LINK: u8 = 7;
const O_DIRECTORY: i32 = 2;
const EXCLUSIVE: i32 = 4;
const TRUNCATE: i32 = 8;

/// A call with two paths below `/db`.
fn on_paths(machine: &mut Machine, name: &str, from: &str, to: &str) -> i32 {
    let (from_len, to_len) = (
        machine.put(PATH, from.as_bytes()),
        machine.put(OTHER_PATH, to.as_bytes()),
    );
    match name {
        "path_rename" => call!(
            machine,
            path_rename,
            DB,
            PATH,
            from_len,
            DB,
            OTHER_PATH,
            to_len
        ),
        "path_link" => call!(
            machine, path_link, DB, 0, PATH, from_len, DB, OTHER_PATH, to_len
        ),
        "path_symlink" => call!(
            machine,
            path_symlink,
            PATH,
            from_len,
            DB,
            OTHER_PATH,
            to_len
        ),
        other => unreachable!("{other} takes no two paths"),
    }
}

#[test]
fn path_open_opens_as_its_flags_say() {
    let mut machine = Machine::new();
    assert_eq!(machine.open("a", 0, READ), Err(NOENT));
    let fd = machine.create("a");
    machine.write(fd, b"12345").expect("it is written");
    assert_eq!(
        machine.open("a", CREATE | EXCLUSIVE, READ | WRITE),
        Err(EXIST)
    );
    assert_eq!(machine.open("a", O_DIRECTORY, READ), Err(NOTDIR));
    let again = machine.open("a", CREATE, READ).expect("it is there");
    assert_eq!(machine.read(again, 9), Ok(b"12345".to_vec()));
    machine
        .open("a", TRUNCATE, READ | WRITE)
        .expect("it is there");
    assert_eq!(machine.stat("a", 1), Ok((REGULAR_FILE, 1, 0)));
    assert_eq!(machine.open("a", 16, READ), Err(INVAL));
    assert_eq!(machine.open_with("a", 0, READ, 32), Err(INVAL));
    assert_eq!(machine.open("a/b", CREATE, READ), Err(NOTDIR));
    assert_eq!(
        machine.open(&"x".repeat(300), CREATE, READ),
        Err(NAMETOOLONG)
    );
}

/// Goal: a directory can be opened, listed and synced, also by a caller that does not say that it is one. Method: with the flag and without.
#[test]
fn path_open_opens_directories() {
    let mut machine = Machine::new();
    assert_eq!(machine.on_path("path_create_directory", "d"), 0);
    for flags in [0, O_DIRECTORY] {
        let fd = machine.open("d", flags, READ).expect("it is there");
        assert_eq!(call!(machine, fd_sync, fd), 0);
    }
    assert_eq!(machine.open("d", 0, READ | WRITE), Err(ISDIR));
    let directory = machine.open("d", O_DIRECTORY, READ).expect("it is there");
    let len = machine.put(PATH, b"below");
    let opened = call!(
        machine,
        path_open,
        directory,
        1,
        PATH,
        len,
        CREATE,
        READ | WRITE,
        0_i64,
        0,
        RESULT
    );
    assert_eq!(opened, 0);
    assert_eq!(machine.stat("d/below", 1), Ok((REGULAR_FILE, 1, 0)));
    let file = machine.open("d/below", 0, READ).expect("it is there");
    let len = machine.put(PATH, b"x");
    assert_eq!(
        call!(
            machine, path_open, file, 1, PATH, len, CREATE, READ, 0_i64, 0, RESULT
        ),
        NOTDIR
    );
}

/// Goal: a file that is there by two names, and one that is open without a name. Method: the second name stays, and so does the open file.
#[test]
fn path_link_and_path_unlink_file_count_names() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"text").expect("it is written");
    assert_eq!(on_paths(&mut machine, "path_link", "a", "b"), 0);
    assert_eq!(machine.stat("b", 1), Ok((REGULAR_FILE, 2, 4)));
    assert_eq!(on_paths(&mut machine, "path_link", "a", "b"), EXIST);
    assert_eq!(machine.on_path("path_unlink_file", "a"), 0);
    assert_eq!(machine.stat("b", 1), Ok((REGULAR_FILE, 1, 4)));
    assert_eq!(machine.on_path("path_unlink_file", "b"), 0);
    assert_eq!(machine.on_path("path_unlink_file", "b"), NOENT);
    assert_eq!(machine.read_at(fd, 9, 0), Ok(b"text".to_vec()));
    machine.on_path("path_create_directory", "d");
    assert_eq!(machine.on_path("path_unlink_file", "d"), ISDIR);
}

#[test]
fn path_create_directory_and_path_remove_directory() {
    let mut machine = Machine::new();
    assert_eq!(machine.on_path("path_create_directory", "d"), 0);
    assert_eq!(machine.on_path("path_create_directory", "d"), EXIST);
    assert_eq!(machine.stat("d", 1).expect("it is there").0, DIRECTORY);
    machine.create("d/file");
    assert_eq!(machine.on_path("path_remove_directory", "d"), NOTEMPTY);
    assert_eq!(machine.on_path("path_remove_directory", "d/file"), NOTDIR);
    machine.on_path("path_unlink_file", "d/file");
    assert_eq!(machine.on_path("path_remove_directory", "d"), 0);
    assert_eq!(machine.on_path("path_remove_directory", "d"), NOENT);
}

#[test]
fn path_rename_replaces_what_was_there() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"new").expect("it is written");
    machine.create("b");
    assert_eq!(on_paths(&mut machine, "path_rename", "a", "b"), 0);
    assert_eq!(machine.stat("a", 1), Err(NOENT));
    assert_eq!(machine.stat("b", 1), Ok((REGULAR_FILE, 1, 3)));
    machine.on_path("path_create_directory", "d");
    assert_eq!(on_paths(&mut machine, "path_rename", "b", "d/b"), 0);
    assert_eq!(machine.stat("d/b", 1), Ok((REGULAR_FILE, 1, 3)));
    assert_eq!(on_paths(&mut machine, "path_rename", "d", "d/below"), INVAL);
    machine.on_path("path_create_directory", "e");
    assert_eq!(on_paths(&mut machine, "path_rename", "d/b", "e"), ISDIR);
    assert_eq!(on_paths(&mut machine, "path_rename", "gone", "b"), NOENT);
}

#[test]
fn path_symlink_and_path_readlink() {
    let mut machine = Machine::new();
    let fd = machine.create("a");
    machine.write(fd, b"text").expect("it is written");
    assert_eq!(on_paths(&mut machine, "path_symlink", "a", "link"), 0);
    assert_eq!(machine.stat("link", 1), Ok((REGULAR_FILE, 1, 4)));
    assert_eq!(
        machine.stat("link", 0).expect("it is there").0,
        SYMBOLIC_LINK
    );
    let len = machine.put(PATH, b"link");
    assert_eq!(
        call!(machine, path_readlink, DB, PATH, len, BUFFER, 100, RESULT),
        0
    );
    assert_eq!(
        (machine.u32_at(RESULT), machine.get(BUFFER, 1)),
        (1, b"a".to_vec())
    );
    assert_eq!(
        call!(machine, path_readlink, DB, PATH, len, BUFFER, 0, RESULT),
        0
    );
    assert_eq!(machine.u32_at(RESULT), 0);
    let len = machine.put(PATH, b"a");
    assert_eq!(
        call!(machine, path_readlink, DB, PATH, len, BUFFER, 100, RESULT),
        INVAL
    );
    // Without the flag that follows links, a link is not opened.
    let len = machine.put(PATH, b"link");
    assert_eq!(
        call!(
            machine, path_open, DB, 0, PATH, len, 0, READ, 0_i64, 0, RESULT
        ),
        LOOP
    );
    assert_eq!(on_paths(&mut machine, "path_symlink", "self", "self"), 0);
    assert_eq!(machine.open("self", 0, READ), Err(LOOP));
}

/// Goal: nothing outside `/db` can be reached, and the refusal is told once. Method: each way out.
#[test]
fn no_path_leads_out_of_db() {
    let mut machine = Machine::new();
    machine.on_path("path_create_directory", "d");
    for path in ["..", "../x", "d/../../x", "/etc/passwd", "/db"] {
        assert_eq!(
            machine.open(path, CREATE, READ | WRITE),
            Err(NOTCAPABLE),
            "{path}"
        );
        assert_eq!(machine.stat(path, 1), Err(NOTCAPABLE), "{path}");
    }
    assert_eq!(
        on_paths(&mut machine, "path_symlink", "../../etc", "out"),
        0
    );
    assert_eq!(machine.open("out/passwd", 0, READ), Err(NOTCAPABLE));
    assert_eq!(
        on_paths(&mut machine, "path_rename", "d", "../d"),
        NOTCAPABLE
    );
    machine.create("d/../inside");
    let told: Vec<String> = machine.logged();
    assert_eq!(
        told,
        ["kvsim: path_open: `..` leads out of /db, the only directory there is"]
    );
}

#[test]
fn a_path_that_is_no_text_is_refused() {
    let mut machine = Machine::new();
    machine.put(PATH, b"\xff\xfe");
    assert_eq!(call!(machine, path_create_directory, DB, PATH, 2), ILSEQ);
    machine.put(PATH, b"a\0b");
    assert_eq!(call!(machine, path_create_directory, DB, PATH, 3), INVAL);
    assert_eq!(
        call!(machine, path_create_directory, DB, PATH, 5_000),
        NAMETOOLONG
    );
    assert_eq!(machine.on_path("path_create_directory", ""), NOENT);
    assert_eq!(call!(machine, path_create_directory, 1, PATH, 1), NOTDIR);
}

/// The names that a directory lists, in pieces of this size.
fn listed(machine: &mut Machine, fd: i32, room: i32) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0_u64);
    loop {
        assert_eq!(
            call!(
                machine,
                fd_readdir,
                fd,
                BUFFER,
                room,
                cookie.cast_signed(),
                RESULT
            ),
            0
        );
        let used = machine.u32_at(RESULT) as usize;
        let bytes = machine.get(BUFFER, used);
        let mut rest = bytes.as_slice();
        while let Some((head, tail)) = rest.split_at_checked(24) {
            let len = u32::from_le_bytes(head[16..20].try_into().expect("four bytes")) as usize;
            let Some((name, after)) = tail.split_at_checked(len) else {
                break;
            };
            names.push(String::from_utf8(name.to_vec()).expect("text"));
            cookie = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
            rest = after;
        }
        if used < room as usize {
            return names;
        }
    }
}

/// Goal: a listing is whole however small its pieces are, and each entry is there once. Method: pieces of several sizes, with changes between.
#[test]
fn fd_readdir_lists_all_in_pieces() {
    let mut machine = Machine::new();
    let mut expected = vec![".".to_owned(), "..".to_owned()];
    for number in 0..20 {
        let name = format!("file-{number}");
        let fd = machine.create(&name);
        call!(machine, fd_close, fd);
        expected.push(name);
    }
    expected.sort();
    for room in [4_096, 100, 40] {
        let mut names = listed(&mut machine, DB, room);
        names.sort();
        assert_eq!(names, expected, "{room}");
    }
    let file = machine.create("file-0");
    assert_eq!(
        call!(machine, fd_readdir, file, BUFFER, 100, 0_i64, RESULT),
        NOTDIR
    );
}

#[test]
fn path_filestat_set_times_sets_times_of_a_path() {
    let mut machine = Machine::new();
    machine.create("a");
    let len = machine.put(PATH, b"a");
    let set = call!(
        machine,
        path_filestat_set_times,
        DB,
        1,
        PATH,
        len,
        5_000_000_000_i64,
        6_000_000_000_i64,
        1 | 4
    );
    assert_eq!(set, 0);
    assert_eq!(
        call!(machine, path_filestat_get, DB, 1, PATH, len, RESULT),
        0
    );
    let times = [machine.u64_at(RESULT + 40), machine.u64_at(RESULT + 48)];
    assert_eq!(times, [5_000_000_000, 6_000_000_000]);
}

/// Goal: a guest that opens without end is refused, told once, and can go on. Method: more than there may be, then one closed.
#[test]
fn ten_thousand_open_files_are_refused_by_name() {
    let mut machine = Machine::new();
    machine.create("a");
    let mut last = 0;
    let refused = (0..10_000).find_map(|_| match machine.open("a", 0, READ) {
        Ok(fd) => {
            last = fd;
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(refused, Some(MFILE));
    assert_eq!(machine.open("a", 0, READ), Err(MFILE));
    assert_eq!(
        machine.logged(),
        ["kvsim: path_open: too many files are open"]
    );
    assert_eq!(call!(machine, fd_close, last), 0);
    assert_eq!(machine.open("a", 0, READ), Ok(last));
}
