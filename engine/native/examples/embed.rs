//! The engine in a Rust program: every kind of call once. Takes the path of the database.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use kvsim_native::{Durability, OpenOptions, Prefix, WriteBatch};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "example.kvdb".to_owned());
    let db = OpenOptions::new().size_bytes(16 << 20).open(path)?;

    // A write that has returned survives a power cut; a relaxed one does a moment later.
    db.put(b"user/1", b"Ada", Durability::Durable)?;
    db.put(b"user/2", b"Grace", Durability::Relaxed)?;
    db.put(b"visit/1", b"home", Durability::Relaxed)?;
    let text = |value: Option<kvsim_native::Value>| {
        let value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
        value.unwrap_or_else(|| "nothing".to_owned())
    };
    println!("user/1: {}", text(db.get(b"user/1")?));

    // A snapshot stays as it is while a batch is written, all of it or nothing.
    let snapshot = db.snapshot()?;
    let mut batch = WriteBatch::new();
    batch.delete(b"user/1").put(b"user/3", b"Edsger");
    db.apply(&batch, Durability::Durable)?;
    println!("user/1 now: {}", text(db.get(b"user/1")?));
    println!("user/1 in the snapshot: {}", text(snapshot.get(b"user/1")?));
    drop(snapshot);

    // The users, the last first.
    for entry in db.range(Prefix("user/"))?.rev() {
        let entry = entry?;
        let (key, value) = (
            String::from_utf8_lossy(&entry.key),
            String::from_utf8_lossy(&entry.value),
        );
        println!("{key} = {value}");
    }

    // What fails says why.
    if let Err(failure) = db.put(b"", b"", Durability::Durable) {
        println!("status {}: {failure}", failure.status as u32);
    }
    db.close()?;
    Ok(())
}
