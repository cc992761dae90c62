//! Requests left out while others are changed: what cannot be left out by itself often can if another request comes from another client, of the same key, or waits for
//! nothing. Which of all these it takes is not tried in order but drawn.
//!
//! A snapshot is named by the number of those taken before it. So where one is left out, later requests name another number for the same snapshot.

use kvsim_sim::api::{Durability, Request, SnapshotId};
use kvsim_simdisk::rng::Rng;

use super::Shrinking;
use super::attempts::Attempt;
use super::find::extent;
use super::reshape::written_anew;
use super::site::sites;
use crate::explore::open::Reach;
use kvsim_api::value::{self, Reading};
use kvsim_scenario::case::{Case, CaseRequest};

/// Cases of so many requests are changed at most: of more, too many changes are possible.
const EDITED_MAX: usize = 40;
/// Lists that are drawn at once.
const DRAWN_AT_ONCE: usize = 16;
/// Requests that are left out at once, and changes beside that, at most.
const LEFT_OUT_MAX: u64 = 4;
const CHANGES_MAX: u64 = 3;
/// Work of searching one list at most.
const QUOTA: u64 = 150_000_000;

impl Shrinking<'_> {
    /// Leaves out some requests and changes others, as long as that makes the case shorter and with so much work at most.
    pub(super) fn edited(&mut self, mut best: Case, work: u64) -> Case {
        if best.requests() > EDITED_MAX {
            return best;
        }
        let until = self.spent.work.saturating_add(work);
        while best.requests() > 1 && self.spent.work < until && !self.is_over() {
            let like = self.like(&best);
            let mut rng = self.next_draw();
            let mut attempts = Vec::new();
            for _ in 0..DRAWN_AT_ONCE {
                let wanted = edit(&mut rng, &best);
                let all = sites(&wanted);
                let at = usize::try_from(rng.below(all.len().max(1) as u64)).unwrap_or(0);
                let Some(site) = all.get(at).copied() else {
                    continue;
                };
                let asked = wanted.process_runs[site.open].requests.len();
                attempts.push(Attempt {
                    scenario: self.scenario.clone(),
                    wanted,
                    site,
                    extent: extent(asked),
                    quota: QUOTA,
                    may_be_uncut: best.crashes() == 0 || site.reach == Reach::Uncut,
                    like: like.clone(),
                });
            }
            if attempts.is_empty() {
                break;
            }
            let found = self.first_of(&attempts);
            if let Some(found) = found.filter(|found| found.requests() < best.requests()) {
                best = found;
            }
        }
        best
    }
}

/// The case with fewer requests and some of them changed.
fn edit(rng: &mut Rng, case: &Case) -> Case {
    let mut edited = case.clone();
    let process_runs = edited.process_runs.iter().enumerate();
    let all: Vec<(usize, usize)> = process_runs
        .flat_map(|(process_run, run)| (0..run.requests.len()).map(move |at| (process_run, at)))
        .collect();
    let most = LEFT_OUT_MAX.min(all.len() as u64);
    let count = 1 + rng.below(most);
    let mut kept = all;
    for _ in 0..count {
        if kept.len() > 1 {
            kept.remove(index(rng, kept.len()));
        }
    }
    for (process_run, run) in edited.process_runs.iter_mut().enumerate() {
        let here = kept.iter().filter(|(of, _)| *of == process_run);
        let places: Vec<usize> = here.map(|(_, at)| *at).collect();
        run.requests = only(&case.process_runs[process_run].requests, &places);
    }
    for _ in 0..rng.below(CHANGES_MAX + 1) {
        let process_run = index(rng, edited.process_runs.len());
        change(rng, &mut edited.process_runs[process_run].requests);
    }
    let mut requests: Vec<CaseRequest> = Vec::new();
    for process_run in &edited.process_runs {
        requests.extend_from_slice(&process_run.requests);
    }
    written_anew(&mut requests);
    let mut rest = requests.into_iter();
    for process_run in &mut edited.process_runs {
        let count = process_run.requests.len();
        process_run.requests = rest.by_ref().take(count).collect();
    }
    edited
}

