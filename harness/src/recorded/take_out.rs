//! Recordings with one call left out, which have to be caught: a judge that never found anything is not known to look.
//!
//! A call is worth leaving out if an acknowledgement rests on it: a durable write, or a sync, was answered well while it was the
//! last call by which anything had become durable. Which of them is left out is drawn from the seed.

use std::collections::BTreeMap;

use kvsim_native::Durability;
use kvsim_native::record::{Asked, Call, CallId, What};

use super::judge::Found;
use super::session::Session;

/// What a call was, had it not been left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A flush.
    Flush,
    /// A write that was durable when it ended.
    WriteThrough,
}

/// A recording with one call left out.
#[derive(Debug, Clone)]
pub struct TakenOut {
    /// Which session, from 1.
    pub session: u64,
    /// Which event of it.
    pub event: usize,
    /// What it was.
    pub kind: Kind,
    /// How it was noticed, if it was.
    pub found: Option<Found>,
}

/// A call that may be left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) call: CallId,
    pub(super) kind: Kind,
    /// Where it ended.
    pub(super) event: usize,
}

/// All calls of a session on which an acknowledgement rests.
pub(super) fn candidates(session: &Session) -> Vec<Candidate> {
    let mut kinds = BTreeMap::new();
    let mut owed = BTreeMap::new();
    let mut last: Option<Candidate> = None;
    let mut all: Vec<Candidate> = Vec::new();
    for (event, happened) in session.events.iter().enumerate() {
        match &happened.what {
            What::Begun(call, Call::Flush) => {
                kinds.insert(*call, Kind::Flush);
            }
            What::Begun(call, Call::Write { through: true, .. }) => {
                kinds.insert(*call, Kind::WriteThrough);
            }
            What::Ended(call, Ok(_)) => {
                if let Some(kind) = kinds.remove(call) {
                    last = Some(Candidate {
                        call: *call,
                        kind,
                        event,
                    });
                }
            }
            What::HandedIn(id, asked) => {
                let durable = match asked {
                    Asked::Write { durability, .. } => *durability == Durability::Durable,
                    Asked::Sync => true,
                    Asked::Close | Asked::Read => false,
                };
                owed.insert(*id, durable);
            }
            What::Answered(id, outcome) => {
                let durable = owed.remove(id).unwrap_or(false);
                if let Some(candidate) = last.filter(|_| durable && outcome.is_ok())
                    && all.last().is_none_or(|other| other.call != candidate.call)
                {
                    all.push(candidate);
                }
            }
            What::Begun(..) | What::Ended(..) | What::Opening(_) => {}
        }
    }
    all
}
