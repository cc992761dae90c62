//! The same with other requests: one client asks all, and several of them become one batch. Values are written anew then, so that they say
//! who wrote them, and no two are alike.

use kvsim_sim::api::{Durability, Mutation, Request};

use super::Shrinking;
use super::site::busy_of;
use crate::explore::open::FEW_REQUESTS;
use crate::fewer::fewer;
use kvsim_api::value::{self, Reading, Stamp};
use kvsim_scenario::case::{Case, CaseRequest};
use kvsim_workload::{ClientId, PRELOAD_WRITER};

/// Work of leaving out mutations at most, each time: a batch of many is one request all the same.
const MUTATIONS_WORK: u64 = 10_000_000_000;

impl Shrinking<'_> {
    /// One client asks all, one thing after the other.
    pub(super) fn one_client(&mut self, best: Case) -> Case {
        let Some(busy) = busy_of(&best) else {
            return best;
        };
        let requests = &best.process_runs[busy].requests;
        let mut clients = requests.iter().map(|request| request.client);
        let first = clients.next();
        if clients.all(|client| Some(client) == first) {
            return best;
        }
        let asked = by_one_client(requests);
        match self.find_busy(&best, &asked) {
            Some(found) if found.requests() <= best.requests() => found,
            _ => best,
        }
    }

    /// Several writes become one batch: all of them, halves, thirds, then neighbours. A batch writes a key once; where it takes many bytes to bring the
    /// failure about, and not few of them, its value is as long as all those that it stands for.
    pub(super) fn merged(&mut self, mut best: Case) -> Case {
        let Some(busy) = busy_of(&best) else {
            return best;
        };
        let mut together = best.process_runs[busy].requests.len();
        while together > 1 && !self.is_over() {
            let taken = [Weight::Light, Weight::Heavy].into_iter().any(|weight| {
                let Some(busy) = busy_of(&best) else {
                    return false;
                };
                let requests = &best.process_runs[busy].requests;
                let mut asked: Vec<CaseRequest> = Vec::new();
                for chunk in requests.chunks(together) {
                    asked.extend(in_batches(chunk, weight));
                }
                self.takes(&mut best, asked)
            });
            if !taken {
                together = if together > 3 {
                    together.div_ceil(2)
                } else {
                    together - 1
                };
            }
        }
        if best.requests() > FEW_REQUESTS {
            return best;
        }
        let mut at = 0;
        while let Some(busy) = busy_of(&best)
            && at + 1 < best.process_runs[busy].requests.len()
        {
            let requests = &best.process_runs[busy].requests;
            let mut asked = requests.clone();
            let pair = in_batches(&requests[at..at + 2], Weight::Light);
            asked.splice(at..at + 2, pair);
            if !self.takes(&mut best, asked) {
                at += 1;
            }
        }
        best
    }

    /// Takes mutations out of batches, halves of them first.
    pub(super) fn fewer_mutations(&mut self, mut best: Case) -> Case {
        let mut at = 0;
        let until = self.spent.work.saturating_add(MUTATIONS_WORK);
        while let Some(busy) = busy_of(&best)
            && let Some(request) = best.process_runs[busy].requests.get(at)
        {
            if let Request::Batch { mutations, .. } = &request.request {
                let of = best.process_runs[busy].requests.len();
                fewer(mutations.clone(), &mut |rest| {
                    let Some(busy) = busy_of(&best) else {
                        return false;
                    };
                    let mut asked = best.process_runs[busy].requests.clone();
                    let is_worth_it = !rest.is_empty() && self.spent.work < until;
                    let Some(request) = asked.get_mut(at).filter(|_| is_worth_it) else {
                        return false;
                    };
                    let Request::Batch { mutations, .. } = &mut request.request else {
                        return false;
                    };
                    *mutations = rest.to_vec();
                    match self.find_busy(&best, &asked) {
                        // Shorter: the list is another one, and this goes on with the next round.
                        Some(found)
                            if busy_of(&found).is_some_and(|busy| {
                                found.process_runs[busy].requests.len() == of
                            }) =>
                        {
                            best = found;
                            true
                        }
                        _ => false,
                    }
                });
            }
            at += 1;
        }
        best
    }

    /// Takes these requests for those of the busy process run if fewer of them than before lead to the same failure.
    fn takes(&mut self, best: &mut Case, mut asked: Vec<CaseRequest>) -> bool {
        let Some(busy) = busy_of(best) else {
            return false;
        };
        if asked.len() >= best.process_runs[busy].requests.len() {
            return false;
        }
        written_anew(&mut asked);
        match self.find_busy(best, &asked) {
            Some(found) if found.requests() < best.requests() => {
                *best = found;
                true
            }
            _ => false,
        }
    }
}

/// The same, asked by the first of the clients.
pub(super) fn by_one_client(requests: &[CaseRequest]) -> Vec<CaseRequest> {
    let mut asked = requests.to_vec();
    let first = asked.iter().map(|request| request.client).min();
    for request in &mut asked {
        request.client = first.unwrap_or(request.client);
        request.think_ns = 0;
    }
    written_anew(&mut asked);
    asked
}

/// How long the value of a key is in a batch that stands for several writes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// As long as the last.
    Light,
    /// As long as all of them.
    Heavy,
}

