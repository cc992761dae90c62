//! A short case in place of a long one: what clients asked last, on a blank device.
//!
//! Most bugs need no long history. So the last requests are asked of a blank device and all of their crash points are searched, one request first and then more and
//! more; and the last process runs are taken with their cuts, alone or after one load of the records that were there.

use std::collections::BTreeMap;

use kvsim_sim::api::{Durability, Mutation, Request};

use super::Shrinking;
use super::condense::{condensed_to, one_run};
use super::few::{WEIGHTS, heavy};
use super::find::extent;
use super::programs::PROGRAM_REQUESTS_MAX;
use super::reshape::by_one_client;
use super::site::{DEEPER_REQUESTS_MAX, Site, sites};
use crate::explore::open::{Extent, Reach};
use kvsim_scenario::case::{Case, CaseCrash, CaseRequest, CaseRun};
use kvsim_simdisk::CrashKind;
use kvsim_workload::{ClientId, PRELOAD_WRITER};

/// Work of searching small programs at most, first and when all else has come to nothing, and of those without the faults of the case.
const FIRST_PROGRAMS_WORK: u64 = 15_000_000_000;
const PROGRAMS_WORK: u64 = 35_000_000_000;
const FAULTLESS_WORK: u64 = 15_000_000_000;
/// Work of aiming faults anew at most: first what few places take, and then the rest.
const FIRST_AIMED_WORK: u64 = 12_000_000_000;
const AIMED_WORK: u64 = 30_000_000_000;
/// Requests that are asked of a blank device at most.
const REQUESTS_MAX: usize = 256;
/// Requests that are asked without any crash at most.
const UNCUT_MAX: usize = 2_048;
/// Requests that are tried first.
const FEW: usize = 4;
/// Heavy batches that are tried in place of many requests.
const HEAVY_MAX: usize = 3;
/// Requests of each of two process runs that are both cut anywhere, at most.
const WORKED_ON_MAX: usize = 4;
/// Process runs at the end of a case that are tried as a case of their own.
const LAST_RUNS: [usize; 4] = [2, 3, 4, 6];
/// Crashes and requests of a case that is short enough to be shrunk as it stands; and of one that is if a part of the work on programs comes to nothing.
const SHORT: (u64, usize) = (2, 48);
const RATHER_SHORT: (u64, usize) = (8, 1_000);
/// Batches that use a device up.
const USED_UP_BATCHES: usize = 12;
/// Bytes that one request loads if nothing is known of what the guest takes.
const LOAD_BYTES_MAX: usize = 64 * 1024;

/// A way to a short case, and its name.
type Way = (&'static str, fn(&mut Shrinking<'_>, &Case) -> Option<Case>);

/// Where faults affected the device.
const FAULTY_WAYS: [Way; 7] = [
    ("faults aimed at quick flushes", |this, case| {
        this.aimed_at_quick_flushes(case, FIRST_AIMED_WORK)
    }),
    ("faults aimed anew", |this, case| {
        this.aimed(case, FIRST_AIMED_WORK)
    }),
    ("a program without faults", |this, case| {
        this.faultless_program(case, FAULTLESS_WORK)
    }),
    ("more faults aimed anew", |this, case| {
        this.aimed(case, AIMED_WORK)
    }),
    ("a program with faults", |this, case| {
        this.faulty_program(case, PROGRAM_REQUESTS_MAX, PROGRAMS_WORK)
    }),
    LAST_PROCESS_RUNS,
    ("faults after batches", |this, case| {
        this.aimed_after_batches(case)
    }),
];
/// Where none did, and the case may be short enough as it is.
const SHORT_WAYS: [Way; 2] = [
    ("the last requests uncut", |this, case| {
        this.last_uncut(case)
    }),
    ("the last requests", |this, case| {
        this.last_requests(case, 1, FEW)
    }),
];
/// Where it is not.
const LONG_WAYS: [Way; 2] = [
    ("a program", |this, case| {
        this.small_program(case, PROGRAM_REQUESTS_MAX, FIRST_PROGRAMS_WORK)
    }),
    ("more of the last requests", |this, case| {
        this.last_requests(case, 2 * FEW, REQUESTS_MAX)
    }),
];
/// Where there are too many crashes or requests to leave out one after the other.
const LAST_WAYS: [Way; 4] = [
    ("heavy batches", |this, case| this.heavy_requests(case)),
    ("condensed requests", |this, case| this.condensed(case)),
    ("more programs", |this, case| {
        this.small_program(case, PROGRAM_REQUESTS_MAX, PROGRAMS_WORK)
    }),
    LAST_PROCESS_RUNS,
];
const LAST_PROCESS_RUNS: Way = ("the last process runs", |this, case| this.last_runs(case));

