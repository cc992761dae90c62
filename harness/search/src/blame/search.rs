//! Tries one thing after the other, the least first.

use std::collections::BTreeMap;

use kvsim_sim::{Effort, Mend, Place, TraceMode};
use kvsim_simdisk::{OpId, Sectors};

use super::timeline::Timeline;
use super::{conditions, faults};
use crate::explore::open::{OpenRun, Plan, Purse, Reach, Setting};
use crate::explore::toll::{patience, work};
use kvsim_drive::case::{Stop, drive_mended};
use kvsim_findings::blame::{Blame, Cure, Missing};
use kvsim_oracle::Class;
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseLife};

/// Operations after an answer whose end it is held back for, one after the other, at most.
const AWAITED_MAX: usize = 12;

/// A case under suspicion.
pub(super) struct Suspect<'a> {
    setting: Setting<'a>,
    pub(super) case: &'a Case,
    class: Class,
    pub(super) timeline: Timeline,
    /// The same with the last cut left out: what the guest would have done.
    uncut: Timeline,
    /// The life that ends with the last cut.
    pub(super) last: usize,
    purse: Purse,
    pub(super) tried: u64,
    /// From which life on, and whether operations wait too: whether all that can be done of the kind helps.
    all_help: BTreeMap<(usize, bool), bool>,
    /// What could be saved is missed only where it is torn.
    pub(super) only_torn: bool,
}

/// What is tried before what: the next only if nothing helps before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// Something is made durable that is not.
    Durable,
    /// Somebody is told later.
    Told,
    /// Space is used again later.
    Reused,
    /// A write is held back.
    Ordered,
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
    let class = violation.class();
    if let Some(fault) = faults::needed(setting, case, class, &driven) {
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
    let reads = conditions::reads(driven.world.trace());
    let mut suspect = Suspect {
        setting,
        case,
        class,
        timeline: Timeline::new(driven.world.trace(), driven.sent),
        uncut: Timeline::new(whole.world.trace(), whole.sent),
        last,
        purse: Purse { left: work_max },
        tried: 0,
        all_help: BTreeMap::new(),
        only_torn: false,
    };
    if setting.scenario.files.is_some() {
        let cuts = &driven.world.trace().notes().cuts;
        return Ok(super::files::search(&mut suspect, cuts));
    }
    let mut blame = Blame::default();
    for tier in [Tier::Durable, Tier::Told, Tier::Ordered, Tier::Reused] {
        blame.cures = suspect.cures(tier);
        if blame.cures.is_empty() {
            blame.cures = suspect.cures_together(tier);
            blame.together = blame.cures.len() > 1;
        }
        if !blame.cures.is_empty() {
            break;
        }
    }
    if blame.cures.is_empty() || blame.is_of_recovery() {
        blame.conditions = conditions::all(&mut suspect, &reads);
    }
    blame.only_torn = blame.cures.is_empty() && suspect.only_torn;
    blame.tried = suspect.tried;
    blame.exhausted = suspect.is_over();
    Ok(blame)
}

impl<'a> Suspect<'a> {
    pub(super) fn is_over(&self) -> bool {
        self.purse.left == 0 || self.setting.control.stopped().is_some()
    }