/// Neighbours that write as durably become one batch.
fn in_batches(requests: &[CaseRequest], weight: Weight) -> Vec<CaseRequest> {
    let mut all: Vec<CaseRequest> = Vec::new();
    for request in requests {
        let joined = match (all.last(), writes(request)) {
            (Some(last), Some((durability, mut more))) if last.client != PRELOAD_WRITER => {
                writes(last).filter(|(other, _)| *other == durability).map(
                    |(durability, mut mutations)| {
                        if weight == Weight::Heavy {
                            more.iter_mut().for_each(|new| add_length(new, &mutations));
                        }
                        // A key is written once in a batch: what came last counts.
                        mutations.retain(|old| more.iter().all(|new| key(new) != key(old)));
                        mutations.extend(more);
                        Request::Batch {
                            mutations,
                            durability,
                        }
                    },
                )
            }
            _ => None,
        };
        match (joined, all.last_mut()) {
            (Some(batch), Some(last)) => last.request = batch,
            _ => all.push(request.clone()),
        }
    }
    all
}

/// What a request writes, if it is of no preload.
fn writes(request: &CaseRequest) -> Option<(Durability, Vec<Mutation>)> {
    if request.client == PRELOAD_WRITER {
        return None;
    }
    match &request.request {
        Request::Put {
            key,
            value,
            durability,
        } => {
            let (key, value) = (key.clone(), value.clone());
            Some((*durability, vec![Mutation::Put { key, value }]))
        }
        Request::Delete { key, durability } => {
            Some((*durability, vec![Mutation::Delete { key: key.clone() }]))
        }
        Request::Batch {
            mutations,
            durability,
        } => Some((*durability, mutations.clone())),
        _ => None,
    }
}

/// Makes a value longer by those of the same key among these.
fn add_length(mutation: &mut Mutation, others: &[Mutation]) {
    let Mutation::Put { key, value } = mutation else {
        return;
    };
    let of_same_key = others.iter().filter_map(|other| match other {
        Mutation::Put { key: own, value } if own == key => Some(value.len()),
        _ => None,
    });
    let more: usize = of_same_key.sum();
    if let (Reading::Whole(stamp), true) = (value::read(value), more > 0) {
        *value = value::generate(stamp, value.len() + more, 0);
    }
}

fn key(mutation: &Mutation) -> &[u8] {
    match mutation {
        Mutation::Put { key, .. } | Mutation::Delete { key } => key,
    }
}

/// Values that describe themselves name the client that asks, and are counted anew.
fn written_anew(requests: &mut [CaseRequest]) {
    let mut number = 0;
    let mut anew = |client: ClientId, key: &[u8], value: &mut Vec<u8>| {
        if let Reading::Whole(_) = value::read(value) {
            number += 1;
            let stamp = Stamp {
                key_hash: value::key_hash(key),
                writer: client,
                number,
            };
            *value = value::generate(stamp, value.len(), 0);
        }
    };
    for request in requests {
        let client = request.client;
        match &mut request.request {
            Request::Put { key, value, .. } => anew(client, key, value),
            Request::Batch { mutations, .. } => {
                for mutation in mutations {
                    if let Mutation::Put { key, value } = mutation {
                        anew(client, key, value);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &[&str]) -> Vec<CaseRequest> {
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        requests.collect()
    }

    fn said(requests: &[CaseRequest]) -> Vec<String> {
        requests.iter().map(ToString::to_string).collect()
    }

    /// Goal: neighbours become one batch, a key in it once; what writes less durably, reads or loads stays by itself. Method: a list with each.
    #[test]
    fn neighbours_become_a_batch() {
        let mut requests = in_batches(
            &asked(&[
                "preload put a 1:64",
                "0 put a 1:64",
                "1 batch put b 1:64, put a 2:64",
                "0 delete c",
                "0 put d 3:64 relaxed",
                "1 get a",
                "1 put e 4:64 relaxed",
            ]),
            Weight::Light,
        );
        written_anew(&mut requests);
        assert_eq!(
            said(&requests),
            [
                "preload put a 1:64".to_owned(),
                "0 batch put b 2:64, put a 3:64, delete c".to_owned(),
                "0 put d 4:64 relaxed".to_owned(),
                "1 get a".to_owned(),
                "1 put e 5:64 relaxed".to_owned(),
            ]
        );
    }

    /// Goal: a batch can be as heavy as what it stands for. Method: a key that is written three times, and one that is deleted in between.
    #[test]
    fn a_batch_is_as_heavy_as_its_parts() {
        let lines = [
            "0 put a 1:64",
            "0 put b 1:64",
            "0 put a 1:100",
            "0 delete b",
            "0 put a 1:64",
        ];
        let mut requests = in_batches(&asked(&lines), Weight::Heavy);
        written_anew(&mut requests);
        assert_eq!(said(&requests), ["0 batch delete b, put a 1:228"]);
    }

    /// Goal: a value that is written anew says who wrote it, so that the line of its request stays short. Method: a request given to another client.
    #[test]
    fn a_value_names_the_client_that_asks() {
        let mut requests = asked(&["3 put k 41:1024"]);
        requests[0].client = 0;
        assert!(said(&requests)[0].starts_with("0 put k ="));
        written_anew(&mut requests);
        assert_eq!(said(&requests), ["0 put k 1:1024"]);
    }
}