impl Shrinking<'_> {
    /// The same class of failure from few requests or few process runs; the case itself if that comes to nothing.
    pub(super) fn short_case(&mut self, case: Case) -> Case {
        if self.is_faulty(&case) {
            return self.first_way(&FAULTY_WAYS, &case).unwrap_or(case);
        }
        if case.requests() <= FEW && case.crashes() <= SHORT.0 {
            return case;
        }
        if let Some(found) = self.first_way(&SHORT_WAYS, &case) {
            return found;
        }
        let is_within =
            |(crashes, requests)| case.crashes() <= crashes && case.requests() <= requests;
        if is_within(SHORT) {
            return case;
        }
        if let Some(found) = self.first_way(&LONG_WAYS, &case) {
            return found;
        }
        if is_within(RATHER_SHORT) {
            return case;
        }
        self.first_way(&LAST_WAYS, &case).unwrap_or(case)
    }

    /// The last process runs alone, which takes moments.
    pub(super) fn short_from_the_end(&mut self, case: &Case) -> Option<Case> {
        self.first_way(&[LAST_PROCESS_RUNS], case)
    }

    /// What the first of these ways that comes to anything finds.
    fn first_way(&mut self, ways: &[Way], case: &Case) -> Option<Case> {
        ways.iter().find_map(|(way, search)| {
            let before = self.spent;
            let found = search(self, case);
            tracing::debug!(
                way,
                found = found.is_some(),
                explorations = self.spent.explorations - before.explorations,
                work = self.spent.work - before.work,
                "looked"
            );
            found
        })
    }

    /// The last requests without any crash, where the failure is one of the running guest: that takes one run for each number of them.
    fn last_uncut(&mut self, case: &Case) -> Option<Case> {
        if case
            .process_runs
            .last()
            .is_none_or(|last| last.requests.is_empty())
        {
            return None;
        }
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let mut count = 1;
        while count < 2 * all.len().min(UNCUT_MAX) && !self.is_over() {
            let first = all.len().saturating_sub(count);
            let mut found = self.find_blank(&all[first..], Reach::Uncut);
            if found.is_none() && case.is_closed() && count <= FEW {
                found = self.find_blank(&closed_beside(&all[first..]), Reach::Uncut);
            }
            if found.is_some() {
                return found;
            }
            count *= 2;
        }
        None
    }

    /// A few batches that weigh much, in place of many requests.
    fn heavy_requests(&mut self, case: &Case) -> Option<Case> {
        if case.crashes() == 0 {
            return None;
        }
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        for count in 1..=HEAVY_MAX {
            for bytes in WEIGHTS {
                let requests = heavy(&all, count, bytes);
                for reach in [Reach::Recovery, Reach::Deeper] {
                    if let Some(found) = self.find_blank(&requests, reach) {
                        return Some(found);
                    }
                }
                let each: Vec<&CaseRequest> = requests.iter().collect();
                if let Some(found) = self.worked_on(&each, count.div_ceil(2)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The last requests of all process runs, asked in one, each number of them searched before the next.
    fn last_requests(&mut self, case: &Case, least: usize, most: usize) -> Option<Case> {
        let all: Vec<&CaseRequest> = case.all_requests().collect();
        let is_uncut = case.crashes() == 0;
        let mut count = least;
        loop {
            let count_now = count.min(all.len()).min(most);
            let last = &all[all.len() - count_now..];
            let requests: Vec<CaseRequest> = last.iter().copied().cloned().collect();
            for reach in [Reach::Recovery, Reach::Deeper, Reach::Again] {
                let is_deep = reach == Reach::Deeper && requests.len() > DEEPER_REQUESTS_MAX;
                if is_deep || (is_uncut && reach != Reach::Recovery) {
                    continue;
                }
                if let Some(found) = self.find_blank(&requests, reach) {
                    return Some(found);
                }
            }
            if !is_uncut
                && count <= WORKED_ON_MAX
                && let Some(found) = self.worked_on(&all, count)
            {
                return Some(found);
            }
            if case.is_closed()
                && let Some(found) = self.find_blank(&and_closed(&requests), Reach::Recovery)
            {
                return Some(found);
            }
            if count_now < count || self.is_over() {
                return None;
            }
            count *= 2;
        }
    }

    /// So many of the last requests in each of two process runs, both of them cut anywhere.
    fn worked_on(&mut self, all: &[&CaseRequest], count: usize) -> Option<Case> {
        let first = all.len().checked_sub(2 * count)?;
        let run = |part: &[&CaseRequest]| CaseRun {
            requests: part.iter().copied().cloned().collect(),
            ..CaseRun::default()
        };
        let wanted = Case {
            process_runs: vec![
                run(&all[first..first + count]),
                run(&all[first + count..]),
                CaseRun::default(),
            ],
            faults: Vec::new(),
        };
        let site = Site::deeper_again(0);
        self.find(&wanted, site, &[], Extent::All)
    }

    /// A case of these requests on a blank device, cut anywhere.
    pub(super) fn find_blank(&mut self, requests: &[CaseRequest], reach: Reach) -> Option<Case> {
        let wanted = one_run(requests.to_vec());
        self.find(&wanted, Site::new(0, reach), &[], Extent::All)
    }

    /// The last process runs, with their cuts, on a blank device, after a load of the records that were there, or after batches that used the device up and that load.
    fn last_runs(&mut self, case: &Case) -> Option<Case> {
        let like = self.like(case);
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let largest = self.largest_batch(&all).unwrap_or(LOAD_BYTES_MAX);
        let used_up = condensed_to(&all, USED_UP_BATCHES, largest, 0);
        for count in LAST_RUNS {
            let Some(first) = case
                .process_runs
                .len()
                .checked_sub(count)
                .filter(|first| *first > 0)
            else {
                break;
            };
            let last = Case {
                process_runs: case.process_runs[first..].to_vec(),
                faults: Vec::new(),
            };
            let last_like = like.get(first..).unwrap_or_default().to_vec();
            let mut loaded = last.clone();
            let records = load(&case.process_runs[..first], largest);
            let mut requests = records.clone();
            requests.append(&mut loaded.process_runs[0].requests);
            loaded.process_runs[0].requests = requests;
            // The load by itself, ended by a crash that finds nothing pending.
            let mut apart = last.clone();
            apart.process_runs.insert(0, quiet(records.clone()));
            let mut used = used_up.clone().unwrap_or_default();
            used.extend(records);
            let mut after_use = last.clone();
            after_use.process_runs.insert(0, quiet(used));
            let mut apart_like = vec![None];
            apart_like.extend(last_like.iter().cloned());
            for (wanted, like) in [
                (last, &last_like),
                (loaded, &last_like),
                (apart, &apart_like),
                (after_use, &apart_like),
            ] {
                for site in sites(&wanted) {
                    let asked = wanted.process_runs[site.open].requests.len();
                    if let Some(found) = self.find(&wanted, site, like, extent(asked)) {
                        return Some(found);
                    }
                }
            }
            if self.is_over() {
                break;
            }
        }
        None
    }
}

/// One process run of these requests that ends when all is quiet.
fn quiet(requests: Vec<CaseRequest>) -> CaseRun {
    CaseRun {
        requests,
        crash: Some(CaseCrash {
            after_event: u64::MAX,
            kind: CrashKind::Power,
            persisted: Vec::new(),
        }),
        ..CaseRun::default()
    }
}

/// Requests that write the last value of each key that these process runs wrote, in batches of so many bytes.
fn load(process_runs: &[CaseRun], bytes_max: usize) -> Vec<CaseRequest> {
    let mut values: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    for request in process_runs
        .iter()
        .flat_map(|process_run| &process_run.requests)
    {
        match &request.request {
            Request::Put { key, value, .. } => {
                values.insert(key, Some(value));
            }
            Request::Delete { key, .. } => {
                values.insert(key, None);
            }
            Request::Batch { mutations, .. } => {
                for mutation in mutations {
                    match mutation {
                        Mutation::Put { key, value } => values.insert(key, Some(value)),
                        Mutation::Delete { key } => values.insert(key, None),
                    };
                }
            }
            _ => {}
        }
    }
    let mut requests = Vec::new();
    let mut mutations: Vec<Mutation> = Vec::new();
    let mut bytes = 0;
    let mut end = |mutations: &mut Vec<Mutation>| {
        if !mutations.is_empty() {
            requests.push(CaseRequest {
                client: PRELOAD_WRITER,
                think_ns: 0,
                request: Request::Batch {
                    mutations: std::mem::take(mutations),
                    durability: Durability::Durable,
                },
            });
        }
    };
    for (key, value) in values {
        let Some(value) = value else { continue };
        if bytes + key.len() + value.len() > bytes_max {
            end(&mut mutations);
            bytes = 0;
        }
        bytes += key.len() + value.len();
        let (key, value) = (key.to_vec(), value.to_vec());
        mutations.push(Mutation::Put { key, value });
    }
    end(&mut mutations);
    requests
}

/// The same asked by one client, which closes the guest when all is answered.
fn and_closed(requests: &[CaseRequest]) -> Vec<CaseRequest> {
    let mut all = by_one_client(requests);
    let client = all.first().map_or(0, |request| request.client);
    all.push(close_by(client));
    all
}

/// The same, and one more client that closes the guest meanwhile.
fn closed_beside(requests: &[CaseRequest]) -> Vec<CaseRequest> {
    let mut all = requests.to_vec();
    let clients = requests.iter().map(|request| request.client);
    let last = clients.filter(|client| *client != PRELOAD_WRITER).max();
    all.push(close_by(last.map_or(0, |last| last + 1)));
    all
}

fn close_by(client: ClientId) -> CaseRequest {
    CaseRequest {
        client,
        think_ns: 0,
        request: Request::Close,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a load writes what was there in the end. Method: a value that is overwritten, one that is deleted, one too long for one request.
    #[test]
    fn a_load_writes_what_was_there_in_the_end() {
        let lines = [
            "0 put a 1:64",
            "1 batch put b 2:64, put c 3:65000",
            "0 put a 4:64",
            "0 delete b",
            "0 put d 5:1000",
        ];
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        let process_run = CaseRun {
            requests: requests.collect(),
            ..CaseRun::default()
        };
        let loaded = load(&[process_run], LOAD_BYTES_MAX);
        let sizes: Vec<usize> = loaded
            .iter()
            .map(|request| match &request.request {
                Request::Batch { mutations, .. } => mutations.len(),
                _ => 0,
            })
            .collect();
        assert_eq!(sizes, [2, 1], "{loaded:#?}");
    }
}
