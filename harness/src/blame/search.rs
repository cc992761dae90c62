//! Tries one thing after the other, the least first.

use std::collections::BTreeMap;
use std::ops::Range;

use kvsim_sim::{Effort, Mend, Place, TraceMode};
use kvsim_simdisk::{OpId, Sectors};

use super::timeline::Timeline;
use super::{Blame, Cure, Missing, faults};
use crate::case::{Case, CaseLife, Stop, drive_mended};
use crate::explore::{Around, Purse, Reach, Setting, patience, work};
use crate::oracle::{Property, Symptom};
use crate::scenario::Scenario;

/// Operations after an answer whose end it is held back for, one after the other, at most.
const AWAITED_MAX: usize = 12;

/// A case under suspicion.
struct Suspect<'a> {
    setting: Setting<'a>,
    case: &'a Case,
    kind: (Property, Symptom),
    timeline: Timeline,
    /// The same with the last cut left out: what the guest would have done.
    uncut: Timeline,
    /// The life that ends with the last cut.
    last: usize,
    purse: Purse,
    tried: u64,
    /// From which life on, and whether operations wait too: whether all that can be done of the kind helps.
    all_help: BTreeMap<(usize, bool), bool>,
}

/// What is tried before what: the next only if nothing helps before.
#[derive(Clone, Copy)]
enum Tier {
    /// Something is made durable that is not.
    Durable,
    /// Somebody is told later.
    Told,
    /// Space is used again later.
    Reused,
    /// A write is held back.
    Ordered,
}

/// How much has to be well.
#[derive(Clone)]
enum Scope {
    /// Every state of the case's lives.
    Everywhere,
    /// The states of these points of the last life that is cut.
    Here(Range<usize>),
}

pub(super) fn search(setting: Setting<'_>, case: &Case, work_max: u64) -> Result<Blame, String> {
    let seed = setting.scenario.run.seeds.start;
    let run = |scenario: &Scenario, case: &Case| {
        let trace = TraceMode::Full;
        drive_mended(scenario, case, setting.program, seed, trace, &[])
            .map_err(|stop| format!("it cannot be run: {stop:?}"))
    };
    let driven = run(setting.scenario, case)?;
    let Err(Stop::Violation(violation)) = &driven.end else {
        return Err("the case does not fail, so there is nothing to blame".to_owned());
    };
    let Some(last) = case.lives.iter().rposition(|life| life.crash.is_some()) else {
        // Without a cut nothing is lost that a flush could save.
        return Ok(Blame::default());
    };
    let kind = violation.kind();
    if let Some(fault) = faults::needed(setting, case, kind, &driven) {
        return Ok(Blame {
            fault: Some(fault),
            tried: 1,
            ..Blame::default()
        });
    }
    let mut scenario = setting.scenario.clone();
    scenario.run.events_max = patience(&scenario, &driven.world);
    let setting = Setting {
        scenario: &scenario,
        ..setting
    };
    let mut whole = case.clone();
    whole.lives.truncate(last + 1);
    whole.lives[last].crash = None;
    let whole = run(&scenario, &whole)?;
    let mut suspect = Suspect {
        setting,
        case,
        kind,
        timeline: Timeline::new(driven.world.trace(), driven.sent),
        uncut: Timeline::new(whole.world.trace(), whole.sent),
        last,
        purse: Purse { left: work_max },
        tried: 0,
        all_help: BTreeMap::new(),
    };
    let mut blame = Blame::default();
    let stretch = suspect.stretch();
    for tier in [Tier::Durable, Tier::Told, Tier::Ordered, Tier::Reused] {
        blame.cures = suspect.cures(tier, &Scope::Everywhere);
        // Mends of one cut are worth nothing if the same at all of them would not mend all.
        if blame.cures.is_empty()
            && let Some(stretch) = &stretch
            && !matches!(tier, Tier::Reused)
            && (!matches!(tier, Tier::Durable) || suspect.would_all_help(last, false))
        {
            blame.cures = suspect.cures(tier, &Scope::Here(stretch.clone()));
            blame.elsewhere_too = !blame.cures.is_empty();
        }
        if !blame.cures.is_empty() {
            break;
        }
    }
    blame.tried = suspect.tried;
    blame.exhausted = suspect.is_over();
    Ok(blame)
}

impl<'a> Suspect<'a> {
    fn is_over(&self) -> bool {
        self.purse.left == 0 || self.setting.control.stopped().is_some()
    }

    /// The points of the last cut's life around it at which the same failure is possible.
    fn stretch(&mut self) -> Option<Range<usize>> {
        let event = self.case.lives[self.last].crash.as_ref()?.after_event;
        let around = Around::new(self.setting, self.case, self.last, Reach::Recovery, &[])?;
        self.purse.pay(around.work);
        around.stretch(event, self.kind, &mut self.purse)
    }

