//! Stores a file as a stream, and gives it back. Takes the path of the database, a key, and the file, of any length; the copy is beside it, with `.back` added to its name.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::fs::File;
use std::io;

use kvsim_native::{Durability, OpenOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, key, file] = &arguments[..] else {
        return Err("usage: stream DATABASE KEY FILE".into());
    };
    let db = OpenOptions::new().cache_bytes(16 << 20).open(path)?;
    let streams = db.streams("files/")?;

    // Piece by piece, and there once this returns: whole, or not at all.
    let before = db.counts().io;
    let stored = streams.put_from(key.as_bytes(), File::open(file)?, Durability::Durable)?;
    let after = db.counts().io;
    println!("stored {} bytes, XXH3 {:016x}", stored.bytes, stored.hash);
    let written = (after.written_bytes - before.written_bytes) as f64;
    let once = stored.bytes.max(1) as f64;
    println!(
        "written to the disk: {:.2} times its length",
        written / once
    );

    let reader = streams.reader(key.as_bytes())?;
    let mut reader = reader.ok_or("it was just stored")?;
    let back = io::copy(&mut reader, &mut File::create(format!("{file}.back"))?)?;
    println!("given back {back} bytes");

    for entry in streams.list(..)? {
        let entry = entry?;
        let key = String::from_utf8_lossy(&entry.key);
        println!("there is {key}: {} bytes", entry.info.bytes);
    }
    db.close()?;
    Ok(())
}
