//! Moments at which the same must survive, told by a number.

use crate::oracle::Oracle;
use crate::truth::DeviceTruth;
use kvsim_sim::CommitOrder;
use xxhash_rust::xxh3::Xxh3;

impl Oracle {
    /// A hash of everything that [`Oracle::judge`] depends on but the observation: two moments with the same fingerprint
    /// have the same writes that must survive. Ask after [`Oracle::stopped`].
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut take = |number: u64| hash.update(&number.to_le_bytes());
        self.history.feed(&mut take);
        self.feed_medium(&mut take);
        let truth = DeviceTruth::default();
        take(u64::from(self.required(None, &truth).pos));
        take(u64::from(self.power_cut) << 1 | u64::from(self.killed));
        if self.config.policies.commit_order != CommitOrder::Arrival {
            self.feed_order(&truth, &mut take);
        }
        for (key, content) in &self.pinned {
            take(u64::from(*key));
            take(content.number());
        }
        hash.digest()
    }
}
