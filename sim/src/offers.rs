//! What a guest can be asked for, and what it promises of the writes that a crash leaves.

use serde::{Deserialize, Serialize};

/// Which of its writes a guest finds again after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A prefix of the commit order: no write without all that committed before it.
    #[default]
    Prefix,
    /// Each write stands for itself: one that was not acknowledged as durable may be found or not, whatever became of the others. The writes of one
    /// batch stay together, and of two writes of one key the older never replaces the newer.
    Each,
}

/// What a guest offers. What it does not, nobody asks it for.
///
/// [`Offers::default`] is everything, which is what the guest ABI demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offers {
    /// Several writes that take effect together.
    pub batch: bool,
    /// The entries of a range.
    pub scan: bool,
    /// The same from the largest key down.
    pub reverse_scan: bool,
    /// Reads at a moment that stays.
    pub snapshot: bool,
    /// Writes that are acknowledged before they are durable.
    pub relaxed: bool,
    /// A request that makes durable all that was accepted before it.
    pub sync: bool,
    /// Which writes a crash leaves.
    pub order: Order,
}

impl Default for Offers {
    fn default() -> Self {
        Offers {
            batch: true,
            scan: true,
            reverse_scan: true,
            snapshot: true,
            relaxed: true,
            sync: true,
            order: Order::Prefix,
        }
    }
}

impl Offers {
    /// The names of what is not offered, for people.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let all = [
            (self.batch, "batches"),
            (self.scan, "scans"),
            (self.reverse_scan, "reverse scans"),
            (self.snapshot, "snapshots"),
            (self.relaxed, "relaxed writes"),
            (self.sync, "sync"),
        ];
        all.into_iter()
            .filter(|(offered, _)| !offered)
            .map(|(_, name)| name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a guest that says nothing offers everything, and what is missing is named. Method: the default, and one without two of them.
    #[test]
    fn what_is_not_offered_is_named() {
        assert!(Offers::default().missing().is_empty());
        let offers = Offers {
            scan: false,
            sync: false,
            ..Offers::default()
        };
        assert_eq!(offers.missing(), ["scans", "sync"]);
    }
}
