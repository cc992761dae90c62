//! Tries one thing after the other, the least first.

use std::ops::Range;

use kvsim_sim::{Effort, Mend, Place, TraceMode};

use super::timeline::Timeline;
use super::{Blame, Cure, Missing};
use crate::case::{Case, CaseLife, Stop, drive_mended};
use crate::explore::{Around, Reach, Setting};
use crate::oracle::{Property, Symptom};

/// A case under suspicion.
struct Suspect<'a> {
    setting: Setting<'a>,
    case: &'a Case,
    kind: (Property, Symptom),
    timeline: Timeline,
    /// The life that ends with the last cut.
    last: usize,
    left: u64,
    tried: u64,
}

/// How much has to be well.
#[derive(Clone)]
enum Scope {
    /// Every state of the case's lives.
    Everywhere,
    /// The states of these points of the last life that is cut.
    Here(Range<usize>),
}

pub(super) fn search(
    setting: Setting<'_>,
    case: &Case,
    explorations_max: u64,
) -> Result<Blame, String> {
    let seed = setting.scenario.run.seeds.start;
    let run = |trace| drive_mended(setting.scenario, case, setting.program, seed, trace, &[]);
    let driven = run(TraceMode::Full).map_err(|stop| format!("it cannot be run: {stop:?}"))?;
    let Err(Stop::Violation(violation)) = driven.end else {
        return Err("the case does not fail, so there is nothing to blame".to_owned());
    };
    let Some(last) = case.lives.iter().rposition(|life| life.crash.is_some()) else {
        // Without a cut nothing is lost that a flush could save.
        return Ok(Blame::default());
    };
    let mut suspect = Suspect {
        setting,
        case,
        kind: (violation.property, violation.symptom),
        timeline: Timeline::new(driven.world.trace(), driven.sent),
        last,
        left: explorations_max,
        tried: 0,
    };
    let mut cures = suspect.cures(&Scope::Everywhere);
    let mut elsewhere_too = false;
    if cures.is_empty()
        && let Some(stretch) = suspect.stretch()
    {
        cures = suspect.cures(&Scope::Here(stretch));
        elsewhere_too = !cures.is_empty();
    }
    Ok(Blame {
        cures,
        elsewhere_too,
        tried: suspect.tried,
        exhausted: suspect.is_over(),
    })
}

