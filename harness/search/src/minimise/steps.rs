//! The axes along which a case is shrunk. Each takes a case and gives one that is no larger and fails in the same way.

use std::collections::BTreeSet;

use kvsim_sim::TraceMode;
use kvsim_sim::api::{Mutation, Request};
use kvsim_simdisk::{Persisted, Sectors};

use super::Shrinking;
use super::edits::only;
use super::find::extent;
use super::site::{busy_of, sites};
use crate::explore::cost::work;
use crate::explore::meaning::Meaning;
use crate::explore::open::Reach;
use crate::fewer::fewer;
use kvsim_api::units::SeedRange;
use kvsim_api::value::{self, FULL_BYTES_MIN, Reading};
use kvsim_drive::case::{Course, Landmark, drive_on};
use kvsim_scenario::case::{Case, CaseRequest};
use kvsim_workload::ClientId;

/// Seeds of the latencies that are tried where a process run is left out.
const SEEDS: u64 = 16;

impl Shrinking<'_> {
    /// Leaves out requests of all process runs at once: halves of them, then quarters, down to single ones.
    pub(super) fn fewer_requests(&mut self, mut best: Case) -> Case {
        best = self.fewer_clients(best);
        let from = best.clone();
        let like = self.like(&from);
        let mut all: Vec<(usize, usize)> = Vec::new();
        for (process_run, run) in from.process_runs.iter().enumerate() {
            all.extend((0..run.requests.len()).map(|at| (process_run, at)));
        }
        fewer(all, &mut |rest| {
            if rest.len() >= best.requests() {
                // It came down to less than that before.
                return false;
            }
            let mut wanted = from.clone();
            for (process_run, run) in wanted.process_runs.iter_mut().enumerate() {
                let kept = rest.iter().filter(|(of, _)| *of == process_run);
                let places: Vec<usize> = kept.map(|(_, at)| *at).collect();
                run.requests = only(&from.process_runs[process_run].requests, &places);
            }
            self.takes_fewer(&mut best, &wanted, &like)
        });
        best
    }

    /// Leaves out all requests of a client.
    fn fewer_clients(&mut self, mut best: Case) -> Case {
        let requests = best
            .process_runs
            .iter()
            .flat_map(|process_run| &process_run.requests);
        let clients: BTreeSet<ClientId> = requests.map(|request| request.client).collect();
        if clients.len() < 2 {
            return best;
        }
        for client in clients {
            let mut others = best.clone();
            for process_run in &mut others.process_runs {
                process_run
                    .requests
                    .retain(|request| request.client != client);
            }
            if others.requests() < best.requests() {
                let like = self.like(&best);
                self.takes_fewer(&mut best, &others, &like);
            }
        }
        best
    }

    /// Takes a case for the best that fails in the same way, found with these requests or as it stands. What is found may be shorter still.
    pub(super) fn takes_fewer(
        &mut self,
        best: &mut Case,
        wanted: &Case,
        like: &[Option<Meaning>],
    ) -> bool {
        for site in sites(wanted) {
            let asked = wanted.process_runs[site.open].requests.len();
            let found = self.find(wanted, site, like, extent(asked));
            if let Some(found) = found
                && found.requests() <= wanted.requests()
            {
                *best = found;
                return true;
            }
        }
        let is_explored = sites(wanted).iter().any(|site| site.reach != Reach::Uncut);
        let as_it_stands = !is_explored || !self.scenario.script().is_empty();
        as_it_stands && self.accepts(best, wanted.clone(), None)
    }

    /// Takes a smaller case for the best if it fails in the same way, as it stands or with its cuts as far from their recoveries as before; `gone` are the
    /// process runs that it has no more.
    pub(super) fn accepts(
        &mut self,
        best: &mut Case,
        smaller: Case,
        gone: Option<&[usize]>,
    ) -> bool {
        if self.fails(&smaller) {
            *best = smaller;
            return true;
        }
        let Some(mut landmarks) = self.landmarks(best) else {
            return false;
        };
        for at in gone.unwrap_or_default().iter().rev() {
            if *at < landmarks.len() {
                landmarks.remove(*at);
            }
        }
        if self.is_over() {
            return false;
        }
        self.spent.runs += 1;
        let course = Course {
            landmarks: Some(&landmarks),
            ..Course::default()
        };
        let seed = self.scenario.run.seeds.start;
        let (program, trace) = (self.program, TraceMode::Off);
        let driven = drive_on(&self.scenario, &smaller, program, seed, trace, course);
        let Ok(driven) = driven else { return false };
        self.charge(work(&driven.world));
        let fails = driven.case != smaller && self.fails(&driven.case);
        if fails {
            *best = driven.case;
        }
        fails
    }

    fn landmarks(&mut self, case: &Case) -> Option<Vec<Landmark>> {
        if let Some((of, landmarks)) = &self.landmarks
            && of == case
        {
            return Some(landmarks.clone());
        }
        let driven = self.drive(case, TraceMode::Off)?;
        self.landmarks = Some((case.clone(), driven.landmarks.clone()));
        Some(driven.landmarks)
    }

    /// Leaves out whole process runs, but the last.
    pub(super) fn fewer_process_runs(&mut self, mut best: Case) -> Case {
        let Some((last, before)) = best.process_runs.split_last() else {
            return best;
        };
        let before_last = before.len();
        // A recovery alone has nothing to recover.
        let least = if last.requests.is_empty() { 2 } else { 1 };
        if before_last < least {
            return best;
        }
        let from = best.clone();
        let like = self.like(&from);
        fewer((0..before_last).collect(), &mut |rest| {
            let kept = |at: &usize| *at == before_last || rest.contains(at);
            let numbers: Vec<usize> = (0..from.process_runs.len()).filter(kept).collect();
            if numbers.len() >= best.process_runs.len() {
                return false;
            }
            let smaller = Case {
                process_runs: numbers
                    .iter()
                    .map(|at| from.process_runs[*at].clone())
                    .collect(),
                faults: from.faults.clone(),
            };
            let its_like: Vec<_> = numbers
                .iter()
                .map(|at| like.get(*at).cloned().flatten())
                .collect();
            for site in sites(&smaller) {
                let asked = smaller.process_runs[site.open].requests.len();
                let found = self.find(&smaller, site, &its_like, extent(asked));
                if let Some(found) = found
                    && found.process_runs.len() <= smaller.process_runs.len()
                {
                    best = found;
                    return true;
                }
            }
            let gone: Vec<usize> = (0..before_last).filter(|at| !rest.contains(at)).collect();
            // Landmarks are those of the case that process runs are left out of.
            let mut as_it_stands = from.clone();
            if self.accepts(&mut as_it_stands, smaller.clone(), Some(&gone)) {
                best = as_it_stands;
                return true;
            }
            match self.under_other_latencies(&smaller) {
                Some(found) => {
                    best = found;
                    true
                }
                None => false,
            }
        });
        best
    }

    /// A case without any cut, if it fails under other latencies: those of an operation depend on how many there were before it, so a process run that is left out
    /// changes them all.
    fn under_other_latencies(&mut self, case: &Case) -> Option<Case> {
        if case.crashes() > 0 || !case.faults.is_empty() {
            return None;
        }
        let seed = self.scenario.run.seeds.start;
        (1..=SEEDS).find_map(|other| {
            let seeds = SeedRange::one(seed.wrapping_add(other));
            self.with(
                |scenario| scenario.run.seeds = seeds,
                |this| this.fails(case).then(|| case.clone()),
            )
        })
    }

    /// A case without any fault, if it fails without.
    pub(super) fn without_faults(&mut self, case: Case) -> Case {
        if !self.is_faulty(&case) {
            return case;
        }
        let mut without = case.clone();
        without.faults.clear();
        let found = self.with(
            |scenario| scenario.script_only(&[]),
            |this| this.fails(&without).then_some(without),
        );
        found.unwrap_or(case)
    }

    /// Leaves out faults that the failure does not need.
    pub(super) fn fewer_faults(&mut self, mut best: Case) -> Case {
        let faults = best.faults.clone();
        best.faults = fewer(faults, &mut |rest| {
            self.fails(&Case {
                faults: rest.to_vec(),
                ..best.clone()
            })
        });
        let script = self.scenario.script();
        let needed = fewer(script.clone(), &mut |rest| {
            self.scenario.set_script(rest);
            self.fails(&best)
        });
        if needed != script {
            (self.landmarks, self.like) = (None, None);
        }
        self.scenario.set_script(&needed);
        best
    }

    /// Makes values as short as those that describe themselves can be.
    pub(super) fn smaller_requests(&mut self, mut best: Case) -> Case {
        let Some(busy) = busy_of(&best) else {
            return best;
        };
        let mut asked = best.process_runs[busy].requests.clone();
        asked.iter_mut().for_each(make_short);
        if asked != best.process_runs[busy].requests
            && let Some(found) = self.find_busy(&best, &asked)
            && found.requests() <= best.requests()
        {
            best = found;
        }
        let mut process_run = 0;
        while process_run < best.process_runs.len() {
            let mut at = 0;
            // What is found anew may have fewer process runs.
            while let Some(request) = best
                .process_runs
                .get(process_run)
                .and_then(|it| it.requests.get(at))
            {
                let accepted = smaller(request).into_iter().find_map(|request| {
                    let mut case = best.clone();
                    case.process_runs[process_run].requests[at] = request;
                    let before = case.requests();
                    if self.fails(&case) {
                        return Some(case);
                    }
                    let like = self.like(&best);
                    let mut found = best.clone();
                    let taken = self.takes_fewer(&mut found, &case, &like);
                    (taken && found.requests() <= before).then_some(found)
                });
                match accepted {
                    Some(case) => best = case,
                    None => at += 1,
                }
            }
            process_run += 1;
        }
        best
    }

    /// Lets less survive, and what survives whole rather than torn.
    pub(super) fn fewer_decisions(&mut self, mut best: Case) -> Case {
        for process_run in 0..best.process_runs.len() {
            let mut at = 0;
            while let Some(persisted_write) = persisted(&best, process_run).get(at).cloned() {
                let mut less = best.clone();
                persisted_mut(&mut less, process_run).remove(at);
                if self.fails(&less) {
                    best = less;
                    continue;
                }
                let simpler = simpler(&persisted_write).into_iter().find_map(|simpler| {
                    let mut case = best.clone();
                    persisted_mut(&mut case, process_run)[at] = simpler;
                    self.fails(&case).then_some(case)
                });
                if let Some(case) = simpler {
                    best = case;
                }
                at += 1;
            }
        }
        best
    }

    /// Cuts a case that is shrunk as it stands at an earlier event: half way, then a quarter less, down to one event less.
    pub(super) fn earlier_cuts(&mut self, mut best: Case) -> Case {
        for process_run in 0..best.process_runs.len() {
            let Some(crash) = &best.process_runs[process_run].crash else {
                continue;
            };
            let mut step = crash.after_event / 2;
            while step > 0 {
                let mut earlier = best.clone();
                let moved = earlier.process_runs[process_run]
                    .crash
                    .as_mut()
                    .is_some_and(|crash| {
                        let room = crash.after_event > step;
                        crash.after_event = crash.after_event.saturating_sub(step);
                        room
                    });
                if moved && self.fails(&earlier) {
                    best = earlier;
                } else {
                    step /= 2;
                }
            }
        }
        best
    }
}

