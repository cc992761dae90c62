//! What a database is opened with.

use std::ffi::{CStr, c_char};

use kvsim_engine::Options;
use kvsim_native::{DriverChoice, Kind as Durable, OpenOptions};

use crate::border::{Kind, Outcome, alone, border, free, give, text};
use crate::error::{Failed, KvdbError, KvdbStatus};

/// What a database is opened with.
pub struct KvdbOptions(());

impl Kind for KvdbOptions {
    type Inside = OpenOptions;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb opt");
}

/// Options that are all at their defaults. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn kvdb_options_new() -> *mut KvdbOptions {
    give(OpenOptions::default())
}

/// Sets an option by its name to a value in words or decimal digits.
///
/// | name | values | default |
/// | --- | --- | --- |
/// | `size_bytes` | size of a new file, written in full at once; later it grows by itself | 268435456 |
/// | `max_bytes` | the file grows no further; 0: as far as the file system has room | 0 |
/// | `cache_bytes` | bound of the keys and values that are kept in memory | 268435456 |
/// | `kind` | what durable means: `full`, the drive's own cache included, or `os`, as `fsync` does it | full |
/// | `driver` | `auto`, `uring` or `threads` | auto |
/// | `read_only` | `true`: the file has to exist, and not a byte of it changes; any number of processes may read at once | false |
/// | `assume_power_loss_protection` | `true` if the drive's cache survives a power cut, so that no flush is needed | false |
///
/// Every other name is one of the engine's own options, which the book lists.
///
/// KVDB_INVALID if there is no such option or it has no such value; then nothing has changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_options_set(
    options: *mut KvdbOptions,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let options = unsafe { alone(options, "options") }?;
        // SAFETY: the same.
        let (name, value) = unsafe { (words(name, "name")?, words(value, "value")?) };
        set(options, name, value)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Sets an option whose value is a number: see kvdb_options_set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_options_set_number(
    options: *mut KvdbOptions,
    name: *const c_char,
    value: u64,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let options = unsafe { alone(options, "options") }?;
        // SAFETY: the same.
        let name = unsafe { words(name, "name") }?;
        set(options, name, &value.to_string())?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees options. What was opened with them stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_options_free(options: *mut KvdbOptions) {
    // SAFETY: as the header demands.
    unsafe { free(options) }
}

/// # Safety
/// As for `text`.
unsafe fn words<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a str> {
    // SAFETY: as the caller states.
    let text: &CStr = unsafe { text(pointer, name) }?;
    let utf8 = text.to_str();
    utf8.map_err(|_| Failed::invalid(format!("`{name}` is not in UTF-8")))
}

fn set(options: &mut OpenOptions, name: &str, value: &str) -> Outcome<()> {
    let wrong =
        |wanted: &str| Failed::invalid(format!("option `{name}`: `{value}` is not {wanted}"));
    let number = || value.parse::<u64>().map_err(|_| wrong("a number of bytes"));
    match name {
        "size_bytes" => options.size_bytes = number()?,
        "max_bytes" => options.max_bytes = number()?,
        "cache_bytes" => options.cache_bytes = number()?,
        "kind" => {
            options.kind = match value {
                "full" => Durable::Full,
                "os" => Durable::Os,
                _ => return Err(wrong("one of full, os")),
            };
        }
        "driver" => {
            options.driver = match value {
                "auto" => DriverChoice::Auto,
                "uring" => DriverChoice::Uring,
                "threads" => DriverChoice::Threads,
                _ => return Err(wrong("one of auto, uring, threads")),
            };
        }
        "read_only" => {
            options.read_only = value.parse().map_err(|_| wrong("one of true, false"))?
        }
        "assume_power_loss_protection" => {
            options.assume_power_loss_protection =
                value.parse().map_err(|_| wrong("one of true, false"))?;
        }
        _ => {
            // A name or a value with a line break would be two options.
            let line = format!("{name}={value}");
            if line.contains('\n') {
                return Err(wrong("one line"));
            }
            Options::parse(&line).map_err(Failed::invalid)?;
            options.engine.push_str(&line);
            options.engine.push('\n');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every option arrives, and what is none is refused by name. Method: each name, good and wrong values.
    #[test]
    fn options_arrive() {
        let mut options = OpenOptions::default();
        for (name, value) in [
            ("size_bytes", "1"),
            ("max_bytes", "2"),
            ("cache_bytes", "3"),
            ("kind", "os"),
            ("driver", "threads"),
            ("read_only", "true"),
            ("assume_power_loss_protection", "true"),
            ("commit_depth", "4"),
            ("commit", "flush"),
        ] {
            set(&mut options, name, value).expect(name);
            let refused = set(&mut options, name, "never").expect_err(name);
            assert!(refused.message.contains(name), "{}", refused.message);
        }
        assert_eq!(
            (options.size_bytes, options.max_bytes, options.cache_bytes),
            (1, 2, 3)
        );
        assert_eq!(
            (options.kind, options.driver),
            (Durable::Os, DriverChoice::Threads)
        );
        assert!(options.assume_power_loss_protection && options.read_only);
        assert_eq!(options.engine, "commit_depth=4\ncommit=flush\n");
        let refused = set(&mut options, "colour", "red").expect_err("there is none");
        assert!(refused.message.contains("colour"), "{}", refused.message);
        assert!(set(&mut options, "commit", "flush\ncommit_depth=1").is_err());
    }
}
