//! What a guest that opened well was asked after a recovery, and what it answered.
//!
//! The same image asked the same questions gives the same answers, for the sandbox is deterministic. So where two crash states
//! have the same bytes and only what must survive differs, one recovery is judged by both.

use kvsim_sim::api::{Reply, Request};

use kvsim_oracle::{CheckConfig, DeviceTruth, Observation, Oracle, Token, Verification};

/// Questions in the order in which they were asked, and answers in the order in which they came.
#[derive(Debug, Default)]
pub struct Transcript {
    pub(crate) asked: Vec<(Token, Request)>,
    pub(crate) answers: Vec<(Token, Reply)>,
    pub(super) truth: DeviceTruth,
}

impl Transcript {
    /// What the same reading back shows to another oracle; nothing if that would ask something else.
    pub fn read_by(&self, oracle: &Oracle, check: &CheckConfig) -> Option<Observation> {
        let mut reading = Verification::new(oracle, check);
        let mut asked = self.asked.iter();
        let mut answers = self.answers.iter();
        loop {
            while let Some((token, request)) = reading.next_request(oracle) {
                let (same_token, same_request) = asked.next()?;
                if token != *same_token || request != *same_request {
                    return None;
                }
            }
            if reading.is_done() {
                return Some(reading.finish());
            }
            let (token, reply) = answers.next()?;
            reading.reply(oracle, *token, reply);
        }
    }

    /// What the device had really done by then.
    pub fn truth(&self) -> &DeviceTruth {
        &self.truth
    }
}
