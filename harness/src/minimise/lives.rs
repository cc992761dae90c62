//! Cases of many crashes: the same failure from scratch with one or two, or else fewer of them; and fewer faults.

use kvsim_sim::TraceMode;
use kvsim_sim::api::Request;

use super::reshape::by_one_client;
use super::steps::{DEEPER_REQUESTS_MAX, explorable};
use super::{Shrinking, fewer};
use crate::case::{Case, CaseRequest, Course, Landmark, drive_on};
use crate::explore::{Reach, work};

/// Requests that are explored from scratch at most.
const REQUESTS_MAX: usize = 160;

impl Shrinking<'_> {
    /// The same kind of failure of a blank device that is asked what clients asked last, then more and more of what they asked before:
    /// most bugs need no long history. The case itself if that comes to nothing.
    pub(super) fn found_from_scratch(&mut self, case: Case) -> Case {
        if explorable(&case).is_some() || case.crashes() == 0 {
            return case;
        }
        // Something is left for shrinking it as it stands.
        self.granted = self.left / 2;
        let found = self.on_a_blank_device(&case);
        self.granted = self.left;
        found.unwrap_or(case)
    }

    fn on_a_blank_device(&mut self, case: &Case) -> Option<Case> {
        if !self.scenario.faults.script.is_empty() || !case.faults.is_empty() {
            return self.aimed(case);
        }
        let lives = case.lives.iter();
        let all: Vec<&CaseRequest> = lives.flat_map(|life| &life.requests).collect();
        let is_closed = case
            .lives
            .iter()
            .any(|life| life.close_after_event.is_some());
        let mut count = 1;
        loop {
            let count_now = count.min(all.len()).min(REQUESTS_MAX);
            let last = &all[all.len() - count_now..];
            let requests: Vec<CaseRequest> = last.iter().copied().cloned().collect();
            for reach in [Reach::Recovery, Reach::Again, Reach::Deeper] {
                if reach == Reach::Deeper && requests.len() > DEEPER_REQUESTS_MAX {
                    continue;
                }
                if let Some(found) = self.find(&requests, reach) {
                    return Some(found);
                }
            }
            if is_closed && let Some(found) = self.find(&and_closed(&requests), Reach::Recovery) {
                return Some(found);
            }
            if count_now < count || self.is_over() {
                return None;
            }
            count *= 2;
        }
    }

    /// Leaves out whole lives of the device, but the last.
    pub(super) fn fewer_lives(&mut self, mut best: Case) -> Case {
        let Some(before_last) = best.lives.len().checked_sub(1).filter(|count| *count > 1) else {
            return best;
        };
        // By number, for `best` changes on the way.
        let mut kept: Vec<usize> = (0..before_last).collect();
        fewer(kept.clone(), &mut |rest| {
            let dropped = |number: &usize| !rest.contains(number);
            let gone: Vec<usize> = (0..kept.len()).filter(|at| dropped(&kept[*at])).collect();
            let mut smaller = best.clone();
            for at in gone.iter().rev() {
                smaller.lives.remove(*at);
            }
            let accepted = self.accepts(&mut best, smaller, Some(&gone));
            if accepted {
                kept = rest.to_vec();
            }
            accepted
        });
        best
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
        let script = self.scenario.faults.script.clone();
        let needed = fewer(script.clone(), &mut |rest| {
            self.scenario.faults.script = rest.to_vec();
            self.fails(&best)
        });
        self.scenario.faults.script = needed;
        best
    }

    /// Takes a smaller case for the best if it fails in the same way, as it stands or with its cuts found again; `gone` are the lives that
    /// it has no more.
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
        let Some(mut marks) = self.landmarks(best) else {
            return false;
        };
        for at in gone.unwrap_or_default().iter().rev() {
            if *at < marks.len() {
                marks.remove(*at);
            }
        }
        if self.is_over() {
            return false;
        }
        self.spent.runs += 1;
        let course = Course {
            mends: &[],
            landmarks: Some(&marks),
        };
        let seed = self.scenario.run.seeds.start;
        let (program, trace) = (self.program, TraceMode::Off);
        let driven = drive_on(&self.scenario, &smaller, program, seed, trace, course);
        let Ok(driven) = driven else { return false };
        self.pay(work(&driven.world));
        let fails = driven.case != smaller && self.fails(&driven.case);
        if fails {
            *best = driven.case;
        }
        fails
    }

    fn landmarks(&mut self, case: &Case) -> Option<Vec<Landmark>> {
        if let Some((of, marks)) = &self.marks
            && of == case
        {
            return Some(marks.clone());
        }
        let driven = self.drive(case, TraceMode::Off)?;
        self.marks = Some((case.clone(), driven.landmarks.clone()));
        Some(driven.landmarks)
    }
}

/// The same asked by one client, which closes the guest when all is answered.
fn and_closed(requests: &[CaseRequest]) -> Vec<CaseRequest> {
    let mut all = by_one_client(requests);
    let client = all.first().map_or(0, |request| request.client);
    all.push(CaseRequest {
        client,
        think_ns: 0,
        request: Request::Close,
    });
    all
}
