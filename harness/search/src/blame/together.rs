//! Where no single thing helps: all things of a kind done at once, and then as few of them as are enough.

use kvsim_sim::{Effort, Intervention, Place};
use kvsim_simdisk::OpId;

use super::search::{Suspect, Tier};
use crate::fewer::fewer;
use kvsim_findings::blame::{Fix, Missing};

impl Suspect<'_> {
    /// A smallest set of things that help only together; nothing if not even all of them do.
    pub(super) fn fixes_together(&mut self, tier: Tier) -> Vec<Fix> {
        if self.is_over() || (tier != Tier::Told && self.hopeful(tier == Tier::Ordered).is_empty())
        {
            return Vec::new();
        }
        let all = self.everything(tier);
        if all.is_empty() || !self.all_help_together(&all) {
            return Vec::new();
        }
        // It takes a few runs, and to find out which of them are enough takes many.
        if tier == Tier::Durable && self.is_only_torn(&all) {
            return Vec::new();
        }
        let few = fewer(all, &mut |rest| {
            !rest.is_empty() && self.all_help_together(rest)
        });
        if self.is_over() {
            return Vec::new();
        }
        if tier == Tier::Durable && self.is_only_torn(&few) {
            return Vec::new();
        }
        few.iter()
            .map(|intervention| self.said(intervention))
            .collect()
    }

    /// All that can be done of a kind, in every process run that is cut.
    fn everything(&self, tier: Tier) -> Vec<Intervention> {
        let mut all = Vec::new();
        for process_run in 0..=self.last {
            for place in self.places(process_run) {
                let (place, effort) = match (tier, place) {
                    (Tier::Durable, Place::Submitting(op)) if self.timeline.is_cached_write(op) => {
                        (Place::Submitted(op), Effort::WriteThrough)
                    }
                    (Tier::Told, Place::Replying(id)) if !self.is_a_promise(id) => continue,
                    (Tier::Told, Place::Replying(id)) if self.timeline.is_rash(process_run, id) => {
                        (place, Effort::Later(OpId::MAX))
                    }
                    (Tier::Told, Place::Replying(_)) | (Tier::Ordered, Place::Submitting(_)) => {
                        (place, Effort::Barrier)
                    }
                    _ => continue,
                };
                all.push(Intervention {
                    process_run: process_run as u64 + 1,
                    place,
                    effort,
                });
            }
        }
        all
    }

    /// Whether what these save is missed only where it is torn, and not where it is lost altogether. It is kept.
    fn is_only_torn(&mut self, interventions: &[Intervention]) -> bool {
        self.only_torn = !(0..=self.last).all(|process_run| {
            let here = interventions
                .iter()
                .filter(|intervention| intervention.process_run == process_run as u64 + 1);
            let ops: Vec<OpId> = here
                .filter_map(|intervention| match intervention.place {
                    Place::Submitted(op) => Some(op),
                    _ => None,
                })
                .collect();
            self.fails_lost(process_run, &ops)
        });
        self.only_torn
    }

    fn said(&self, intervention: &Intervention) -> Fix {
        let process_run = usize::try_from(intervention.process_run - 1).unwrap_or(0);
        let what = self.timeline.what(intervention.place);
        let (missing, sentence) = match intervention.effort {
            Effort::WriteThrough => (Missing::WriteThrough, format!("{what} written through")),
            Effort::Later(_) => (
                Missing::LaterAnswer,
                format!("{what} not given, since nothing is written for it"),
            ),
            _ => {
                let missing = match intervention.place {
                    Place::Replying(_) => Missing::LaterAnswer,
                    _ => Missing::Barrier,
                };
                let until = "held back until all that was submitted before it is durable";
                (missing, format!("{what} {until}"))
            }
        };
        self.fix(missing, process_run, &sentence)
    }
}
