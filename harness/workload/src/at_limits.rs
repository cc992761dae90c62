//! Well-formed requests at a limit: the longest and the shortest keys, the longest value, the largest batch, a key twice in one batch, scans of everything
//! and of nothing, keys that are not there.
//!
//! Invariant: as edge cases, they have random streams and value numbers of their own, so that they move no other draw.

use kvsim_sim::api::{Direction, Durability, Mutation, Request, Scan};

use crate::aside::{Aside, VALUE_BYTES};
use crate::config::{KEY_BYTES_MAX, WorkloadConfig};
use crate::maker::Shared;
use crate::step::ClientId;
use crate::zipf::unit;
use kvsim_api::limits::{
    BATCH_BYTES_SURE, KEY_BYTES_SURE, KnownLimits, MUTATION_BYTES, VALUE_BYTES_SURE,
};

/// Keeps these draws apart from those of the other requests.
const LABEL: &[u8] = b"at limits";
/// Numbers of values begin here.
const NUMBERS_FROM: u64 = 1 << 41;

/// What each client may send beside its operations.
#[derive(Debug, Clone)]
pub(crate) struct AtLimits {
    aside: Aside,
    pub(crate) limits: KnownLimits,
}

impl AtLimits {
    pub(crate) fn new(clients: u32, seed: u64) -> AtLimits {
        AtLimits {
            aside: Aside::new(LABEL, NUMBERS_FROM, clients, seed),
            limits: KnownLimits::default(),
        }
    }

    /// A request at a limit, if the client is to send one now.
    pub(crate) fn draw(
        &mut self,
        client: ClientId,
        config: &WorkloadConfig,
        shared: &Shared,
    ) -> Option<Request> {
        let rng = self.aside.rng(client);
        if config.at_limits == 0.0 || unit(rng) >= config.at_limits {
            return None;
        }
        let (form, number) = (rng.below(12), rng.below(config.keys));
        let durability = self.aside.durability(client);
        let key = shared.keys.key(number);
        let longest = self.longest(&key);
        Some(match form {
            0 | 1 => self.aside.put(client, longest, VALUE_BYTES, durability),
            2 => Request::Delete {
                key: longest,
                durability,
            },
            3 => self
                .aside
                .put(client, vec![key[key.len() - 1]], VALUE_BYTES, durability),
            4 => {
                let bytes = self.limits.value_bytes_max.unwrap_or(VALUE_BYTES_SURE);
                let bytes = bytes.min(VALUE_BYTES_SURE);
                self.aside
                    .put(client, key, usize::try_from(bytes).unwrap_or(0), durability)
            }
            5 | 6 => self.largest_batch(client, config, shared, durability),
            7 => self.batch_of_one_key(client, key, durability),
            8 => scan_of_all(if number % 2 == 0 {
                Direction::Forward
            } else {
                Direction::Reverse
            }),
            9 => scan_of_none(key),
            10 => Request::Get {
                key: missing(key),
                snapshot: 0,
            },
            _ => Request::Delete {
                key: missing(key),
                durability,
            },
        })
    }

    /// This key, made as long as a key may be.
    fn longest(&self, key: &[u8]) -> Vec<u8> {
        let bytes = self.limits.key_bytes_max.unwrap_or(KEY_BYTES_SURE);
        let bytes = bytes.min(KEY_BYTES_SURE);
        let mut longest = key.to_vec();
        longest.resize(usize::try_from(bytes).unwrap_or(KEY_BYTES_MAX), b'l');
        longest
    }

    /// A batch of exactly as many bytes as every guest takes: of few long values, or of many short ones.
    fn largest_batch(
        &mut self,
        client: ClientId,
        config: &WorkloadConfig,
        shared: &Shared,
        durability: Durability,
    ) -> Request {
        let rng = self.aside.rng(client);
        let members: u64 = [1, 2, 7, 40, 100][usize::try_from(rng.below(5)).unwrap_or(0)];
        let numbers: Vec<u64> = (0..members).map(|_| rng.below(config.keys)).collect();
        let value_max = self.limits.value_bytes_max.unwrap_or(VALUE_BYTES_SURE);
        let (mut left, mut mutations) = (BATCH_BYTES_SURE, Vec::new());
        for (at, number) in (0..).zip(&numbers) {
            let key = shared.keys.key(*number);
            let Some(room) = left.checked_sub(key.len() as u64 + MUTATION_BYTES) else {
                break;
            };
            let share = (room / (members - at)).min(value_max);
            left = room - share;
            let bytes = usize::try_from(share).expect("no more than a batch has");
            let value = self.aside.value(client, &key, bytes);
            mutations.push(Mutation::Put { key, value });
        }
        Request::Batch {
            mutations,
            durability,
        }
    }

    /// Of several members with one key the last counts.
    fn batch_of_one_key(
        &mut self,
        client: ClientId,
        key: Vec<u8>,
        durability: Durability,
    ) -> Request {
        let mut put = |key: &[u8]| Mutation::Put {
            key: key.to_vec(),
            value: self.aside.value(client, key, VALUE_BYTES),
        };
        let (first, last) = (put(&key), put(&key));
        let delete = Mutation::Delete { key };
        let mutations = match self.aside.rng(client).below(2) {
            0 => vec![first, delete, last],
            _ => vec![first, last, delete],
        };
        Request::Batch {
            mutations,
            durability,
        }
    }
}

/// The key right behind this one, which hardly ever is a key of the key space.
fn missing(mut key: Vec<u8>) -> Vec<u8> {
    match key.len() {
        KEY_BYTES_MAX => *key.last_mut().expect("it is long") ^= 0x80,
        _ => key.push(0),
    }
    key
}

fn scan_of_all(direction: Direction) -> Request {
    Request::Scan(Scan {
        snapshot: 0,
        direction,
        start: None,
        end: None,
        limit: u32::MAX,
        max_bytes: 1 << 20,
    })
}

fn scan_of_none(key: Vec<u8>) -> Request {
    Request::Scan(Scan {
        snapshot: 0,
        direction: Direction::Reverse,
        start: Some(key.clone()),
        end: Some(key),
        limit: 10,
        max_bytes: 1 << 16,
    })
}