impl Suspect<'_> {
    fn is_over(&self) -> bool {
        self.left == 0 || self.setting.control.stopped().is_some()
    }

    /// The points of the last cut's life around it at which the same failure is possible.
    fn stretch(&self) -> Option<Range<usize>> {
        let event = self.case.lives[self.last].crash.as_ref()?.after_event;
        let around = Around::new(self.setting, self.case, self.last, Reach::Recovery, &[])?;
        around.stretch(event, self.kind)
    }

    /// What helps: writes written through and flushes, or else barriers.
    fn cures(&mut self, scope: &Scope) -> Vec<Cure> {
        let mut cures = Vec::new();
        for life in 0..=self.last {
            cures.extend(self.write_throughs(life, scope));
        }
        for life in 0..=self.last {
            cures.extend(self.flushes(life, scope));
        }
        if cures.is_empty() {
            for life in 0..=self.last {
                cures.extend(self.barriers(life, scope));
            }
        }
        cures
    }

    fn cure(&self, missing: Missing, life: usize, sentence: &str) -> Cure {
        let when = if self.last == 0 {
            String::new()
        } else {
            format!(" (in life {} of the device)", life + 1)
        };
        Cure {
            missing,
            life: life as u64 + 1,
            sentence: format!("{sentence}{when}"),
        }
    }

    fn places(&self, life: usize) -> Vec<Place> {
        self.timeline.lives.get(life).cloned().unwrap_or_default()
    }

    fn write_throughs(&mut self, life: usize, scope: &Scope) -> Vec<Cure> {
        let mut cures = Vec::new();
        for place in self.places(life) {
            let Place::Submitting(op) = place else {
                continue;
            };
            if self.timeline.is_cached_write(op)
                && self.helps(life, Place::Submitted(op), Effort::WriteThrough, scope)
            {
                let write = self.timeline.operation(op);
                let sentence = format!("{write} written through");
                cures.push(self.cure(Missing::WriteThrough, life, &sentence));
            }
        }
        cures
    }

    /// Flushes, stretches of places at which one helps taken together.
    fn flushes(&mut self, life: usize, scope: &Scope) -> Vec<Cure> {
        let places = self.places(life);
        // A flush before the first write has nothing to do.
        let first = places
            .iter()
            .position(|place| matches!(place, Place::Completed(_)));
        let helps: Vec<bool> = (0..places.len())
            .map(|at| {
                first.is_some_and(|first| at >= first)
                    && self.helps(life, places[at], Effort::Flush, scope)
            })
            .collect();
        let mut cures = Vec::new();
        let mut at = 0;
        for stretch in helps.chunk_by(|one, other| one == other) {
            let (begin, end) = (at, at + stretch.len());
            at = end;
            if stretch[0] {
                let sentence = self.between(&places, begin, end - 1);
                cures.push(self.cure(Missing::Flush, life, &sentence));
            }
        }
        cures
    }

    /// From what to what a flush may come that helps at these places.
    fn between(&self, places: &[Place], begin: usize, end: usize) -> String {
        let what = |at: usize| self.timeline.what(places[at]);
        let from = match places[begin] {
            Place::Completed(_) => Some(begin),
            _ => begin.checked_sub(1),
        };
        let to = match places[end] {
            Place::Completed(_) => Some(end + 1).filter(|next| *next < places.len()),
            _ => Some(end),
        };
        match (from, to) {
            (Some(from), Some(to)) => format!("a flush between {} and {}", what(from), what(to)),
            (Some(from), None) => format!("a flush after {}", what(from)),
            (None, Some(to)) => format!("a flush before {}", what(to)),
            (None, None) => "a flush".to_owned(),
        }
    }

    fn barriers(&mut self, life: usize, scope: &Scope) -> Vec<Cure> {
        let mut cures = Vec::new();
        for place in self.places(life) {
            if !matches!(place, Place::Completed(_))
                && self.helps(life, place, Effort::Barrier, scope)
            {
                let what = self.timeline.what(place);
                let sentence =
                    format!("{what} held back until all that was submitted before it is durable");
                cures.push(self.cure(Missing::Barrier, life, &sentence));
            }
        }
        cures
    }

    /// Whether this, done for the guest, ends the failure: in the case, and in the states around it.
    fn helps(&mut self, life: usize, place: Place, effort: Effort, scope: &Scope) -> bool {
        if self.is_over() || (life != self.last && matches!(scope, Scope::Here(_))) {
            return false;
        }
        self.tried += 1;
        let mends = [Mend {
            incarnation: life as u64 + 1,
            place,
            effort,
        }];
        if !self.case_passes(&mends) {
            return false;
        }
        let kind = self.kind;
        let helps = match scope {
            Scope::Everywhere => (life..=self.last).all(|at| self.is_well(at, &mends)),
            Scope::Here(points) => self
                .around(self.last, &mends)
                .is_some_and(|around| around.first(points.clone(), Some(kind)).is_none()),
        };
        // What was stopped on the way found nothing for want of looking.
        helps && self.setting.control.stopped().is_none()
    }

    fn case_passes(&self, mends: &[Mend]) -> bool {
        let Setting {
            scenario, program, ..
        } = self.setting;
        let seed = scenario.run.seeds.start;
        let driven = drive_mended(scenario, self.case, program, seed, TraceMode::Off, mends);
        // What cannot be run says nothing.
        driven.is_ok_and(|driven| matches!(driven.end, Ok(())))
    }

    /// Whether no state of this life leads to the failure; of the last one that is cut, to no failure at all.
    fn is_well(&mut self, life: usize, mends: &[Mend]) -> bool {
        let kind = (life != self.last).then_some(self.kind);
        self.around(life, mends)
            .is_some_and(|around| around.first(around.all(), kind).is_none())
    }

    fn around(&mut self, life: usize, mends: &[Mend]) -> Option<Around<'_>> {
        self.left = self.left.checked_sub(1)?;
        let next = self.case.lives.get(life + 1);
        let works = next.is_some_and(|next: &CaseLife| !next.requests.is_empty());
        let reach = match works {
            true => Reach::Again,
            false if life < self.last && !self.case.faults.is_empty() => Reach::Errors,
            false if life < self.last => Reach::Deeper,
            false => Reach::Recovery,
        };
        Around::new(self.setting, self.case, life, reach, mends)
    }
}
