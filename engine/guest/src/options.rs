//! Options of the guest itself, which say how it uses the engine: by requests only, or as the library does besides. The engine is not shown them.

use kvsim_engine::Room;

/// How the engine is used.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Gets and scans are made outside the engine, where they can be.
    pub(crate) reads_outside: bool,
    /// The keys of a scan are read first.
    pub(crate) keys_first: bool,
    /// What is acknowledged before the engine has it, at most.
    pub(crate) ahead: Room,
}

/// Bytes of each change that is acknowledged ahead, on average, at most.
const AHEAD_BYTES: usize = 1 << 10;
const AHEAD_MAX: usize = 1 << 12;

impl Manner {
    /// Takes the guest's own options out of the lines for the engine.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(crate) fn take(options: &mut String) -> Result<Manner, String> {
        let mut manner = Manner::default();
        let mut others = String::new();
        for line in options.lines() {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let (name, value) = (name.trim(), value.trim());
            match name {
                "reads_outside" => manner.reads_outside = is_on(name, value)?,
                "keys_first" => manner.keys_first = is_on(name, value)?,
                "accepts_ahead" => {
                    let changes = value.parse().ok().filter(|it| *it <= AHEAD_MAX);
                    let changes = changes.ok_or_else(|| {
                        format!("option `{name}`: `{value}` is not a number within 0..={AHEAD_MAX}")
                    })?;
                    let bytes = changes * AHEAD_BYTES;
                    manner.ahead = Room { changes, bytes };
                }
                _ => {
                    others.push_str(line);
                    others.push('\n');
                }
            }
        }
        *options = others;
        Ok(manner)
    }

    /// Whether it makes nothing but requests.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Manner::default()
    }
}

fn is_on(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!(
            "option `{name}`: `{value}` is neither `on` nor `off`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the guest's own options do not come to the engine, and a wrong value is refused by name.
    #[test]
    fn the_guest_takes_its_own_options() {
        let taken = |text: &str| {
            let mut options = text.to_owned();
            Manner::take(&mut options).map(|manner| (manner, options))
        };
        assert_eq!(taken(""), Ok((Manner::default(), String::new())));
        let (manner, others) =
            taken("a=1\nreads_outside = on\nb=2\naccepts_ahead=4").expect("both are right");
        assert_eq!(others, "a=1\nb=2\n");
        assert!(manner.reads_outside && !manner.keys_first && !manner.is_plain());
        assert_eq!((manner.ahead.changes, manner.ahead.bytes), (4, 4_096));
        for (wrong, named) in [
            ("keys_first=yes", "`yes`"),
            ("accepts_ahead=-1", "`-1`"),
            ("reads_outside", "``"),
        ] {
            let error = taken(wrong).expect_err("it is wrong");
            assert!(error.contains(named), "{error}");
        }
    }
}
