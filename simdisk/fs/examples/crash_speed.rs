//! How long crash states take: `crash_speed [DATABASE KIB] [FILES]`. One database file, a log beside it, and small files besides.
#![allow(clippy::print_stdout, reason = "it is a command")]

use std::hint::black_box;

use kvsim_fs::{CrashKind, FileConfig, FileSystem, OpenHow, Profile, ROOT_FD, SyncKind};

/// Time on the processor, in microseconds: other programs do not count.
fn now_us() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this needs Linux");
    let ns = text.split(' ').next().expect("a number");
    ns.parse::<f64>().expect("nanoseconds") / 1e3
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| match arguments.next() {
        None => otherwise,
        Some(text) => text.parse().unwrap_or_else(|_| {
            panic!("`{text}` is not a number; usage: crash_speed [DATABASE KIB] [FILES]")
        }),
    };
    let (kib, small): (u64, u64) = (number(100), number(20));
    for name in Profile::names() {
        let mut files = FileSystem::new(&FileConfig::with_profile(name), 1).expect("a profile");
        let bytes: Vec<u8> = (0..kib * 1024).map(|at| (at % 251) as u8).collect();
        let open = |files: &mut FileSystem, name: &str| {
            files
                .open(ROOT_FD, name.as_bytes(), &OpenHow::CREATE)
                .expect("it can be created")
        };
        for at in 0..small {
            let fd = open(&mut files, &format!("small-{at}"));
            files.write(fd, &bytes[..700]).expect("space");
            files.sync(fd, SyncKind::Full).expect("no faults");
            files.close(fd).expect("open");
        }
        let database = open(&mut files, "database");
        files.write(database, &bytes).expect("space");
        files.sync(database, SyncKind::Full).expect("no faults");
        files.sync(ROOT_FD, SyncKind::Full).expect("no faults");
        // A commit in the middle: a log that grows, pages of the database, a name.
        let log = open(&mut files, "log");
        let begin = now_us();
        let mut steps = 0;
        for at in 0..12 {
            files
                .write_at(log, at * 4120, &bytes[..4120])
                .expect("space");
            files
                .write_at(database, at * 8192 % (kib * 1024 - 4096), &bytes[7..4103])
                .expect("space");
            steps = files.pending().len();
        }
        let write_us = now_us() - begin;
        let rounds = 20_000_u32;
        let mut kept = files.clone();
        let states: Vec<_> = (0..rounds).map(|_| kept.draw_crash()).collect();
        let each = |what: &dyn Fn(usize)| {
            let begin = now_us();
            (0..states.len()).for_each(what);
            (now_us() - begin) / f64::from(rounds)
        };
        let clone_us = each(&|_| {
            black_box(files.clone());
        });
        let check_us = each(&|at| files.check_crash(&states[at]).expect("it was drawn"));
        let hash_us = each(&|at| {
            black_box(files.image_hash_after(&states[at]));
        });
        let crash_us = each(&|at| {
            let mut crashed = files.clone();
            crashed
                .crash(0, CrashKind::Power, &states[at])
                .expect("it was drawn");
            black_box(crashed.image_hash());
        });
        println!(
            "{name}: {steps} pending steps in {write_us:.0} us; per state: clone {clone_us:.2} us, check {check_us:.2} us, \
             image_hash_after {hash_us:.2} us, crash and hash {crash_us:.2} us"
        );
    }
}