    fn cures(&mut self, tier: Tier, scope: &Scope) -> Vec<Cure> {
        match tier {
            Tier::Durable => {
                let mut cures = Vec::new();
                for life in self.hopeful(false) {
                    cures.extend(self.write_throughs(life, scope));
                }
                for life in self.hopeful(false) {
                    cures.extend(self.flushes(life, scope));
                }
                cures
            }
            Tier::Told => {
                let mut cures = Vec::new();
                for life in self.hopeful(false) {
                    cures.extend(self.barriers(life, scope, Missing::LaterAnswer));
                }
                if cures.is_empty() {
                    for life in 0..=self.last {
                        cures.extend(self.later_answers(life, scope));
                    }
                }
                cures
            }
            Tier::Reused => match scope {
                Scope::Everywhere => self.reuses(),
                Scope::Here(_) => Vec::new(),
            },
            Tier::Ordered => {
                let lives = self.hopeful(true).into_iter();
                lives
                    .flat_map(|life| self.barriers(life, scope, Missing::Barrier))
                    .collect()
            }
        }
    }

    /// Whether the failure is gone from the last life if, from this life on, all writes are durable when they complete and answers wait for what was
    /// submitted before them; if `ordered`, operations wait for that too. What is possible then is possible with any single mend of that kind: so if
    /// that is not well, none of them can be.
    fn would_all_help(&mut self, from: usize, ordered: bool) -> bool {
        if let Some(known) = self.all_help.get(&(from, ordered)) {
            return *known;
        }
        let mut mends = Vec::new();
        for (life, places) in (1..).zip(&self.uncut.lives).skip(from) {
            let mut mend = |place, effort| {
                mends.push(Mend {
                    incarnation: life,
                    place,
                    effort,
                });
            };
            for place in places {
                match *place {
                    Place::Submitting(op) => {
                        mend(Place::Submitted(op), Effort::WriteThrough);
                        if ordered {
                            mend(*place, Effort::Barrier);
                        }
                    }
                    Place::Replying(_) => mend(*place, Effort::Barrier),
                    Place::Submitted(_) | Place::Completed(_) => {}
                }
            }
        }
        self.tried += 1;
        let kind = Some(self.kind);
        // A case that does not lead there any more says nothing.
        let helps = self.around(self.last, &mends).is_none_or(|around| {
            let first = around.first(around.all(), kind, &mut self.purse);
            first.is_none()
        });
        self.all_help.insert((from, ordered), helps);
        helps
    }

