//! Makes a new database of what can be read of a damaged one that nobody has open, and says what is lost. Takes the paths of both.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use kvsim_native::{OpenOptions, repair};

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1);
    let (Some(damaged), Some(new)) = (paths.next(), paths.next()) else {
        return Err("usage: repair DAMAGED NEW".into());
    };
    let report = repair(damaged, new, &OpenOptions::new(), |_| ())?;
    println!("{report}");
    Ok(())
}
