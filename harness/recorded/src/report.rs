//! What came of it, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::judge::{Found, Tally};
use super::prove::Proof;
use super::session::Calls;
use super::take_out::{Kind, TakenOut};
use kvsim_api::units::{bytes, thousands};

const SCHEMA: &str = "kvsim.crash-disk/2";

impl Proof {
    /// Of the recordings with a call left out, how many were caught.
    #[must_use]
    pub fn caught(&self) -> u64 {
        let caught = self.taken_out.iter().filter(|one| one.found.is_some());
        caught.count() as u64
    }

    /// Whether everything that was to be shown was shown.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.interrupted
            && self.tally.judged >= self.plan.states
            && self.taken_out.len() as u64 >= self.plan.taken_out
            && self.caught() == self.taken_out.len() as u64
    }

    /// For a person.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.device.lines() {
            let _ = writeln!(text, "{line}");
        }
        let (calls, tally) = (&self.calls, &self.tally);
        let sessions: Vec<String> = self
            .sessions
            .iter()
            .map(|(driver, count)| format!("{count} through {driver}"))
            .collect();
        let _ = writeln!(
            text,
            "recorded  {} sessions of {} clients; {} requests answered; {} writes, {} write-throughs ({} in all), {} flushes, {} allocations, {} reads; {} checkpoints, {} segments collected; every byte of the file accounted for",
            sessions.join(", "),
            self.plan.workload.clients,
            thousands(calls.acknowledged),
            thousands(calls.writes),
            thousands(calls.write_throughs),
            bytes(calls.written_bytes),
            thousands(calls.flushes),
            thousands(calls.allocations),
            thousands(calls.reads),
            thousands(self.checkpoints),
            thousands(self.collected_segments),
        );
        let _ = writeln!(
            text,
            "crashed   at {} points; {} states drawn, {} different ones recovered and judged: {} with losses, {} with tears; {} recovered twice; {} keys read back",
            thousands(tally.points),
            thousands(tally.drawn),
            thousands(tally.judged),
            thousands(tally.with_losses),
            thousands(tally.with_tears),
            thousands(tally.recovered_twice),
            thousands(tally.keys_read),
        );
        self.say_taken_out(&mut text);
        match &self.found {
            Some(found) => {
                let _ = writeln!(
                    text,
                    "VIOLATION in session {}, after event {}, where the cut kept {} pending writes:\n  {}",
                    found.session,
                    found.event,
                    found.state.persisted.len(),
                    found.violation,
                );
            }
            None if self.is_complete() => text.push_str("PASS: nothing acknowledged was lost\n"),
            None => text.push_str("INCONCLUSIVE: nothing was violated, but not all was shown\n"),
        }
        text
    }

    fn say_taken_out(&self, text: &mut String) {
        if self.taken_out.is_empty() {
            if self.plan.taken_out == 0 {
                text.push_str("taken out nothing\n");
            }
            return;
        }
        let of = |kind| self.taken_out.iter().filter(move |one| one.kind == kind);
        let _ = writeln!(
            text,
            "taken out one call on which an acknowledgement depends, {} times ({} flushes, {} write-throughs): caught {}",
            self.taken_out.len(),
            of(Kind::Flush).count(),
            of(Kind::WriteThrough).count(),
            self.caught(),
        );
        for missed in self.taken_out.iter().filter(|one| one.found.is_none()) {
            let _ = writeln!(
                text,
                "  not caught: the {} on which the acknowledgement at event {} of session {} depends",
                match missed.kind {
                    Kind::Flush => "flush",
                    Kind::WriteThrough => "write-through",
                },
                missed.event,
                missed.session,
            );
        }
    }
}

/// The same for programs, under a versioned schema name.
#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    kvsim: &'static str,
    seed: u64,
    device: String,
    sessions: Vec<(&'static str, u64)>,
    calls: Calls,
    checkpoints: u64,
    collected_segments: u64,
    tally: Tally,
    complete: bool,
    violation: Option<FoundJson>,
    taken_out: Vec<TakenOutJson>,
}

#[derive(Debug, Serialize)]
struct FoundJson {
    session: u64,
    event: usize,
    state: kvsim_simdisk::CrashState,
    violation: kvsim_oracle::Violation,
}

#[derive(Debug, Serialize)]
struct TakenOutJson {
    session: u64,
    event: usize,
    kind: Kind,
    caught: Option<FoundJson>,
}

/// The document.
#[must_use]
pub fn document(proof: &Proof) -> Document {
    let found = |found: &Found| FoundJson {
        session: found.session,
        event: found.event,
        state: found.state.clone(),
        violation: (*found.violation).clone(),
    };
    let taken_out = |one: &TakenOut| TakenOutJson {
        session: one.session,
        event: one.event,
        kind: one.kind,
        caught: one.found.as_ref().map(found),
    };
    Document {
        schema: SCHEMA,
        kvsim: env!("CARGO_PKG_VERSION"),
        seed: proof.plan.seed,
        device: proof.device.clone(),
        sessions: proof.sessions.clone(),
        calls: proof.calls,
        checkpoints: proof.checkpoints,
        collected_segments: proof.collected_segments,
        tally: proof.tally,
        complete: proof.is_complete(),
        violation: proof.found.as_ref().map(found),
        taken_out: proof.taken_out.iter().map(taken_out).collect(),
    }
}
