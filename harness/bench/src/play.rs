//! The clients of a benchmark in the simulator: the same script as on the real disk, as requests of the guest ABI.

use kvsim_sim::api::{Direction, Durability, Request, Scan};

use super::host::Client;
use super::stream::{Action, Key, Operation, Script};

/// Plays a script.
pub(crate) struct Play<'a> {
    script: &'a Script,
    durability: Durability,
    key: Key,
    /// The first key that no client has inserted.
    next_key: u64,
    players: Vec<Player>,
}

#[derive(Default)]
struct Player {
    at: usize,
    writes: u64,
    /// The number of the key that was read and is written next.
    writes_next: Option<u64>,
}

/// A request of a client.
pub(crate) struct Step {
    pub(crate) request: Request,
    /// An operation begins with it; the client's last one is over.
    pub(crate) begins: bool,
    /// It is a commit.
    pub(crate) commits: bool,
}

impl<'a> Play<'a> {
    pub(crate) fn new(script: &'a Script, durability: Durability) -> Play<'a> {
        let players = script.lists.iter().map(|_| Player::default());
        Play {
            script,
            durability,
            key: Key::new(script.key_bytes),
            next_key: script.next_key,
            players: players.collect(),
        }
    }

    /// What is written before the clients begin.
    pub(crate) fn preload(script: &Script) -> impl Iterator<Item = Request> {
        let mut key = Key::new(script.key_bytes);
        (0..script.preload).map(move |number| Request::Put {
            key: key.of(number).to_vec(),
            value: script.values.nth(number).to_vec(),
            durability: Durability::Relaxed,
        })
    }

    /// What the client asks for next.
    pub(crate) fn next(&mut self, client: Client) -> Step {
        if let Some(number) = self.players[client].writes_next.take() {
            return Step {
                request: self.put(client, number),
                begins: false,
                commits: true,
            };
        }
        let Operation {
            action,
            key,
            entries,
        } = self.operation(client);
        let mut number = u64::from(key);
        if self.script.from_latest {
            number = self.next_key.saturating_sub(1 + number);
        }
        let request = match action {
            Action::Put => self.put(client, number),
            Action::Insert => {
                self.next_key += 1;
                self.put(client, self.next_key - 1)
            }
            Action::Delete => Request::Delete {
                key: self.key.of(number).to_vec(),
                durability: self.durability,
            },
            Action::Get => self.get(number),
            Action::ReadModifyWrite => {
                self.players[client].writes_next = Some(number);
                self.get(number)
            }
            Action::Scan => Request::Scan(Scan {
                snapshot: 0,
                direction: Direction::Forward,
                start: Some(self.key.of(number).to_vec()),
                end: None,
                limit: u32::from(entries).max(1),
                max_bytes: u32::MAX,
            }),
        };
        Step {
            request,
            begins: true,
            commits: matches!(action, Action::Put | Action::Insert | Action::Delete),
        }
    }

    fn operation(&mut self, client: Client) -> Operation {
        let list = &self.script.lists[client];
        let player = &mut self.players[client];
        let operation = list[player.at];
        player.at = (player.at + 1) % list.len();
        operation
    }

    fn get(&mut self, number: u64) -> Request {
        Request::Get {
            key: self.key.of(number).to_vec(),
            snapshot: 0,
        }
    }

    fn put(&mut self, client: Client, number: u64) -> Request {
        let player = &mut self.players[client];
        let value = self.script.value(client as u64, player.writes);
        player.writes += 1;
        Request::Put {
            key: self.key.of(number).to_vec(),
            value: value.to_vec(),
            durability: self.durability,
        }
    }
}
