//! Cases of many crashes: the same failure from scratch with one or two, or else fewer of them; and fewer faults.

use kvsim_sim::TraceMode;

use super::steps::{DEEPER_REQUESTS_MAX, explorable};
use super::{Shrinking, fewer};
use crate::case::{Case, CaseRequest, Course, Landmark, drive, drive_on};
use crate::explore::Reach;

/// Requests that are explored from scratch at most.
const REQUESTS_MAX: usize = 160;

impl Shrinking<'_> {
    /// The same kind of failure of a blank device that is asked what clients asked last, then more and more of what they asked before:
    /// most bugs need no long history. The case itself if that comes to nothing.
    pub(super) fn found_from_scratch(&mut self, case: Case) -> Case {
        if explorable(&case).is_some() || case.crashes() == 0 {
            return case;
        }
        let mut requests: Vec<CaseRequest> = Vec::new();
        let mut lives = case.lives.iter().rev();
        let mut wanted = 1;
        loop {
            let mut taken = 0;
            let mut is_all = false;
            while taken < wanted {
                let Some(life) = lives.next() else {
                    is_all = true;
                    break;
                };
                requests.splice(0..0, life.requests.iter().cloned());
                taken += usize::from(!life.requests.is_empty());
            }
            wanted *= 2;
            let excess = requests.len().saturating_sub(REQUESTS_MAX);
            requests.drain(..excess);
            for reach in [Reach::Recovery, Reach::Again, Reach::Deeper] {
                if reach == Reach::Deeper && requests.len() > DEEPER_REQUESTS_MAX {
                    continue;
                }
                if let Some(found) = self.find(&requests, reach) {
                    return found;
                }
            }
            if is_all || excess > 0 || self.is_over() {
                return case;
            }
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
        self.left.runs -= 1;
        let course = Course {
            mends: &[],
            landmarks: Some(&marks),
        };
        let seed = self.scenario.run.seeds.start;
        let (program, trace) = (self.program, TraceMode::Off);
        let driven = drive_on(&self.scenario, &smaller, program, seed, trace, course);
        let Ok(driven) = driven else { return false };
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
        let seed = self.scenario.run.seeds.start;
        let driven = drive(&self.scenario, case, self.program, seed, TraceMode::Off).ok()?;
        self.marks = Some((case.clone(), driven.landmarks.clone()));
        Some(driven.landmarks)
    }
}