/// One change to one of these requests, after another of them.
fn change(rng: &mut Rng, requests: &mut [CaseRequest]) {
    if requests.is_empty() {
        return;
    }
    let at = index(rng, requests.len());
    let other = requests[index(rng, requests.len())].clone();
    match rng.below(7) {
        0 => requests[at].client = other.client,
        1 => {
            let first = requests[at].client;
            requests.iter_mut().for_each(|it| it.client = first);
        }
        2 => requests[at].think_ns = 0,
        3 => {
            if let Some(durability) = durability(&mut requests[at].request) {
                *durability = match durability {
                    Durability::Durable => Durability::Relaxed,
                    Durability::Relaxed => Durability::Durable,
                };
            }
        }
        4 => {
            if let (Some(key), Some(from)) = (
                key(&mut requests[at].request),
                key(&mut other.request.clone()),
            ) {
                key.clone_from(from);
            }
        }
        5 => {
            if let (Request::Put { value, .. }, Request::Put { value: from, .. }) =
                (&mut requests[at].request, &other.request)
                && let Reading::Whole(stamp) = value::read(value)
            {
                *value = value::generate(stamp, from.len(), 0);
            }
        }
        _ => {
            let to = index(rng, requests.len());
            requests.swap(at, to);
        }
    }
}

fn durability(request: &mut Request) -> Option<&mut Durability> {
    match request {
        Request::Put { durability, .. }
        | Request::Delete { durability, .. }
        | Request::Batch { durability, .. } => Some(durability),
        _ => None,
    }
}

fn key(request: &mut Request) -> Option<&mut Vec<u8>> {
    match request {
        Request::Put { key, .. } | Request::Delete { key, .. } | Request::Get { key, .. } => {
            Some(key)
        }
        _ => None,
    }
}

/// The requests at these places. What reads a snapshot that is still taken names its new number.
pub(super) fn only(all: &[CaseRequest], places: &[usize]) -> Vec<CaseRequest> {
    let taken: Vec<usize> = (0..all.len())
        .filter(|at| matches!(all[*at].request, Request::Snapshot))
        .collect();
    let renamed = |id: SnapshotId| -> SnapshotId {
        let nth = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let Some(at) = nth.and_then(|nth| taken.get(nth)) else {
            return id;
        };
        match places.contains(at) {
            true => {
                1 + taken
                    .iter()
                    .filter(|it| *it < at && places.contains(it))
                    .count() as u64
            }
            false => id,
        }
    };
    let mut requests: Vec<CaseRequest> = places.iter().map(|at| all[*at].clone()).collect();
    for request in &mut requests {
        match &mut request.request {
            Request::Get { snapshot, .. } | Request::Release { snapshot } => {
                *snapshot = renamed(*snapshot);
            }
            Request::Scan(scan) => scan.snapshot = renamed(scan.snapshot),
            _ => {}
        }
    }
    requests
}

fn index(rng: &mut Rng, of: usize) -> usize {
    usize::try_from(rng.below(of as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minimise::condense::one_run;
    use kvsim_simdisk::rng::Purpose;

    fn asked(lines: &[&str]) -> Vec<CaseRequest> {
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        requests.collect()
    }

    /// Goal: where a snapshot is left out, requests go on to read the same one. Method: three snapshots, each read, of which the first and then the second is left out.
    #[test]
    fn a_snapshot_keeps_its_readers() {
        let all = asked(&[
            "0 snapshot",
            "0 snapshot",
            "1 snapshot",
            "0 get a @1",
            "0 scan forward - - 1 64 @2",
            "0 release 3",
        ]);
        let said = |places: &[usize]| -> Vec<String> {
            only(&all, places).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            said(&[1, 2, 4, 5]),
            [
                "0 snapshot",
                "1 snapshot",
                "0 scan forward - - 1 64 @1",
                "0 release 2"
            ]
        );
        assert_eq!(
            said(&[2, 3, 5]),
            ["1 snapshot", "0 get a @1", "0 release 1"]
        );
    }

    /// Goal: an edited case has fewer requests, and each kind of change is made. Method: many edits of four requests.
    #[test]
    fn an_edit_leaves_out_and_changes() {
        let case = one_run(asked(&[
            "0 put a 1:64",
            "1+5 put b 1:90 relaxed",
            "2 get a",
            "1 put c 2:64",
        ]));
        let mut seen = [false; 5];
        for seed in 0..2000 {
            let edited = edit(&mut Rng::new(seed, Purpose::Explore), &case);
            assert!((1..4).contains(&edited.requests()), "{edited:?}");
            for line in edited.all_requests().map(ToString::to_string) {
                seen[0] |= line.contains("put a") && line.contains("relaxed");
                seen[1] |= line.contains(" b ") && line.contains(":64");
                seen[2] |= line.starts_with("0 put b");
                seen[3] |= line.starts_with("1 put b");
                seen[4] |= line.contains("get b");
            }
        }
        assert_eq!(seen, [true; 5]);
    }
}
