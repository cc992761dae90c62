//! What the clients do: a deterministic stream of requests per client.
//!
//! Each client is a small state machine with one request in flight: [`Workload::next`] gives its next request,
//! [`Workload::replied`] tells it how that ended. Operations of several requests (read-modify-write, a snapshot that is read
//! again) are continued by the following calls of `next`.
//!
//! Invariants:
//! - a client's draws come from a stream of its own, so that another client's pace does not move them;
//! - every written value carries a number that no other write of the run has, across crashes too;
//! - every operation makes sense in any state, so that shrinking may leave any of them out.

use crate::at_limits::AtLimits;
use crate::client::Client;
use crate::config::{WorkloadConfig, WorkloadError};
use crate::edge::EdgeCases;
use crate::keyspace::KeySpace;
use crate::maker::{Maker, Shared};
use crate::offered;
use crate::step::{ClientId, OpKind, PRELOAD_WRITER, Step};
use kvsim_api::limits::KnownLimits;
use kvsim_sim::Offers;
use kvsim_sim::api::{Mutation, Reply, Request};
use kvsim_simdisk::rng::{Purpose, Rng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Preloaded records go in batches of at most so many records and bytes.
const PRELOAD_BATCH_WRITES: u64 = 64;
const PRELOAD_BATCH_BYTES: usize = 256 << 10;

/// All clients of one run.
#[derive(Debug, Clone)]
pub struct Workload {
    config: WorkloadConfig,
    clients: Vec<Client>,
    rngs: Vec<Rng>,
    shared: Shared,
    edges: EdgeCases,
    at_limits: AtLimits,
    preloaded: u64,
    /// Requests of the preload that were made already, the next one last.
    loading: Vec<Request>,
    offers: Offers,
}

impl Workload {
    /// The workload of this configuration and seed.
    ///
    /// # Errors
    /// The field that makes it impossible.
    pub fn new(config: &WorkloadConfig, seed: u64) -> Result<Workload, WorkloadError> {
        config.validate()?;
        let stream = |client: ClientId| {
            Rng::new(
                xxh3_64_with_seed(&client.to_le_bytes(), seed),
                Purpose::Workload,
            )
        };
        Ok(Workload {
            clients: vec![Client::default(); config.clients as usize],
            rngs: (0..config.clients).map(stream).collect(),
            shared: Shared {
                keys: KeySpace::new(config),
                next_number: 1,
                values_made: 0,
                preload_rng: stream(PRELOAD_WRITER),
            },
            edges: EdgeCases::new(config.clients, seed),
            at_limits: AtLimits::new(config.clients, seed),
            preloaded: 0,
            loading: Vec::new(),
            offers: Offers::default(),
            config: config.clone(),
        })
    }

    /// Lets it send requests just beyond these limits, as edge cases.
    #[must_use]
    pub fn knowing(mut self, limits: KnownLimits) -> Workload {
        self.edges.limits = limits;
        self.at_limits.limits = limits;
        self
    }

    /// Lets it ask only for what a guest offers.
    ///
    /// # Errors
    /// If nothing of its operations is left then.
    pub fn offered(mut self, offers: Offers) -> Result<Workload, WorkloadError> {
        let config = offered::offered(&self.config, &offers);
        if config.operations.total() == 0 {
            let missing = offers.missing().join(", ");
            return Err(WorkloadError {
                field: "operations",
                message: format!("has only what this guest does not offer: {missing}"),
            });
        }
        self.config = config;
        self.offers = offers;
        Ok(self)
    }

    /// How many clients there are.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.config.clients
    }

    /// The next request of the preload, all of which come before the clients begin; `None` when all is loaded.
    pub fn preload(&mut self) -> Option<Request> {
        if let Some(request) = self.loading.pop() {
            return Some(request);
        }
        let mut mutations = Vec::new();
        let mut bytes = 0;
        while self.preloaded < self.config.preload
            && mutations.len() as u64 != PRELOAD_BATCH_WRITES
            && bytes < PRELOAD_BATCH_BYTES
        {
            let key = self.shared.keys.key(self.preloaded);
            let mut rng = self.shared.preload_rng.clone();
            let value = self
                .shared
                .value(&self.config, PRELOAD_WRITER, &key, &mut rng);
            self.shared.preload_rng = rng;
            bytes += key.len() + value.len();
            mutations.push(Mutation::Put { key, value });
            self.preloaded += 1;
        }
        self.loading = offered::preload(mutations, &self.offers);
        self.loading.pop()
    }

    /// The next request of a client that has none in flight.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn next(&mut self, client: ClientId) -> Step {
        let at = client as usize;
        if self.clients[at].is_idle()
            && let Some(request) = self.beside(client)
        {
            return Step {
                kind: OpKind::EdgeCase,
                request,
                think_ns: self.config.think_time_ns,
                last: true,
            };
        }
        let mut maker = Maker {
            id: client,
            config: &self.config,
            shared: &mut self.shared,
            rng: &mut self.rngs[at],
        };
        let step = self.clients[at].next(&mut maker);
        self.edges.sends(client, &step.request);
        step
    }

    /// What a client that is in the middle of nothing sends beside its operations, if anything.
    fn beside(&mut self, client: ClientId) -> Option<Request> {
        let edge = self.edges.draw(client, &self.config, &self.shared);
        let edge = edge.and_then(|request| offered::only_offered(request, &self.offers));
        let beside = edge.or_else(|| self.at_limits.draw(client, &self.config, &self.shared));
        beside.and_then(|request| offered::only_offered(request, &self.offers))
    }

    /// Tells a client how its request ended.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn replied(&mut self, client: ClientId, reply: &Reply) {
        self.edges.replied(client, reply.status);
        if let Some(number) = self.clients[client as usize].replied(reply) {
            self.shared.keys.inserted(number);
        }
    }

    /// The guest is gone: every client forgets what it was waiting for and begins a new operation next.
    pub fn crashed(&mut self) {
        self.clients.fill(Client::default());
        self.edges.crashed();
    }
}
