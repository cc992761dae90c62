//! The answer to an opening: ready, or a refusal that the device's faults may excuse.

use crate::oracle::Oracle;
use crate::property::Property;
use crate::truth::DeviceTruth;
use crate::violation::{Symptom, Violation};
use crate::words::{answer, message};
use kvsim_sim::api::{Reply, Status};

/// What an opening came to, when it is no violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// The guest is open. Read back next.
    Ready,
    /// The guest reports damage, as it should: this device can be opened no more.
    Damaged(String),
    /// An honest device error stood in the way, or the device is full. Opening again may do.
    DeviceError(String),
    /// The guest will not have its configuration, or so small a device, when it is to create a database: a wrong scenario, not a finding.
    Rejected(String),
}

impl Oracle {
    /// Judges the answer to an opening.
    ///
    /// # Errors
    /// The violation, if the guest refuses for no reason.
    pub fn opened(
        &mut self,
        reply: &Reply,
        truth: &DeviceTruth,
    ) -> Result<Opening, Box<Violation>> {
        let opening = self.opening(reply, truth)?;
        self.faults_seen = truth.this_run;
        if !matches!(opening, Opening::Ready | Opening::Rejected(_)) {
            self.counts.reports_accepted += 1;
        }
        Ok(opening)
    }

    /// The same without counting it, for one oracle that judges many openings.
    ///
    /// # Errors
    /// As [`Oracle::opened`].
    pub fn opening(&self, reply: &Reply, truth: &DeviceTruth) -> Result<Opening, Box<Violation>> {
        let refusal = |property, symptom, although: &str| {
            let sentence = format!(
                "{}, the guest refuses to open, answering {}, {although}",
                self.when(),
                answer(reply)
            );
            Err(Violation::new(property, symptom, sentence, self.facts()))
        };
        let run = &truth.this_run;
        let write_failed = run.write_failures + run.flush_failures + run.no_space > 0;
        let full_is_no_reason = self.config.policies.opens_when_full && truth.is_unharmed();
        // Nothing is on the device yet.
        let is_first = self.crashes == 0 && self.counts.recoveries == 0;
        match reply.status {
            Status::Ok => return Ok(Opening::Ready),
            Status::Invalid | Status::NoSpace if is_first && run.no_space == 0 => {
                return Ok(Opening::Rejected(message(reply).unwrap_or_default()));
            }
            Status::Corruption if !truth.has_shown_damage() => {
                return refusal(
                    Property::AcknowledgedDurable,
                    Symptom::FalseAlarm,
                    &format!("although {}", truth.no_damage()),
                );
            }
            Status::IoError if !write_failed && truth.failing_sectors == 0 => {
                let although = match run.read_failures {
                    0 if run.torn_reads > 0 => {
                        "although no operation of the device has failed since the guest was started, but for reads of sectors that a power cut has torn"
                    }
                    0 => {
                        "although no operation of the device has failed since the guest was started"
                    }
                    _ => "although every sector of which a read has failed was read since",
                };
                return refusal(Property::NoFalseRefusal, Symptom::FalseAlarm, although);
            }
            Status::NoSpace if run.no_space > 0 => {}
            Status::NoSpace if full_is_no_reason => {
                return refusal(
                    Property::NoFalseRefusal,
                    Symptom::RefusedToOpen,
                    "although it states by `opens_when_full` that it needs no more room than it has",
                );
            }
            Status::NoSpace => {
                if let Err(although) = self.no_space(truth) {
                    return refusal(Property::NoFalseRefusal, Symptom::RefusedToOpen, &although);
                }
            }
            Status::NotFound | Status::ReadOnly | Status::Invalid | Status::Closed => {
                return refusal(
                    Property::NoFalseRefusal,
                    Symptom::RefusedToOpen,
                    "although it has opened this device before, or was told nothing wrong",
                );
            }
            Status::Corruption | Status::IoError => {}
        }
        let message = message(reply).unwrap_or_default();
        Ok(match reply.status {
            Status::Corruption => Opening::Damaged(message),
            _ => Opening::DeviceError(message),
        })
    }
}
