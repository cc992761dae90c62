//! Makes the file of a database that nobody has open as small as it can be. Takes its path.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use kvsim_native::{OpenOptions, compact};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: compact PATH")?;
    let report = compact(path, &OpenOptions::new(), |_| ())?;
    println!(
        "{} keys; {} bytes before, {} now",
        report.copied.entries, report.bytes_before, report.bytes_after
    );
    Ok(())
}