    /// Lives in which something done of this kind may help.
    fn hopeful(&mut self, ordered: bool) -> Vec<usize> {
        let lives = 0..=self.last;
        lives
            .filter(|life| self.would_all_help(*life, ordered))
            .collect()
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
                && self.harms_lost(life, &[op])
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
                    && self.harms_lost(life, &completed(&places[..=at]))
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

    /// Writes of the life that is cut last of which it was too early to overwrite what was durable there: with that in place it passes,
    /// and with zeroes there it fails in the same way. So it is what was there that is missed, and not the write that does harm. One that is torn
    /// would do harm whole as well: else it is the tear that is not endured.
    fn reuses(&mut self) -> Vec<Cure> {
        let life = self.last;
        let places = self.places(life).into_iter();
        let writes: Vec<OpId> = places
            .filter_map(|place| match place {
                Place::Submitting(op) if self.timeline.changes(op) => Some(op),
                _ => None,
            })
            .collect();
        let mut cures = Vec::new();
        for op in writes {
            if self.is_over() {
                break;
            }
            let with = |effort| {
                [Mend {
                    incarnation: life as u64 + 1,
                    place: Place::Submitted(op),
                    effort,
                }]
            };
            self.tried += 2;
            let is_missed = matches!(self.end(&with(Effort::Aside)), Some(Ok(())))
                && matches!(
                    self.end(&with(Effort::Erased)),
                    Some(Err(Stop::Violation(violation)))
                        if violation.kind() == self.kind
                );
            if !is_missed || !self.harms_whole(op) {
                continue;
            }
            let sentence = format!(
                "{} not yet, for what it overwrites is still needed",
                self.timeline.operation(op)
            );
            cures.push(self.cure(Missing::LaterReuse, life, &sentence));
        }
        cures
    }

    /// Whether what the last cut keeps of a write in part, if it does, ends in a failure of whatever kind if it is kept whole.
    fn harms_whole(&mut self, op: OpId) -> bool {
        let mut case = self.case.clone();
        let crash = case.lives[self.last].crash.as_mut();
        let survivors = crash.into_iter().flat_map(|crash| &mut crash.survivors);
        let mut torn = survivors.filter(|own| own.id == op && own.sectors != Sectors::All);
        let Some(torn) = torn.next() else {
            return true;
        };
        torn.sectors = Sectors::All;
        self.fails(&case)
    }

    /// Whether what this life's cut keeps in part of these operations, if it does of any, ends in a failure of whatever kind if it is lost
    /// altogether. What a flush saves has to be missed: a guest that does without all of it, and not without a part of it, misses no flush but
    /// does not endure the tear.
    fn harms_lost(&mut self, life: usize, ops: &[OpId]) -> bool {
        let mut case = self.case.clone();
        let Some(crash) = case.lives[life].crash.as_mut() else {
            return true;
        };
        let kept = crash.survivors.len();
        crash
            .survivors
            .retain(|own| own.sectors == Sectors::All || !ops.contains(&own.id));
        crash.survivors.len() == kept || self.fails(&case)
    }

    fn fails(&mut self, case: &Case) -> bool {
        self.tried += 1;
        matches!(self.end_of(case, &[]), Some(Err(Stop::Violation(_))))
    }

    /// Answers, or else operations, that have to wait for all that was submitted before them.
    fn barriers(&mut self, life: usize, scope: &Scope, missing: Missing) -> Vec<Cure> {
        let mut cures = Vec::new();
        for place in self.places(life) {
            let fits = match place {
                Place::Replying(_) => missing == Missing::LaterAnswer,
                Place::Submitting(_) => missing == Missing::Barrier,
                Place::Submitted(_) | Place::Completed(_) => false,
            };
            if fits && self.helps(life, place, Effort::Barrier, scope) {
                let what = self.timeline.what(place);
                let sentence =
                    format!("{what} held back until all that was submitted before it is durable");
                cures.push(self.cure(missing, life, &sentence));
            }
        }
        cures
    }

    /// Answers that are given before anything is written for them, and have to wait for an operation that ends only afterwards: the first
    /// one whose end is late enough; or for good, if what they promise is never written.
    fn later_answers(&mut self, life: usize, scope: &Scope) -> Vec<Cure> {
        let ends = self.uncut.ends.get(life).cloned().unwrap_or_default();
        let mut cures = Vec::new();
        for place in self.places(life) {
            let Place::Replying(id) = place else {
                continue;
            };
            if !self.timeline.is_rash(life, id) {
                continue;
            }
            let after = ends.iter().skip_while(|end| **end != place);
            let awaited = after.filter_map(|end| match end {
                Place::Completed(op) => Some(*op),
                _ => None,
            });
            let awaited: Vec<OpId> = awaited.take(AWAITED_MAX).chain([OpId::MAX]).collect();
            let helps = |op: &&OpId| self.helps(life, place, Effort::Later(**op), scope);
            if let Some(&op) = awaited.iter().find(helps) {
                let what = self.timeline.what(place);
                let sentence = match op {
                    OpId::MAX => format!("{what} not given, since nothing is written for it"),
                    op => format!(
                        "{what} held back until {} has completed",
                        self.uncut.operation(op)
                    ),
                };
                cures.push(self.cure(Missing::LaterAnswer, life, &sentence));
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
        let kind = Some(self.kind);
        let helps = match scope {
            Scope::Everywhere => (life..=self.last).all(|at| self.is_well(at, &mends)),
            Scope::Here(points) => self.around(self.last, &mends).is_some_and(|around| {
                let first = around.first(points.clone(), kind, &mut self.purse);
                first.is_none()
            }),
        };
        // What ended on the way found nothing for want of looking.
        helps && !self.is_over()
    }

    fn case_passes(&mut self, mends: &[Mend]) -> bool {
        matches!(self.end(mends), Some(Ok(())))
    }

    /// How the case ends; what cannot be run says nothing.
    fn end(&mut self, mends: &[Mend]) -> Option<Result<(), Stop>> {
        self.end_of(self.case, mends)
    }

    fn end_of(&mut self, case: &Case, mends: &[Mend]) -> Option<Result<(), Stop>> {
        let Setting {
            scenario, program, ..
        } = self.setting;
        let seed = scenario.run.seeds.start;
        let driven = drive_mended(scenario, case, program, seed, TraceMode::Off, mends);
        let driven = driven.ok()?;
        self.purse.pay(work(&driven.world));
        Some(driven.end)
    }

    /// Whether no state of this life leads to the failure; of the last one that is cut, to no failure at all.
    fn is_well(&mut self, life: usize, mends: &[Mend]) -> bool {
        let kind = (life != self.last).then_some(self.kind);
        self.around(life, mends).is_some_and(|around| {
            let first = around.first(around.all(), kind, &mut self.purse);
            first.is_none()
        })
    }

    fn around(&mut self, life: usize, mends: &[Mend]) -> Option<Around<'a>> {
        let next = self.case.lives.get(life + 1);
        let works = next.is_some_and(|next: &CaseLife| !next.requests.is_empty());
        let reach = match works {
            true => Reach::Again,
            false if life < self.last && !self.case.faults.is_empty() => Reach::Errors,
            false if life < self.last => Reach::Deeper,
            false => Reach::Recovery,
        };
        let around = Around::new(self.setting, self.case, life, reach, mends)?;
        self.purse.pay(around.work);
        Some(around)
    }
}

/// The operations that have completed at these places.
fn completed(places: &[Place]) -> Vec<OpId> {
    let ends = places.iter().filter_map(|place| match place {
        Place::Completed(op) => Some(*op),
        _ => None,
    });
    ends.collect()
}