fn persisted(case: &Case, process_run: usize) -> &[Persisted] {
    case.process_runs[process_run]
        .crash
        .as_ref()
        .map_or(&[], |crash| &crash.persisted)
}

fn persisted_mut(case: &mut Case, process_run: usize) -> &mut Vec<Persisted> {
    let crash = case.process_runs[process_run].crash.as_mut();
    &mut crash.expect("it has persisted writes").persisted
}

/// Simpler fates of a persisted write, the simplest first.
fn simpler(persisted_write: &Persisted) -> Vec<Persisted> {
    let Sectors::Torn {
        kept,
        garbage,
        torn_at,
        unreadable,
    } = &persisted_write.sectors
    else {
        return Vec::new();
    };
    let with = |sectors| Persisted {
        id: persisted_write.id,
        sectors,
    };
    let mut all = vec![with(Sectors::All)];
    let is_damaged = garbage.is_some() || torn_at.is_some() || unreadable.is_some();
    if is_damaged && !kept.is_empty() {
        all.push(Persisted::torn(persisted_write.id, kept.clone()));
    }
    if kept.len() > 1 {
        let first = kept[..1].to_vec();
        all.push(with(Sectors::Torn {
            kept: first,
            garbage: *garbage,
            torn_at: *torn_at,
            unreadable: *unreadable,
        }));
    }
    all
}

