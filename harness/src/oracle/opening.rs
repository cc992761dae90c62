//! The answer to an opening: ready, or a refusal that the device's faults may excuse.

use super::verify::message;
use super::words::answer;
use super::{DeviceTruth, Oracle, Property, Symptom, Violation};
use kvsim_sim::api::{Reply, Status};

/// What an opening came to, when it is no violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// The guest is open. Read back next.
    Ready,
    /// The guest reports damage, as it should: this device can be opened no more.
    Damaged(String),
    /// An honest device error stood in the way. Opening again may do.
    DeviceError(String),
    /// The guest will not have its configuration: a wrong scenario, not a finding.
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
        let refusal = |symptom| {
            let sentence = format!(
                "{}, the guest refuses to open, answering {}, although the device gave it no reason",
                self.when(),
                answer(reply)
            );
            Err(Violation::new(
                Property::AcknowledgedDurable,
                symptom,
                sentence,
                self.facts(),
            ))
        };
        match reply.status {
            Status::Ok => return Ok(Opening::Ready),
            Status::Invalid => return Ok(Opening::Rejected(message(reply))),
            Status::Corruption if truth.lies() == 0 => return refusal(Symptom::FalseAlarm),
            Status::IoError if truth.errors() + truth.latent_errors == 0 => {
                return refusal(Symptom::FalseAlarm);
            }
            Status::NoSpace if truth.no_space == 0 => return refusal(Symptom::RefusedToOpen),
            Status::NotFound | Status::ReadOnly | Status::Closed => {
                return refusal(Symptom::RefusedToOpen);
            }
            Status::Corruption | Status::IoError | Status::NoSpace => {}
        }
        Ok(match reply.status {
            Status::Corruption => Opening::Damaged(message(reply)),
            _ => Opening::DeviceError(message(reply)),
        })
    }
}
