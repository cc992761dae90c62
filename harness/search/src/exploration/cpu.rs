//! How much processor time this process has had: for figures per core that do not depend on who else is on the machine.

use std::time::Duration;

/// The kernel counts in these, whatever its own clock does.
const TICKS_PER_SECOND: u32 = 100;

/// Processor time of all threads so far, those that have ended among them; nothing where the system does not say.
pub(super) fn time() -> Option<Duration> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// User and system time stand 12th and 13th after the name, which is in brackets and may hold anything.
fn parse(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u32 = times.next()?.parse().ok()?;
    let system: u32 = times.next()?.parse().ok()?;
    Some(Duration::from_secs(1) * user.checked_add(system)? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the right fields are read, whatever the process is called. Method: a line as the kernel writes it.
    #[test]
    fn user_and_system_time_are_added() {
        let line = "17 (a) b (c)) R 1 17 1 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 9 1 1 1";
        assert_eq!(parse(line), Some(Duration::from_secs(3)));
        assert_eq!(parse("nonsense"), None);
    }
}