    fn cures(&mut self, tier: Tier) -> Vec<Cure> {
        match tier {
            Tier::Durable => {
                let mut cures = Vec::new();
                for life in self.hopeful(false) {
                    cures.extend(self.write_throughs(life));
                }
                for life in self.hopeful(false) {
                    cures.extend(self.flushes(life));
                }
                cures
            }
            Tier::Told => {
                let mut cures = Vec::new();
                for life in self.hopeful(false) {
                    cures.extend(self.barriers(life, Missing::LaterAnswer));
                }
                if cures.is_empty() {
                    for life in 0..=self.last {
                        cures.extend(self.later_answers(life));
                    }
                }
                cures
            }
            Tier::Reused => self.reuses(),
            Tier::Ordered => {
                let lives = self.hopeful(true).into_iter();
                lives
                    .flat_map(|life| self.barriers(life, Missing::Barrier))
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
                    Place::Submitted(_) | Place::Completed(_) | Place::Called(_) => {}
                }
            }
        }
        self.tried += 1;
        let class = Some(self.class);
        // A case that does not lead there any more says nothing.
        let cut = self.case.lives[self.last].crash.as_ref();
        let event = cut.map_or(u64::MAX, |crash| crash.after_event);
        let helps = self.around(self.last, &mends).is_none_or(|around| {
            let first = around.first(around.neighbours(event), class, &mut self.purse);
            first.is_none()
        });
        self.all_help.insert((from, ordered), helps);
        helps
    }

    /// Lives in which something done of this kind may help.
    pub(super) fn hopeful(&mut self, ordered: bool) -> Vec<usize> {
        let lives = 0..=self.last;
        // Each takes a run of all that comes before it, so whoever is out of time asks no more.
        lives
            .filter(|life| !self.is_over() && self.would_all_help(*life, ordered))
            .collect()
    }

    pub(super) fn cure(&self, missing: Missing, life: usize, sentence: &str) -> Cure {
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

    pub(super) fn places(&self, life: usize) -> Vec<Place> {
        self.timeline.lives.get(life).cloned().unwrap_or_default()
    }

    fn write_throughs(&mut self, life: usize) -> Vec<Cure> {
        let mut cures = Vec::new();
        for place in self.places(life) {
            let Place::Submitting(op) = place else {
                continue;
            };
            if self.timeline.is_cached_write(op)
                && self.helps(life, Place::Submitted(op), Effort::WriteThrough)
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
    fn flushes(&mut self, life: usize) -> Vec<Cure> {
        let places = self.places(life);
        // A flush before the first write has nothing to do.
        let first = places
            .iter()
            .position(|place| matches!(place, Place::Completed(_)));
        let helps: Vec<bool> = (0..places.len())
            .map(|at| {
                first.is_some_and(|first| at >= first)
                    && self.helps(life, places[at], Effort::Flush)
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
                        if violation.class() == self.class
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
    pub(super) fn harms_lost(&mut self, life: usize, ops: &[OpId]) -> bool {
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

    pub(super) fn fails(&mut self, case: &Case) -> bool {
        self.tried += 1;
        matches!(self.end_of(case, &[]), Some(Err(Stop::Violation(_))))
    }

    /// Answers, or else operations, that have to wait for all that was submitted before them.
    fn barriers(&mut self, life: usize, missing: Missing) -> Vec<Cure> {
        let mut cures = Vec::new();
        for place in self.places(life) {
            let fits = match place {
                Place::Replying(_) => missing == Missing::LaterAnswer,
                Place::Submitting(_) => missing == Missing::Barrier,
                Place::Submitted(_) | Place::Completed(_) | Place::Called(_) => false,
            };
            if fits && self.helps(life, place, Effort::Barrier) {
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
    fn later_answers(&mut self, life: usize) -> Vec<Cure> {
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
            let helps = |op: &&OpId| self.helps(life, place, Effort::Later(**op));
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
    fn helps(&mut self, life: usize, place: Place, effort: Effort) -> bool {
        self.all_help_together(&[Mend {
            incarnation: life as u64 + 1,
            place,
            effort,
        }])
    }

    /// The same for several things that are done at once.
    pub(super) fn all_help_together(&mut self, mends: &[Mend]) -> bool {
        let Some(first) = mends.iter().map(|mend| mend.incarnation).min() else {
            return false;
        };
        if self.is_over() {
            return false;
        }
        self.tried += 1;
        let first = usize::try_from(first - 1).unwrap_or(usize::MAX);
        let helps =
            self.case_passes(mends) && (first..=self.last).all(|at| self.is_well(at, mends));
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
        let class = (life != self.last).then_some(self.class);
        let cut = self.case.lives[life].crash.as_ref();
        let event = cut.map_or(u64::MAX, |crash| crash.after_event);
        self.around(life, mends).is_some_and(|around| {
            let first = around.first(around.neighbours(event), class, &mut self.purse);
            first.is_none()
        })
    }

    fn around(&mut self, life: usize, mends: &[Mend]) -> Option<OpenRun<'a>> {
        let next = self.case.lives.get(life + 1);
        let works = next.is_some_and(|next: &CaseLife| !next.requests.is_empty());
        let reach = match works {
            true => Reach::Again,
            false if life < self.last && !self.case.faults.is_empty() => Reach::Errors,
            false if life < self.last => Reach::Deeper,
            false => Reach::Recovery,
        };
        let around = open_run(self.setting, self.case, life, reach, mends)?;
        self.purse.pay(around.work);
        Some(around)
    }
}

/// A process run of a case once more, uncut, with this done for the guest.
fn open_run<'a>(
    setting: Setting<'a>,
    case: &Case,
    life: usize,
    reach: Reach,
    mends: &[Mend],
) -> Option<OpenRun<'a>> {
    let before = Case {
        lives: case.lives.get(..life)?.to_vec(),
        faults: case.faults.clone(),
    };
    let plan = Plan {
        before: &before,
        requests: &case.lives.get(life)?.requests,
        after: None,
        reach,
    };
    OpenRun::new(setting, plan, mends)
}

/// The operations that have completed at these places.
fn completed(places: &[Place]) -> Vec<OpId> {
    let ends = places.iter().filter_map(|place| match place {
        Place::Completed(op) => Some(*op),
        _ => None,
    });
    ends.collect()
}
