//! The axes along which a case is shrunk. Each takes a case and gives one that is no larger and fails in the same way.

use std::collections::BTreeSet;

use kvsim_sim::api::{Mutation, Request};
use kvsim_simdisk::{Sectors, Survivor};

use super::{Shrinking, fewer};
use crate::case::{Case, CaseLife, CaseRequest};
use crate::explore::Reach;
use crate::value::{self, FULL_BYTES_MIN, Reading};
use crate::workload::ClientId;

impl Shrinking<'_> {
    /// Leaves out clients, halves of the requests, then quarters, down to single ones.
    pub(super) fn fewer_requests(&mut self, mut best: Case) -> Case {
        let reach = explorable(&best);
        if let Some(reach) = reach {
            best = self.fewer_and_found_anew(best, reach);
        }
        for life in (reach.map_or(0, |_| 1)..best.lives.len()).rev() {
            let all = best.lives[life].requests.clone();
            fewer(all, &mut |requests| {
                let mut smaller = best.clone();
                smaller.lives[life].requests = requests.to_vec();
                self.accepts(&mut best, smaller, None)
            });
        }
        best
    }

    fn fewer_and_found_anew(&mut self, mut best: Case, reach: Reach) -> Case {
        let all = best.lives[0].requests.clone();
        let clients: BTreeSet<ClientId> = all.iter().map(|request| request.client).collect();
        if clients.len() > 1 {
            for client in clients {
                let mut others = best.lives[0].requests.clone();
                others.retain(|request| request.client != client);
                self.accepts_found(&mut best, &others, reach);
            }
        }
        let all = best.lives[0].requests.clone();
        fewer(all, &mut |requests| {
            self.accepts_found(&mut best, requests, reach)
        });
        best
    }

    /// Takes a case of these requests for the best if there is one that fails in the same way. What it found may be shorter still.
    fn accepts_found(&mut self, best: &mut Case, requests: &[CaseRequest], reach: Reach) -> bool {
        if requests.len() >= best.lives[0].requests.len() {
            // It came down to less than that before.
            return false;
        }
        match self.find(requests, reach) {
            Some(found) if found.lives[0].requests.len() < best.lives[0].requests.len() => {
                *best = found;
                true
            }
            _ => false,
        }
    }

    /// Takes mutations out of batches and makes values as short as those that describe themselves can be.
    pub(super) fn smaller_requests(&mut self, mut best: Case) -> Case {
        if let Some(reach) = explorable(&best) {
            let mut asked = best.lives[0].requests.clone();
            asked.iter_mut().for_each(make_short);
            if asked != best.lives[0].requests
                && let Some(found) = self.find(&asked, reach)
                && found.requests() <= best.requests()
            {
                best = found;
            }
        }
        let mut life = 0;
        while life < best.lives.len() {
            let mut at = 0;
            // What is found anew may have fewer lives.
            while let Some(request) = best.lives.get(life).and_then(|it| it.requests.get(at)) {
                let smaller = smaller(request);
                let accepted = smaller.into_iter().find_map(|request| {
                    let mut case = best.clone();
                    case.lives[life].requests[at] = request;
                    let requests = &case.lives[0].requests;
                    match explorable(&best).filter(|_| life == 0) {
                        Some(reach) => self
                            .find(requests, reach)
                            .filter(|found| found.lives[0].requests.len() <= requests.len()),
                        None => self.fails(&case).then_some(case),
                    }
                });
                match accepted {
                    Some(case) => best = case,
                    None => at += 1,
                }
            }
            life += 1;
        }
        best
    }

    /// Lets less survive, and what survives whole rather than torn.
    pub(super) fn fewer_decisions(&mut self, mut best: Case) -> Case {
        for life in 0..best.lives.len() {
            let mut at = 0;
            while let Some(survivor) = survivors(&best, life).get(at).cloned() {
                let mut less = best.clone();
                survivors_mut(&mut less, life).remove(at);
                if self.fails(&less) {
                    best = less;
                    continue;
                }
                let simpler = simpler(&survivor).into_iter().find_map(|simpler| {
                    let mut case = best.clone();
                    survivors_mut(&mut case, life)[at] = simpler;
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
        for life in 0..best.lives.len() {
            let Some(crash) = &best.lives[life].crash else {
                continue;
            };
            let mut step = crash.after_event / 2;
            while step > 0 {
                let mut earlier = best.clone();
                let moved = earlier.lives[life].crash.as_mut().is_some_and(|crash| {
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

/// Whether the first cut of a case can be found anew by exploring its first life, and how far that has to go.
pub(super) fn explorable(case: &Case) -> Option<Reach> {
    let keeps_least = |life: &CaseLife| {
        life.crash
            .as_ref()
            .is_none_or(|crash| crash.survivors.is_empty())
    };
    if case
        .lives
        .iter()
        .any(|life| life.close_after_event.is_some())
    {
        return None;
    }
    let idle = |lives: &[CaseLife]| lives.iter().all(|life| life.requests.is_empty());
    match &case.lives[..] {
        [only] if case.faults.is_empty() && only.crash.is_none() => Some(Reach::Uncut),
        [_, after @ ..] if !case.faults.is_empty() => {
            (after.len() <= 2 && idle(after)).then_some(Reach::Errors)
        }
        [_, last] if last.crash.is_none() => Some(if last.requests.is_empty() {
            Reach::Recovery
        } else {
            Reach::Again
        }),
        [first, cut, last] if cut.requests.is_empty() && last.requests.is_empty() => {
            (first.requests.len() <= DEEPER_REQUESTS_MAX).then_some(Reach::Deeper)
        }
        [_, work, last] if keeps_least(work) && last.requests.is_empty() => Some(Reach::Again),
        _ => None,
    }
}

/// Requests of which every state of every recovery is looked at, at most.
pub(super) const DEEPER_REQUESTS_MAX: usize = 24;

fn survivors(case: &Case, life: usize) -> &[Survivor] {
    case.lives[life]
        .crash
        .as_ref()
        .map_or(&[], |crash| &crash.survivors)
}

fn survivors_mut(case: &mut Case, life: usize) -> &mut Vec<Survivor> {
    let crash = case.lives[life].crash.as_mut();
    &mut crash.expect("it has survivors").survivors
}

/// Simpler fates of a survivor, the simplest first.
fn simpler(survivor: &Survivor) -> Vec<Survivor> {
    let Sectors::Torn {
        kept,
        garbage,
        torn_at,
        unreadable,
    } = &survivor.sectors
    else {
        return Vec::new();
    };
    let with = |sectors| Survivor {
        id: survivor.id,
        sectors,
    };
    let mut all = vec![with(Sectors::All)];
    let is_damaged = garbage.is_some() || torn_at.is_some() || unreadable.is_some();
    if is_damaged && !kept.is_empty() {
        all.push(Survivor::torn(survivor.id, kept.clone()));
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
