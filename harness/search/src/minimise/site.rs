//! Which process run of a case is open, and what follows on its cut.

use crate::explore::open::Reach;
use kvsim_scenario::case::Case;

/// Requests of which every state of every recovery is looked at, at most.
pub(super) const DEEPER_REQUESTS_MAX: usize = 24;

/// Requests of two process runs of which every state of both is looked at, at most.
const DEEPER_AGAIN_MAX: usize = 8;

/// The open process run of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    /// Its number.
    pub(super) open: usize,
    /// How far the search goes from each of its states.
    pub(super) reach: Reach,
    /// Whether the requests of the next process run are asked after each state.
    pub(super) asks_again: bool,
}

impl Site {
    pub(super) fn new(open: usize, reach: Reach) -> Site {
        Site {
            open,
            reach,
            asks_again: false,
        }
    }

    /// Every state, then the requests of the next process run, and every state of that.
    pub(super) fn deeper_again(open: usize) -> Site {
        Site {
            asks_again: true,
            ..Site::new(open, Reach::Deeper)
        }
    }
}

/// Where a case can be searched for the same failure, the best first. Nothing for a case without any process run.
pub(super) fn sites(case: &Case) -> Vec<Site> {
    let Some(last) = case.process_runs.len().checked_sub(1) else {
        return Vec::new();
    };
    let again = |open| Site {
        asks_again: true,
        ..Site::new(open, Reach::Again)
    };
    let requests = |at: usize| case.process_runs[at].requests.len();
    let is_closed = |at: usize| case.process_runs[at].close_after_event.is_some();
    let uncut = Site::new(last, Reach::Uncut);
    if last == 0 {
        return vec![uncut];
    }
    let recovery = if case.faults.is_empty() {
        Site::new(last - 1, Reach::Recovery)
    } else {
        let idle = |at: usize| at > 0 && requests(at) == 0;
        let open = (0..last).rev().find(|at| !idle(*at)).unwrap_or(0);
        return vec![Site::new(open, Reach::Errors)];
    };
    if requests(last) > 0 {
        // It fails while the last process run works: the cut before it is searched, or none.
        return if is_closed(last - 1) {
            vec![uncut]
        } else {
            vec![again(last - 1), uncut]
        };
    }
    if is_closed(last - 1) {
        return vec![Site::new(last - 1, Reach::Uncut)];
    }
    if last >= 2 && !is_closed(last - 2) {
        if requests(last - 1) == 0 && requests(last - 2) <= DEEPER_REQUESTS_MAX {
            return vec![Site::new(last - 2, Reach::Deeper), recovery];
        }
        if requests(last - 1) > 0 {
            let both = requests(last - 1) + requests(last - 2);
            let mut all = vec![recovery, again(last - 2)];
            if both <= DEEPER_AGAIN_MAX {
                all.push(Site::deeper_again(last - 2));
            }
            return all;
        }
    }
    vec![recovery]
}

/// The number of the open process run of a case, if it has any.
pub(super) fn open_of(case: &Case) -> Option<usize> {
    sites(case).first().map(|site| site.open)
}

/// The number of the process run whose requests are asked otherwise: the open one, or the one before it that asks most if the open one asks nothing and only
/// recovers.
pub(super) fn busy_of(case: &Case) -> Option<usize> {
    let open = open_of(case)?;
    let requests = |at: &usize| case.process_runs[*at].requests.len();
    if requests(&open) > 0 {
        return Some(open);
    }
    // Of equals the latest.
    (0..open).max_by_key(requests).or(Some(open))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_scenario::case::{CaseCrash, CaseRun};
    use kvsim_simdisk::CrashKind;

    /// A case of process runs with so many requests, all but the last cut.
    fn case(requests: &[usize]) -> Case {
        let mut case = Case::default();
        for count in requests {
            let one = "0 put k 1:64".parse().expect("a request");
            case.process_runs.push(CaseRun {
                requests: vec![one; *count],
                crash: Some(CaseCrash {
                    after_event: 1,
                    kind: CrashKind::Power,
                    persisted: Vec::new(),
                }),
                close_after_event: None,
                read_after_requests: None,
            });
        }
        case.process_runs.last_mut().expect("one").crash = None;
        case
    }

    /// Goal: requests are changed where there are any. Method: a recovery that is open after two process runs that worked.
    #[test]
    fn requests_are_changed_where_there_are_any() {
        assert_eq!(busy_of(&case(&[3, 2, 0])), Some(1));
        assert_eq!(busy_of(&case(&[99, 0, 0])), Some(0));
        assert_eq!(busy_of(&case(&[99, 30, 0, 0])), Some(0));
        assert_eq!(busy_of(&case(&[0, 0])), Some(0));
        assert_eq!(busy_of(&Case::default()), None);
    }

    /// Goal: the process run is open whose cut matters, and what came after it comes again. Method: a case of each shape.
    #[test]
    fn the_open_process_run_is_the_one_whose_cut_matters() {
        let first = |requests: &[usize]| {
            let site = sites(&case(requests))[0];
            (site.open, site.reach, site.asks_again)
        };
        assert_eq!(first(&[3]), (0, Reach::Uncut, false));
        assert_eq!(first(&[3, 0]), (0, Reach::Recovery, false));
        assert_eq!(first(&[3, 2]), (0, Reach::Again, true));
        assert_eq!(first(&[3, 0, 0]), (0, Reach::Deeper, false));
        assert_eq!(first(&[99, 0, 0]), (1, Reach::Recovery, false));
        assert_eq!(first(&[3, 2, 0]), (1, Reach::Recovery, false));
        let mut closed = case(&[3, 0]);
        closed.process_runs[0].close_after_event = Some(9);
        assert_eq!(sites(&closed), [Site::new(0, Reach::Uncut)]);
        assert!(sites(&Case::default()).is_empty());
    }
}
