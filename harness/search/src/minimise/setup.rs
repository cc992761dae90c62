//! A smaller setup: options of the guest, the device, the work after a recovery, the fuel of a call. What takes a long history in large segments takes a short one in small
//! ones. Nothing is known of what an option means: it is a number, and smaller ones are tried; one that the guest refuses does not fail.

use kvsim_sim::TraceMode;

use super::Shrinking;
use super::condense::BYTES_MIN;
use super::find::extent;
use super::site::{open_of, sites};
use crate::explore::meaning::Meaning;
use crate::explore::open::{Extent, Reach};
use kvsim_api::units::OptionText;
use kvsim_drive::case::Stop;
use kvsim_oracle::{Class, Symptom};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{Case, CaseRequest};
use kvsim_simdisk::FlushKind;

/// What a number is divided by, the smallest result first.
pub(super) const DIVISORS: [u64; 5] = [64, 16, 8, 4, 2];
/// A call that has not returned with a hundredth of its fuel is taken for one that hangs, until the case is small.
const HANG_SHARE: u64 = 100;
/// But not with less than this, nor before so many events: what works takes that too.
const HANG_FUEL_MIN: u64 = 20_000_000;
const HANG_EVENTS_MIN: u64 = 10_000;

/// A case, and what is known of it before its setup is changed.
struct Before<'c> {
    case: &'c Case,
    extent: Extent,
    /// The meanings of its cuts.
    like: Vec<Option<Meaning>>,
    asked: Vec<CaseRequest>,
    /// No cut is needed, and the guest can hold what it is asked. A guest that can hold nothing in a smaller setup refuses it there, and that is no smaller
    /// form of what it refuses here.
    had_room: bool,
}

