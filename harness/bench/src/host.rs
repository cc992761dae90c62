//! The processors of a machine, and the clients of a benchmark that share them.
//!
//! A client that waited for its commit sleeps. When it is told its answer, it waits for a processor, in the order in
//! which clients were told. On the processor it takes some time until it hands in its next request (waking up,
//! switching, leaving one call and making the next). It keeps the processor while it waits for the engine's lock and
//! while the engine works for it. The engine, which is the simulated world, does one thing at a time, whatever the
//! number of processors. So with clients that cost `c` each and calls of the engine that cost `e`, clients come back
//! every `max(e, (c + e) / processors)`.
//!
//! The first client that a call of the engine tells is the one that made the call, having waited for the disk on behalf
//! of all. This client is awake and costs nothing. The time to bring it back is part of the disk's measured latency.
//!
//! Not modelled: which processor a client ran on before; clients that yield to each other before they sleep, whose cost
//! is part of the measured cost of a client; other programs on the machine.
//!
//! Invariant: all arithmetic is on integers and all draws come from one seed, so the same calls give the same times everywhere.

use std::collections::VecDeque;

use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_simdisk::{LatencyConfig, Nanos};

/// A client by its number.
pub type Client = usize;

/// One of the processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Processor {
    /// Free from this time on.
    Free(Nanos),
    /// A client has it, and nobody knows yet until when.
    Taken,
}

/// A client that was told its answer and has no processor yet.
#[derive(Debug, Clone, Copy)]
struct Told {
    client: Client,
    at: Nanos,
    awake: bool,
}

/// A client that has got a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Who.
    pub client: Client,
    /// On which processor.
    pub processor: usize,
    /// When it hands in its next request.
    pub hands_in_at: Nanos,
}

/// The processors and who waits for them.
#[derive(Debug)]
pub struct Host {
    processors: Vec<Processor>,
    told: VecDeque<Told>,
    client: LatencyConfig,
    rng: Rng,
}

impl Host {
    /// So many processors (at least one), free from `now` on; `client`: what a client costs that has slept.
    #[must_use]
    pub fn new(processors: u32, client: LatencyConfig, seed: u64, now: Nanos) -> Host {
        Host {
            processors: vec![Processor::Free(now); processors.max(1) as usize],
            told: VecDeque::new(),
            client,
            rng: Rng::new(seed, Purpose::Latency),
        }
    }

    /// A client is told its answer; `awake`: it does not have to be brought back.
    pub fn tell(&mut self, client: Client, at: Nanos, awake: bool) {
        self.told.push_back(Told { client, at, awake });
    }

    /// A client has its answer at once: it goes on where it is, before all who wait.
    pub fn go_on(&mut self, client: Client, at: Nanos) {
        let awake = true;
        self.told.push_front(Told { client, at, awake });
    }

    /// The next client that gets a processor, if there is one for it. It has to [leave](Host::leave) it some time.
    pub fn start(&mut self) -> Option<Start> {
        let told = *self.told.front()?;
        let (processor, free_at) = self.first_free()?;
        self.told.pop_front();
        self.processors[processor] = Processor::Taken;
        let cost = if told.awake {
            0
        } else {
            self.client.at(self.rng.below(1_000_000))
        };
        Some(Start {
            client: told.client,
            processor,
            hands_in_at: free_at.max(told.at) + cost,
        })
    }

    /// The client that has this processor sleeps from `at` on, or is done with its call.
    pub fn leave(&mut self, processor: usize, at: Nanos) {
        self.processors[processor] = Processor::Free(at);
    }

    /// The engine works on something else than a request until `until`: for whoever waited for the disk, and on a processor.
    pub fn occupy(&mut self, until: Nanos) {
        if let Some((processor, free_at)) = self.first_free() {
            self.processors[processor] = Processor::Free(free_at.max(until));
        }
    }

    fn first_free(&self) -> Option<(usize, Nanos)> {
        let numbered = self.processors.iter().enumerate();
        let free = numbered.filter_map(|(number, processor)| match processor {
            Processor::Free(at) => Some((number, *at)),
            Processor::Taken => None,
        });
        free.min_by_key(|&(number, at)| (at, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bare group commit on the host: all clients are told at once, each then keeps an engine busy for `work`. When each hands in.
    fn group(processors: u32, clients: usize, cost: LatencyConfig, work: Nanos) -> Vec<Nanos> {
        let mut host = Host::new(processors, cost, 7, 0);
        for client in 0..clients {
            host.tell(client, 1_000, client == 0);
        }
        let (mut free_at, mut at) = (0, Vec::new());
        let mut on: Vec<Start> = Vec::new();
        while at.len() < clients {
            on.extend(std::iter::from_fn(|| host.start()));
            let first = (0..on.len()).min_by_key(|&n| (on[n].hands_in_at, n));
            let start = on.swap_remove(first.expect("somebody is on a processor"));
            let begins_at = start.hands_in_at.max(free_at);
            free_at = begins_at + work;
            host.leave(start.processor, free_at);
            at.push(begins_at);
        }
        at
    }

    /// Goal: a client alone, which has waited for the disk itself, costs nothing. Method: a group of one.
    #[test]
    fn a_client_alone_is_awake() {
        assert_eq!(group(2, 1, LatencyConfig::fixed(900), 50), [1_000]);
    }

    /// Goal: clients come back every `max(e, (c + e) / processors)`. Method: fixed costs on one, two and many processors; the last of
    /// a large group.
    #[test]
    fn clients_come_back_as_fast_as_processors_and_lock_allow() {
        let (cost, work, clients) = (600, 200, 401);
        for (processors, between) in [(1, 800), (2, 400), (4, 200), (16, 200)] {
            let at = group(processors, clients, LatencyConfig::fixed(cost), work);
            let took = at[clients - 1] - at[0];
            let wanted = between * 400;
            assert!(
                took.abs_diff(wanted) <= 1_600,
                "{processors}: {took} {wanted}"
            );
        }
    }

    /// Goal: a processor more never makes a group slower, and the same seed gives the same times. Method: costs with a tail, drawn.
    #[test]
    fn more_processors_are_not_slower_and_draws_repeat() {
        let mut samples: Vec<u64> = (0..1_000)
            .map(|n| if n % 20 == 0 { 9_000 } else { n })
            .collect();
        let cost = LatencyConfig::measured(&mut samples);
        let last = |processors| *group(processors, 64, cost, 100).last().expect("64 of them");
        for processors in 1..8 {
            assert!(last(processors + 1) <= last(processors), "{processors}");
        }
        assert_eq!(group(2, 64, cost, 100), group(2, 64, cost, 100));
    }

    /// Goal: clients get processors in the order in which they were told, but for one that goes on. Method: one processor, four clients.
    #[test]
    fn clients_take_turns() {
        let mut host = Host::new(1, LatencyConfig::fixed(10), 1, 0);
        for client in [3, 1, 2] {
            host.tell(client, 5, false);
        }
        let first = host.start().expect("it is free");
        assert_eq!((first.client, first.hands_in_at), (3, 15));
        assert_eq!(host.start(), None);
        host.leave(first.processor, 20);
        host.go_on(3, 20);
        let again = host.start().expect("it is free again");
        assert_eq!((again.client, again.hands_in_at), (3, 20));
        host.leave(again.processor, 25);
        host.occupy(40);
        let next = host.start().expect("it is free again");
        assert_eq!((next.client, next.hands_in_at), (1, 50));
    }
}