/// Smaller requests of the same kind, the smallest first.
fn smaller(request: &CaseRequest) -> Vec<CaseRequest> {
    if request.think_ns > 0 {
        return vec![CaseRequest {
            think_ns: 0,
            ..request.clone()
        }];
    }
    let with = |of: Request| CaseRequest {
        request: of,
        ..request.clone()
    };
    match &request.request {
        Request::Put {
            key,
            value,
            durability,
        } => shorter(value)
            .map(|value| {
                with(Request::Put {
                    key: key.clone(),
                    value,
                    durability: *durability,
                })
            })
            .into_iter()
            .collect(),
        Request::Batch {
            mutations,
            durability,
        } => {
            let without = |at: usize| {
                let mut mutations = mutations.clone();
                mutations.remove(at);
                mutations
            };
            let shortened = |at: usize| match &mutations[at] {
                Mutation::Put { key, value } => {
                    let (key, value) = (key.clone(), shorter(value)?);
                    let mut mutations = mutations.clone();
                    mutations[at] = Mutation::Put { key, value };
                    Some(mutations)
                }
                Mutation::Delete { .. } => None,
            };
            let all = 0..mutations.len();
            let fewer = all.clone().filter(|_| mutations.len() > 1).map(without);
            fewer
                .chain(all.filter_map(shortened))
                .map(|mutations| {
                    with(Request::Batch {
                        mutations,
                        durability: *durability,
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Makes all values of a request as short as they can be, and does not think before it.
fn make_short(request: &mut CaseRequest) {
    request.think_ns = 0;
    let short = |value: &mut Vec<u8>| {
        if let Some(shorter) = shorter(value) {
            *value = shorter;
        }
    };
    match &mut request.request {
        Request::Put { value, .. } => short(value),
        Request::Batch { mutations, .. } => {
            for mutation in mutations {
                if let Mutation::Put { value, .. } = mutation {
                    short(value);
                }
            }
        }
        _ => {}
    }
}

/// The shortest value that says the same of itself.
fn shorter(bytes: &[u8]) -> Option<Vec<u8>> {
    match value::read(bytes) {
        Reading::Whole(stamp) if bytes.len() > FULL_BYTES_MIN => {
            Some(value::generate(stamp, FULL_BYTES_MIN, 0))
        }
        _ => None,
    }
}
