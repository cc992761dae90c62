//! Arguments, environment, clocks, chance, sleeping, the end of the process, sockets.

use kvsim_sim::GuestError;

use super::error::{BADF, FAULT, INVAL, NOTSOCK};
use super::{BUFFER, DB, Machine, RESULT, call};
use crate::clock::EPOCH_NS;
use crate::host::Ending;

/// The texts that a pair of functions gives.
fn texts(machine: &mut Machine, sizes: &str, get: &str) -> Vec<String> {
    use super::Argument as _;
    assert_eq!(machine.call(sizes, &[RESULT.value(), (RESULT + 4).value()]), 0);
    let (count, len) = (machine.u32_at(RESULT), machine.u32_at(RESULT + 4));
    assert_eq!(machine.call(get, &[RESULT.value(), BUFFER.value()]), 0);
    let all = machine.get(BUFFER, len as usize);
    let texts: Vec<String> = (0..count)
        .map(|at| {
            let pointer = machine.u32_at(RESULT + 4 * at.cast_signed());
            let start = (pointer - BUFFER.cast_unsigned()) as usize;
            let end = all[start..].iter().position(|&byte| byte == 0).expect("a zero byte ends it");
            String::from_utf8(all[start..start + end].to_vec()).expect("text")
        })
        .collect();
    assert_eq!(texts.iter().map(|it| it.len() + 1).sum::<usize>(), len as usize);
    texts
}

#[test]
fn args_get_and_args_sizes_get_give_the_name() {
    assert_eq!(texts(&mut Machine::new(), "args_sizes_get", "args_get"), ["tester"]);
}

#[test]
fn environ_get_and_environ_sizes_get_say_where_to_work() {
    let environment = texts(&mut Machine::new(), "environ_sizes_get", "environ_get");
    assert_eq!(environment, ["HOME=/db", "PWD=/db", "TMPDIR=/db"]);
}

#[test]
fn clock_res_get_gives_a_nanosecond_for_each_clock_there_is() {
    let mut machine = Machine::new();
    for clock in 0..4 {
        assert_eq!(call!(machine, clock_res_get, clock, RESULT), 0);
        assert_eq!(machine.u64_at(RESULT), 1);
    }
    assert_eq!(call!(machine, clock_res_get, 4, RESULT), INVAL);
    assert_eq!(call!(machine, clock_res_get, 0, 1 << 30), FAULT);
}

/// Goal: time is virtual, and its reading is known. Method: two calls of the world, and a sleep.
#[test]
fn clock_time_get_shows_virtual_time() {
    let mut machine = Machine::new();
    machine.store.data_mut().clock.begin_call(5_000_000_000);
    let read = |machine: &mut Machine, clock: i32| {
        assert_eq!(call!(machine, clock_time_get, clock, 1_i64, RESULT), 0);
        machine.u64_at(RESULT)
    };
    let wall = read(&mut machine, 0);
    assert!((EPOCH_NS + 5_000_000_000..EPOCH_NS + 5_000_100_000).contains(&wall), "{wall}");
    let steady = read(&mut machine, 1);
    assert!(steady < 100_000, "{steady}");
    machine.store.data_mut().clock.pass(1_000_000);
    assert!((1_000_000..2_000_000).contains(&(read(&mut machine, 1) - steady)));
    let told = machine.store.data().told;
    assert_eq!((told.real_time_reads, told.clock_reads), (1, 2));
    assert_ne!(told.hash, 0);
    assert_eq!(call!(machine, clock_time_get, 9, 1_i64, RESULT), INVAL);
}

#[test]
fn random_get_is_seeded_and_known() {
    let draw = || {
        let mut machine = Machine::new();
        assert_eq!(call!(machine, random_get, BUFFER, 40), 0);
        (machine.get(BUFFER, 40), machine.store.data().told)
    };
    let (first, told) = draw();
    assert_eq!((first.clone(), told), draw());
    assert!(first.iter().any(|&byte| byte != 0));
    assert_eq!(told.random_bytes, 40);
    assert_eq!(call!(Machine::new(), random_get, 1 << 30, 1), FAULT);
}