impl Shrinking<'_> {
    /// Makes numbers among the options smaller, and the device, as far as the same failure is found then.
    pub(super) fn smaller_setup(&mut self, mut best: Case) -> Case {
        let numbers = |scenario: &Scenario| -> Vec<(String, u64)> {
            let options = scenario.guest.options_of(self.program.options_name());
            options
                .iter()
                .filter_map(|(name, text)| Some((name.clone(), text.0.parse().ok()?)))
                .collect()
        };
        for (name, number) in numbers(&self.scenario) {
            best = self.smaller_number(best, number, &|scenario, smaller| {
                let text = OptionText(smaller.to_string());
                scenario.guest.options.insert(name.clone(), text);
            });
        }
        if self.scenario.files.is_some() {
            return self.less_work(best);
        }
        let device = &self.scenario.device;
        let block = device.sector_bytes.max(device.physical_block_bytes);
        let grown = device.max_capacity_bytes;
        if grown > 0 {
            best = self.smaller_number(best, grown, &|scenario, smaller| {
                let device = &mut scenario.device;
                device.max_capacity_bytes = smaller.next_multiple_of(block.into());
                device.capacity_bytes = device.capacity_bytes.min(device.max_capacity_bytes);
            });
        }
        let bytes = self.scenario.device.capacity_bytes;
        best = self.smaller_number(best, bytes, &|scenario, smaller| {
            scenario.device.capacity_bytes = smaller.next_multiple_of(block.into());
        });
        self.less_work(best)
    }

    /// Lets clients ask less after a recovery.
    pub(super) fn less_work(&mut self, best: Case) -> Case {
        let is_again = |case: &Case| sites(case).iter().any(|site| site.reach == Reach::Again);
        if !is_again(&best) {
            return best;
        }
        let work = self.scenario.explore.work;
        self.smaller_number(best, work, &|scenario, smaller| {
            scenario.explore.work = smaller;
        })
    }

    /// Makes a device whose flush only orders one whose flush saves, if the same failure is found there: fewer states are possible then, and whoever reads
    /// the case has less to think of.
    pub(super) fn plain_flush(&mut self, best: Case) -> Case {
        if self.scenario.device.flush != FlushKind::Barrier {
            return best;
        }
        let Some(before) = self.before(&best) else {
            return best;
        };
        let found = self.in_setup(&before, |scenario| {
            scenario.device.flush = FlushKind::Durable;
        });
        found.unwrap_or(best)
    }

    /// The smallest number with which the same failure is found, by no more requests.
    fn smaller_number(
        &mut self,
        best: Case,
        number: u64,
        set: &dyn Fn(&mut Scenario, u64),
    ) -> Case {
        let Some(before) = self.before(&best) else {
            return best;
        };
        let smaller = DIVISORS.iter().map(|divisor| number / divisor);
        // Where half is too little, there may be something in between.
        let little_less = [number / 4 * 3, number / 8 * 7];
        let found = smaller
            .chain(little_less)
            .filter(|smaller| (1..number).contains(smaller))
            .find_map(|smaller| self.in_setup(&before, |scenario| set(scenario, smaller)));
        found.unwrap_or(best)
    }

    fn before<'c>(&mut self, case: &'c Case) -> Option<Before<'c>> {
        let open = open_of(case)?;
        let like = self.like(case);
        let asked: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let had_room = case.crashes() == 0 && self.takes_batches(&asked, BYTES_MIN);
        Some(Before {
            case,
            extent: extent(case.process_runs[open].requests.len()),
            like,
            asked,
            had_room,
        })
    }

    /// The same failure in a setup that is changed so, by no more requests. If there is none, the setup stays as it is.
    fn in_setup(&mut self, before: &Before<'_>, set: impl FnOnce(&mut Scenario)) -> Option<Case> {
        let case = before.case;
        self.with(set, |this| {
            let mut here = sites(case).into_iter();
            let found = here.find_map(|site| this.find(case, site, &before.like, before.extent))?;
            if before.had_room && !this.takes_batches(&before.asked, BYTES_MIN) {
                return None;
            }
            // What fails without a cut in a smaller setup, and did not before, is something else.
            let is_cut = |case: &Case| case.crashes() > 0;
            let is_smaller = found.requests() <= case.requests() && is_cut(&found) == is_cut(case);
            is_smaller.then_some(found)
        })
    }

    /// Lets a guest that hangs, in a call or in many, do so sooner. Gives the limits that it had.
    pub(super) fn shorten_hangs(&mut self, case: &Case) -> (u64, u64) {
        let (fuel, events) = self.hangs_after();
        let share = |limit: u64, min: u64| (limit / HANG_SHARE).max(min).min(limit);
        match self.likeness.classes.own {
            Class::Other(Symptom::OutOfFuel) => {
                self.hang_after((share(fuel, HANG_FUEL_MIN), events))
            }
            Class::Other(Symptom::Endless) => {
                self.hang_after((fuel, share(events, HANG_EVENTS_MIN)))
            }
            _ => return (fuel, events),
        }
        if !self.fails(case) {
            self.hang_after((fuel, events));
        }
        (fuel, events)
    }

    fn hangs_after(&self) -> (u64, u64) {
        let guest = &self.scenario.guest;
        (guest.fuel_per_call, guest.events_per_answer)
    }

    fn hang_after(&mut self, (fuel, events): (u64, u64)) {
        let guest = &mut self.scenario.guest;
        (guest.fuel_per_call, guest.events_per_answer) = (fuel.max(1), events.max(1));
    }

    /// Gives these limits back, unless the case needs shorter ones.
    pub(super) fn lengthen_hangs(&mut self, limits: (u64, u64), case: &Case) {
        let shorter = self.hangs_after();
        if shorter == limits {
            return;
        }
        self.hang_after(limits);
        // Not `fails`: the budget may be spent, and this one has to be known.
        let end = self.drive(case, TraceMode::Off).map(|driven| driven.end);
        let fails =
            matches!(end, Some(Err(Stop::Violation(violation))) if self.is_same(&violation));
        if !fails {
            self.hang_after(shorter);
        }
    }
}
