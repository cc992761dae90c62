//! Random histories: the oracle accepts exactly the states that trying all prefixes accepts.

#![expect(clippy::print_stdout, reason = "a failing test says which seed it had")]

use crate::support::{Lab, State, value};
use kvsim_sim::api::{Body, Durability, Mutation, Request, RequestId, Status};
use quickcheck::{Arbitrary, Gen, QuickCheck, TestResult};
use std::collections::BTreeSet;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// How a write ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Acknowledged,
    Unanswered,
    Uncertain,
    Refused,
}

#[derive(Debug, Clone)]
enum Op {
    /// Keys, each set or deleted.
    Write {
        mutations: Vec<(usize, bool)>,
        durable: bool,
        end: End,
    },
    Sync,
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Op {
        if u8::arbitrary(g) < 16 {
            return Op::Sync;
        }
        let count = *g.choose(&[1, 1, 1, 2, 3]).unwrap();
        let mutations = (0..count)
            .map(|_| (usize::arbitrary(g) % KEYS.len(), u8::arbitrary(g) < 170))
            .collect();
        let ends = [
            End::Acknowledged,
            End::Acknowledged,
            End::Acknowledged,
            End::Unanswered,
            End::Uncertain,
            End::Refused,
        ];
        Op::Write {
            mutations,
            durable: bool::arbitrary(g),
            end: *g.choose(&ends).unwrap(),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Op>> {
        match self {
            Op::Sync => Box::new(std::iter::empty()),
            Op::Write {
                mutations,
                durable,
                end,
            } => {
                let (durable, end) = (*durable, *end);
                let fewer = mutations.shrink().filter(|mutations| !mutations.is_empty());
                Box::new(fewer.map(move |mutations| Op::Write {
                    mutations,
                    durable,
                    end,
                }))
            }
        }
    }
}

/// Process runs: what each does, and what picks the state after it.
#[derive(Debug, Clone)]
struct Plan(Vec<(Vec<Op>, u64)>);

impl Arbitrary for Plan {
    fn arbitrary(g: &mut Gen) -> Plan {
        let process_runs = 1 + usize::arbitrary(g) % 3;
        let ops = |g: &mut Gen| {
            (0..1 + usize::arbitrary(g) % 8)
                .map(|_| Op::arbitrary(g))
                .collect()
        };
        Plan(
            (0..process_runs)
                .map(|_| (ops(g), u64::arbitrary(g)))
                .collect(),
        )
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Plan>> {
        Box::new(self.0.shrink().filter(|plan| !plan.is_empty()).map(Plan))
    }
}

type Effects = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The model: the base, the writes since, and how many of them must be there.
#[derive(Default)]
struct Model {
    base: State,
    writes: Vec<(Effects, End)>,
    required: usize,
    numbers: u64,
}

fn apply(state: &mut State, effects: &Effects) {
    for (key, value) in effects {
        match value {
            Some(value) => state.insert(key.clone(), value.clone()),
            None => state.remove(key),
        };
    }
}

impl Model {
    /// Every legal state: each prefix, with each subset of the writes that failed with a device error.
    fn legal(&self) -> BTreeSet<State> {
        let mut found = BTreeSet::new();
        let mut states = BTreeSet::from([self.base.clone()]);
        for at in 0..=self.writes.len() {
            if at >= self.required {
                found.extend(states.iter().cloned());
            }
            let Some((effects, end)) = self.writes.get(at) else {
                break;
            };
            let mut next = BTreeSet::new();
            for state in states {
                let mut with = state.clone();
                apply(&mut with, effects);
                match end {
                    End::Refused => drop(next.insert(state)),
                    End::Uncertain => next.extend([state, with]),
                    End::Acknowledged | End::Unanswered => drop(next.insert(with)),
                }
            }
            states = next;
        }
        found
    }

    fn run(&mut self, lab: &mut Lab, ops: &[Op]) {
        let mut refused: Vec<(RequestId, End)> = Vec::new();
        for op in ops {
            match op {
                Op::Sync => {
                    lab.done(Request::Sync);
                    self.required = self.writes.len();
                }
                Op::Write {
                    mutations,
                    durable,
                    end,
                } => {
                    let (request, effects) = self.request(mutations, *durable);
                    let id = lab.ask(request);
                    match end {
                        End::Acknowledged => lab.ack(id),
                        End::Unanswered => {}
                        // These answers come late, so that later writes of the same keys are in between.
                        End::Uncertain | End::Refused => refused.push((id, *end)),
                    }
                    self.writes.push((effects, *end));
                    if *durable && *end == End::Acknowledged {
                        self.required = self.writes.len();
                    }
                }
            }
        }
        for (id, end) in refused {
            let status = if end == End::Uncertain {
                Status::IoError
            } else {
                Status::NoSpace
            };
            lab.answer(id, status, Body::Empty).unwrap();
        }
    }

    fn request(&mut self, mutations: &[(usize, bool)], durable: bool) -> (Request, Effects) {
        let durability = if durable {
            Durability::Durable
        } else {
            Durability::Relaxed
        };
        let mut effects = Effects::new();
        for &(key, set) in mutations {
            self.numbers += 1;
            let value = set.then(|| value(KEYS[key], self.numbers));
            effects.push((KEYS[key].as_bytes().to_vec(), value));
        }
        let mutation = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| match value {
            Some(value) => Mutation::Put {
                key: key.clone(),
                value: value.clone(),
            },
            None => Mutation::Delete { key: key.clone() },
        };
        (
            Request::Batch {
                mutations: effects.iter().map(mutation).collect(),
                durability,
            },
            effects,
        )
    }

    fn adopt(&mut self, state: State) {
        self.base = state;
        self.writes.clear();
        self.required = 0;
    }
}

/// States near `state`: a key dropped, swapped, rolled back or brought back.
fn mutate(state: &State, model: &Model, mut pick: u64) -> State {
    let mut below = |n: usize| {
        pick = pick
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(pick >> 33).unwrap() % n
    };
    let mut state = state.clone();
    let key = KEYS[below(KEYS.len())].as_bytes().to_vec();
    match below(3) {
        0 => drop(state.remove(&key)),
        1 => {
            let other = KEYS[below(KEYS.len())].as_bytes().to_vec();
            let (one, two) = (state.remove(&key), state.remove(&other));
            state.extend(two.map(|value| (key, value)));
            state.extend(one.map(|value| (other, value)));
        }
        _ if model.numbers > 0 => {
            // A value that this key had once, or that another has.
            let number = 1 + below(usize::try_from(model.numbers).unwrap()) as u64;
            let name = String::from_utf8(key.clone()).unwrap();
            state.insert(key, value(&name, number));
        }
        _ => {}
    }
    state
}

fn agrees(plan: &Plan, keep_history: bool) -> TestResult {
    let mut lab = if keep_history {
        Lab::lying()
    } else {
        Lab::new()
    };
    // Device errors are on record, so that writes may fail with them; lies are not.
    lab.truth.write_errors = 1;
    lab.truth.this_run.write_failures = 1;
    let mut model = Model::default();
    for (ops, pick) in &plan.0 {
        model.run(&mut lab, ops);
        lab.crash();
        let legal = model.legal();
        for state in &legal {
            if let Err(violation) = lab.judge(state) {
                return TestResult::error(format!("a legal state is refused: {violation}"));
            }
            for round in 0..6 {
                let mutated = mutate(state, &model, pick.wrapping_add(round));
                let accepted = lab.judge(&mutated).is_ok();
                if accepted != legal.contains(&mutated) {
                    return TestResult::error(format!(
                        "accepted: {accepted}, legal: {}: {mutated:?}",
                        !accepted
                    ));
                }
            }
        }
        let at = usize::try_from(*pick % legal.len() as u64).unwrap();
        let shown = legal.into_iter().nth(at).unwrap();
        let seen = lab.observe(&shown);
        let recovery = lab.oracle.judge(&seen, &lab.truth).unwrap();
        lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth);
        model.adopt(shown);
    }
    TestResult::passed()
}

/// Prefixes of a history on a device whose flushes lie in every process run: all of them are legal.
fn agrees_under_lies(plan: &Plan) -> TestResult {
    let mut lab = Lab::lying();
    let mut model = Model::default();
    // The effects that are still there, in order.
    let mut alive: Vec<Effects> = Vec::new();
    for (ops, pick) in &plan.0 {
        let ops: Vec<Op> = ops
            .iter()
            .filter(|op| {
                !matches!(
                    op,
                    Op::Write {
                        end: End::Uncertain,
                        ..
                    }
                )
            })
            .cloned()
            .collect();
        model.run(&mut lab, &ops);
        lab.truth.flush_lies += 1;
        lab.crash();
        let effective = model
            .writes
            .drain(..)
            .filter(|(_, end)| *end != End::Refused);
        alive.extend(effective.map(|(effects, _)| effects));
        let mut prefixes = vec![State::new()];
        for effects in &alive {
            let mut state = prefixes[prefixes.len() - 1].clone();
            apply(&mut state, effects);
            prefixes.push(state);
        }
        for state in &prefixes {
            if let Err(violation) = lab.judge(state) {
                return TestResult::error(format!("an older prefix is refused: {violation}"));
            }
            for round in 0..6 {
                let mutated = mutate(state, &model, pick.wrapping_add(round));
                if lab.judge(&mutated).is_ok() != prefixes.contains(&mutated) {
                    return TestResult::error(format!(
                        "no prefix and yet accepted, or the reverse: {mutated:?}"
                    ));
                }
            }
        }
        let shown = prefixes[usize::try_from(*pick % prefixes.len() as u64).unwrap()].clone();
        let longest = prefixes.iter().rposition(|state| *state == shown).unwrap();
        alive.truncate(longest);
        let seen = lab.observe(&shown);
        let recovery = lab.oracle.judge(&seen, &lab.truth).unwrap();
        lab.oracle.adopt(lab.now, &recovery, &seen, &lab.truth);
    }
    TestResult::passed()
}

/// Runs a property on so many plans; `KVSIM_QUICKCHECK_SEED` gives others than the usual ones.
fn check(tests: u64, property: fn(Plan) -> TestResult) {
    let seed = std::env::var("KVSIM_QUICKCHECK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    println!("KVSIM_QUICKCHECK_SEED={seed}");
    QuickCheck::new()
        .rng(Gen::from_size_and_seed(100, seed))
        .tests(tests)
        .quickcheck(property);
}

/// Goal: the oracle's intervals and the definition of a legal state are the same. Method: small random histories over several
/// process runs; all legal states, and states near them, judged by both.
#[test]
fn judging_equals_trying_every_prefix() {
    check(2_000, |plan| agrees(&plan, false));
}

/// The same with the whole history kept, as it is when the device may lie, though it does not.
#[test]
fn judging_with_all_history_equals_trying_every_prefix() {
    check(2_000, |plan| agrees(&plan, true));
}

/// Goal: when flushes lie, exactly the prefixes of what is left of the history are excused. Method: as above, with a lie in every
/// process run.
#[test]
fn lying_flushes_excuse_exactly_the_prefixes() {
    check(2_000, |plan| agrees_under_lies(&plan));
}
