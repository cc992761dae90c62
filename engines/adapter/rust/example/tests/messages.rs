//! The adapter and its example, message by message, on a directory of this machine.

use engine::Log;
use kvsim_adapter::Server;

fn opening(options: &str) -> Vec<u8> {
    let length = (options.len() as u32).to_le_bytes();
    [&1_u32.to_le_bytes()[..], &[0; 24], &length, options.as_bytes()].concat()
}

fn request(operation: u8, rest: &[&[u8]]) -> Vec<u8> {
    [&2_u32.to_le_bytes()[..], &7_u64.to_le_bytes(), &[operation, 0, 0, 0], &rest.concat()].concat()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    (bytes.len() as u32).to_le_bytes()
}

fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    request(1, &[&length(key), &length(value), key, value])
}

fn get(key: &[u8], snapshot: u64) -> Vec<u8> {
    request(4, &[&snapshot.to_le_bytes(), &length(key), key])
}

fn batch(changes: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
    let count = (changes.len() as u32).to_le_bytes();
    let members: Vec<u8> =
        changes.iter().flat_map(|(kind, key, value)| [&[*kind][..], &length(key), &length(value), key, value].concat()).collect();
    request(3, &[&count, &members])
}

fn scan(bounds: u8, limit: u32, start: &[u8], end: &[u8], is_reverse: bool) -> Vec<u8> {
    let flags = [u8::from(is_reverse), bounds, 0, 0];
    let limits = [limit.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    request(5, &[&0_u64.to_le_bytes(), &flags, &limits, &length(start), &length(end), start, end])
}

fn page(entries: &[(&[u8], &[u8])], more: bool) -> Vec<u8> {
    let mut body = (entries.len() as u32).to_le_bytes().to_vec();
    body.extend([u8::from(more), 0, 0, 0]);
    for (key, value) in entries {
        body.extend([&length(key), &length(value), *key, *value].concat());
    }
    body
}

/// The status and the body.
fn ask(server: &mut Server<Log>, message: &[u8]) -> (u8, Vec<u8>) {
    let answer = server.answer(message);
    assert_eq!(answer[1..4], [0; 3]);
    (answer[0], answer[4..].to_vec())
}

const OK: (u8, Vec<u8>) = (0, Vec::new());

/// Goal: each kind of request reaches the engine as it was sent, and its answer has the documented layout. Method: one of each, by bytes.
#[test]
fn requests_reach_the_engine_and_answers_have_their_layout() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::<Log>::new(directory.path());
    assert_eq!(ask(&mut server, &opening("")), OK);
    assert_eq!(ask(&mut server, &put(b"a", b"1")), OK);
    assert_eq!(ask(&mut server, &batch(&[(0, b"b", b"2"), (0, b"c", b"3"), (1, b"a", b""), (0, b"b", b"4")])), OK);
    assert_eq!(ask(&mut server, &get(b"a", 0)), (1, Vec::new()));
    assert_eq!(ask(&mut server, &get(b"b", 0)), (0, b"4".to_vec()));
    assert_eq!(ask(&mut server, &scan(0, 1, b"", b"", false)), (0, page(&[(b"b", b"4")], true)));
    assert_eq!(ask(&mut server, &scan(3, 9, b"b", b"c", true)), (0, page(&[(b"b", b"4")], false)));
    assert_eq!(ask(&mut server, &scan(3, 9, b"c", b"b", false)), (0, page(&[], false)));
    assert_eq!(ask(&mut server, &request(8, &[])), OK);
    assert_eq!(ask(&mut server, &request(9, &[])), OK);
    assert_eq!(ask(&mut server, &get(b"b", 0)).0, 7, "closed");
    let mut server = Server::<Log>::new(directory.path());
    assert_eq!(ask(&mut server, &opening("")), OK);
    assert_eq!(ask(&mut server, &scan(0, 9, b"", b"", false)), (0, page(&[(b"b", b"4"), (b"c", b"3")], false)));
}

/// Goal: what the contract calls wrong is `Invalid` and changes nothing, and what is not offered too. Method: one of each.
#[test]
fn wrong_requests_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::<Log>::new(directory.path());
    assert_eq!(ask(&mut server, &put(b"a", b"1")).0, 6, "before the opening");
    assert_eq!(ask(&mut server, &opening("color=red\n")), (6, b"the option `color` is unknown".to_vec()));
    assert_eq!(ask(&mut server, &opening("")), OK);
    for wrong in [
        opening(""),
        put(b"", b"1"),
        put(&[7; 1025], b"1"),
        put(b"a", &vec![7; 65537]),
        batch(&[(0, b"a", b"1"), (0, b"", b"1")]),
        get(b"a", 3),
        request(6, &[]),
        request(7, &[&0_u64.to_le_bytes()]),
        [&2_u32.to_le_bytes()[..], &[0; 8], &[1, 1, 0, 0], &length(b"a"), &length(b""), b"a"].concat(),
        9_u32.to_le_bytes().to_vec(),
    ] {
        let (status, message) = ask(&mut server, &wrong);
        assert!(status == 6 && !message.is_empty(), "{status} {wrong:?}");
    }
    assert_eq!(ask(&mut server, &scan(0, 9, b"", b"", false)), (0, page(&[], false)));
}

/// Goal: the example's opening keeps each whole record, and drops a torn one at the end. Method: cut the log at every length.
#[test]
fn the_example_drops_a_torn_record_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::<Log>::new(directory.path());
    assert_eq!(ask(&mut server, &opening("")), OK);
    let log = directory.path().join("log");
    assert_eq!(ask(&mut server, &put(b"a", b"1")), OK);
    let first = std::fs::metadata(&log).expect("a log").len();
    assert_eq!(ask(&mut server, &put(b"b", b"22")), OK);
    let whole = std::fs::read(&log).expect("a log");
    for length in 0..=whole.len() {
        std::fs::write(&log, &whole[..length]).expect("it can be written");
        let mut server = Server::<Log>::new(directory.path());
        assert_eq!(ask(&mut server, &opening("")), OK);
        let has = |is_there: bool| if is_there { 0 } else { 1 };
        assert_eq!(ask(&mut server, &get(b"a", 0)).0, has(length as u64 >= first), "{length}");
        assert_eq!(ask(&mut server, &get(b"b", 0)).0, has(length == whole.len()), "{length}");
    }
}

/// Goal: the description has a line for each thing that the protocol asks. Method: the example's, compared as a whole.
#[test]
fn the_description_is_complete() {
    let mut server = Server::<Log>::new("nowhere");
    let (status, text) = ask(&mut server, &0_u32.to_le_bytes());
    let expected =
        "abi=1\nengine=log-in-rust 1\nsettings=fsync after each write\nbatch=true\nscan=true\nreverse_scan=true\nsnapshot=false\n\
        relaxed=false\nsync=true\norder=prefix\nmax_key_bytes=1024\nmax_value_bytes=65536\n";
    assert_eq!((status, String::from_utf8_lossy(&text).as_ref()), (0, expected));
}
