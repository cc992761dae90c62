//! Which persistence profile is weaker than which: one is weaker than another if each of its rules allows all that the other's allows.
//!
//! It is a partial order. `posix` is below all profiles whose syncs reach the medium; a profile whose syncs reach only the drive's cache is beside it,
//! since it loses what a sync has covered, and `posix` does not.

use kvsim_fs::{CallOrder, DurableAt, Profile, Reach, Rules, SyncCommits};

/// Whether the first profile allows all that the second one allows, rule by rule. A profile is as weak as itself.
#[must_use]
pub fn is_weaker(weak: &Rules, strong: &Rules) -> bool {
    if weak == strong || strong.durable_at == DurableAt::Write {
        return true;
    }
    if weak.durable_at == DurableAt::Write {
        return false;
    }
    let call_order = |order: &CallOrder| match order {
        CallOrder::None => 0,
        CallOrder::Metadata => 1,
        CallOrder::Everything => 2,
    };
    // What is before a sync is, without an order of calls, the file alone; with one it is not comparable with a list of names.
    let syncs = weak.sync_commits == strong.sync_commits
        || (weak.sync_commits == SyncCommits::WhatIsBefore && weak.call_order == CallOrder::None)
        || (weak.sync_commits == SyncCommits::OwnNames
            && strong.sync_commits == SyncCommits::AllNames);
    let reaches = weak.fsync_reaches == strong.fsync_reaches || weak.fsync_reaches == Reach::Drive;
    // These promise something, and these allow something.
    let promises = |rules: &Rules| {
        [
            rules.fsync_file_persists_entry,
            rules.rename_atomic,
            rules.rename_over_flushes,
            rules.close_after_truncate_flushes,
            rules.data_before_size,
            rules.unwritten_extents,
            rules.zero_tail,
            !rules.delayed_allocation,
            !rules.torn_page,
        ]
    };
    let kept = promises(weak)
        .into_iter()
        .zip(promises(strong))
        .all(|(weak, strong)| !weak || strong);
    let stale = weak.stale_contents <= strong.stale_contents;
    syncs
        && reaches
        && kept
        && stale
        && call_order(&weak.call_order) <= call_order(&strong.call_order)
}

/// The rules of a profile that comes with kvsim.
#[must_use]
pub fn rules(name: &str) -> Option<Rules> {
    Profile::Named(name.to_owned()).rules().ok()
}

/// Of these profiles those below which, or above which, there is no other of them.
fn extremes(names: &[String], is_beyond: impl Fn(&Rules, &Rules) -> bool) -> Vec<String> {
    let all: Vec<(&String, Rules)> = names
        .iter()
        .filter_map(|name| Some((name, rules(name)?)))
        .collect();
    let is_extreme = |(name, own): &&(&String, Rules)| {
        !all.iter()
            .any(|(other, rules)| other != name && is_beyond(rules, own) && !is_beyond(own, rules))
    };
    all.iter()
        .filter(is_extreme)
        .map(|(name, _)| (*name).clone())
        .collect()
}

/// The weakest of these profiles: several where they cannot be compared.
#[must_use]
pub fn weakest(names: &[String]) -> Vec<String> {
    extremes(names, is_weaker)
}

/// The strongest of these profiles: several where they cannot be compared.
#[must_use]
pub fn strongest(names: &[String]) -> Vec<String> {
    extremes(names, |other, own| is_weaker(own, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|it| (*it).to_owned()).collect()
    }

    /// Goal: the order is that of the rules. Method: the profiles that come with kvsim: `posix` is below those that reach the medium and show no blocks of other files, `process_kill`
    /// above all, and the rest as their tables say.
    #[test]
    fn profiles_are_in_the_order_of_their_rules() {
        let weaker = |weak: &str, strong: &str| {
            is_weaker(
                &rules(weak).expect("a profile"),
                &rules(strong).expect("a profile"),
            )
        };
        for name in Profile::names() {
            assert!(weaker(name, name));
            assert!(weaker(name, "process_kill"), "{name}");
            // What reaches the drive alone, and what shows the blocks of other files, is no stronger.
            let is_other = matches!(name, "apfs_fsync" | "ext4_writeback");
            assert_eq!(weaker("posix", name), !is_other, "{name}");
        }
        assert!(weaker("xfs", "ext4_ordered") && !weaker("ext4_ordered", "xfs"));
        assert!(weaker("apfs_fsync", "apfs_full_fsync"));
        assert!(!weaker("apfs_fsync", "posix"));
    }

    /// Goal: the ends of a list are found, several if they cannot be compared. Method: three lists.
    #[test]
    fn the_ends_of_a_list_are_found() {
        let list = names(&["ext4_ordered", "posix", "process_kill"]);
        assert_eq!(weakest(&list), ["posix"]);
        assert_eq!(strongest(&list), ["process_kill"]);
        let list = names(&["posix", "xfs", "ext4_ordered"]);
        assert_eq!(strongest(&list), ["ext4_ordered"]);
        let list = names(&["posix", "apfs_fsync"]);
        assert_eq!(weakest(&list), list);
        assert!(weakest(&[]).is_empty());
    }
}