fn subscription(machine: &mut Machine, at: i32, userdata: u64, kind: u8, number: i32, timeout: u64, flags: u16) {
    let mut bytes = [0; 48];
    bytes[..8].copy_from_slice(&userdata.to_le_bytes());
    bytes[8] = kind;
    bytes[16..20].copy_from_slice(&number.to_le_bytes());
    bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
    bytes[40..42].copy_from_slice(&flags.to_le_bytes());
    machine.put(BUFFER + 48 * at, &bytes);
}

/// Goal: a sleep moves virtual time by what was asked, and ends by the earliest clock. Method: two clocks.
#[test]
fn poll_oneoff_sleeps_in_virtual_time() {
    let mut machine = Machine::new();
    subscription(&mut machine, 0, 11, 0, 1, 9_000_000, 0);
    subscription(&mut machine, 1, 22, 0, 0, 3_000_000, 0);
    let before = machine.store.data().clock.elapsed();
    assert_eq!(call!(machine, poll_oneoff, BUFFER, BUFFER + 1_024, 2, RESULT), 0);
    assert_eq!(machine.store.data().clock.elapsed() - before, 3_000_000);
    assert_eq!(machine.u32_at(RESULT), 1);
    assert_eq!(machine.u64_at(BUFFER + 1_024), 22);
    // An absolute time that is past rings at once.
    subscription(&mut machine, 0, 33, 0, 0, 5, 1);
    let before = machine.store.data().clock.elapsed();
    assert_eq!(call!(machine, poll_oneoff, BUFFER, BUFFER + 1_024, 1, RESULT), 0);
    assert_eq!(machine.store.data().clock.elapsed(), before);
    assert_eq!(machine.u64_at(BUFFER + 1_024), 33);
}

/// Goal: descriptors are ready at once, so no time passes; a closed one has its error. Method: a clock, a directory, a number that is not open.
#[test]
fn poll_oneoff_finds_descriptors_ready() {
    let mut machine = Machine::new();
    subscription(&mut machine, 0, 1, 0, 1, 9_000_000, 0);
    subscription(&mut machine, 1, 2, 1, DB, 0, 0);
    subscription(&mut machine, 2, 3, 2, 77, 0, 0);
    assert_eq!(call!(machine, poll_oneoff, BUFFER, BUFFER + 1_024, 3, RESULT), 0);
    assert_eq!(machine.store.data().clock.elapsed(), 0);
    assert_eq!(machine.u32_at(RESULT), 2);
    let event = |machine: &mut Machine, at: i32| {
        let bytes = machine.get(BUFFER + 1_024 + 32 * at, 12);
        (bytes[0], u16::from_le_bytes([bytes[8], bytes[9]]), bytes[10])
    };
    assert_eq!(event(&mut machine, 0), (2, 0, 1));
    assert_eq!(event(&mut machine, 1), (3, u16::try_from(BADF).expect("small"), 2));
    assert_eq!(call!(machine, poll_oneoff, BUFFER, BUFFER + 1_024, 0, RESULT), INVAL);
}

#[test]
fn proc_exit_ends_the_call_with_its_code() {
    let mut machine = Machine::new();
    machine.exit(3).expect_err("it does not return");
    assert_eq!(machine.store.data().ending, Some(Ending::Exit(3)));
}

#[test]
fn proc_raise_ends_the_call() {
    use super::Argument as _;
    let mut machine = Machine::new();
    machine
        .try_call("proc_raise", &[6.value()])
        .expect_err("it does not return");
    let ending = machine.store.data().ending.clone();
    assert!(matches!(ending, Some(Ending::Verdict(GuestError::Trap(_)))), "{ending:?}");
}

#[test]
fn sched_yield_does_nothing() {
    assert_eq!(call!(Machine::new(), sched_yield), 0);
}

#[test]
fn sock_functions_are_refused_by_name() {
    let mut machine = Machine::new();
    assert_eq!(call!(machine, sock_accept, DB, 0, RESULT), NOTSOCK);
    assert_eq!(call!(machine, sock_recv, DB, 0, 0, 0, RESULT, RESULT), NOTSOCK);
    assert_eq!(call!(machine, sock_send, DB, 0, 0, 0, RESULT), NOTSOCK);
    assert_eq!(call!(machine, sock_shutdown, DB, 1), NOTSOCK);
    assert_eq!(call!(machine, sock_shutdown, 99, 1), BADF);
    let lines = machine.logged();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], "kvsim: sock_accept is refused: there are no sockets");
}
