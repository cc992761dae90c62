//! One client: the operation it is in the middle of, and how it draws the next.

use crate::maker::Maker;
use crate::step::{OpKind, Step};
use kvsim_sim::api::{Body, Direction, Mutation, Reply, Request, Scan, SnapshotId, Status};

/// What a client will do next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    script: Script,
}

#[derive(Debug, Clone, Default)]
enum Script {
    /// Draw an operation.
    #[default]
    Idle,
    /// An insert of this key number is in flight.
    Inserting(u64),
    /// The read of a read-modify-write is in flight or done: the write comes next.
    Modify(u64),
    /// A snapshot is being taken or read.
    Snapshot(SnapshotScript),
}

/// A snapshot is taken and then, so many times: its range is read, forward or in reverse, and a key in the range is overwritten or deleted. Each
/// read must show the same. At last it is released.
#[derive(Debug, Clone)]
struct SnapshotScript {
    id: Option<SnapshotId>,
    /// The number of the key that is written, the first that a scan of the range comes to.
    key: u64,
    scan: Scan,
    reads_left: u32,
    write_next: bool,
}

impl Client {
    /// Whether it is in the middle of nothing.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.script, Script::Idle)
    }

    /// The next request.
    pub(crate) fn next(&mut self, maker: &mut Maker<'_>) -> Step {
        match std::mem::take(&mut self.script) {
            Script::Idle | Script::Inserting(_) => self.begin(maker),
            Script::Modify(key) => step(OpKind::ReadModifyWrite, put(maker, key), 0, true),
            Script::Snapshot(script) => self.continue_snapshot(maker, script),
        }
    }

    /// How the request in flight ended. Gives the number of a key whose insertion was acknowledged.
    pub(crate) fn replied(&mut self, reply: &Reply) -> Option<u64> {
        match &mut self.script {
            Script::Idle => {}
            Script::Inserting(key) => {
                let key = *key;
                self.script = Script::Idle;
                return (reply.status == Status::Ok).then_some(key);
            }
            Script::Modify(_) => {
                if !matches!(reply.status, Status::Ok | Status::NotFound) {
                    self.script = Script::Idle;
                }
            }
            Script::Snapshot(script) => match (&reply.body, reply.status) {
                (Body::Snapshot(id), Status::Ok) if script.id.is_none() => script.id = Some(*id),
                (_, Status::Ok) => {}
                _ if script.id.is_none() => self.script = Script::Idle,
                // A failed read or write does not end a snapshot; it is still to be released.
                _ => {}
            },
        }
        None
    }

    fn begin(&mut self, maker: &mut Maker<'_>) -> Step {
        let think_ns = maker.config.think_time_ns;
        let kind = draw_kind(maker);
        let request = match kind {
            OpKind::Put => {
                let key = maker.draw_key();
                put(maker, key)
            }
            OpKind::Insert => {
                let key = maker.shared.keys.insert();
                self.script = Script::Inserting(key);
                put(maker, key)
            }
            OpKind::Delete => {
                let key = maker.draw_key();
                Request::Delete {
                    key: maker.key(key),
                    durability: maker.durability(),
                }
            }
            OpKind::Get => {
                let key = maker.draw_key();
                Request::Get {
                    key: maker.key(key),
                    snapshot: 0,
                }
            }
            OpKind::Scan => {
                let key = maker.draw_key();
                Request::Scan(scan(maker, key))
            }
            OpKind::Batch => batch(maker),
            OpKind::ReadModifyWrite => {
                let key = maker.draw_key();
                self.script = Script::Modify(key);
                Request::Get {
                    key: maker.key(key),
                    snapshot: 0,
                }
            }
            OpKind::Snapshot => {
                let key = maker.draw_key();
                let scan = scan(maker, key);
                // The key that is written lies in the range, and comes first.
                let (start, end) = match scan.direction {
                    Direction::Forward => (Some(maker.key(key)), None),
                    Direction::Reverse => (None, Some(successor(maker.key(key)))),
                };
                let scan = Scan { start, end, ..scan };
                let reads_left = maker.count(maker.config.snapshot_reads) + 1;
                self.script = Script::Snapshot(SnapshotScript {
                    id: None,
                    key,
                    scan,
                    reads_left,
                    write_next: false,
                });
                Request::Snapshot
            }
            OpKind::Sync => Request::Sync,
            OpKind::EdgeCase => unreachable!("an edge case is drawn before an operation"),
        };
        let last = !matches!(self.script, Script::Modify(_) | Script::Snapshot(_));
        step(kind, request, think_ns, last)
    }

    fn continue_snapshot(&mut self, maker: &mut Maker<'_>, mut script: SnapshotScript) -> Step {
        let Some(snapshot) = script.id else {
            return self.begin(maker);
        };
        if script.reads_left == 0 {
            return step(OpKind::Snapshot, Request::Release { snapshot }, 0, true);
        }
        let request = if script.write_next {
            if maker.chance(0.5) {
                Request::Delete {
                    key: maker.key(script.key),
                    durability: maker.durability(),
                }
            } else {
                put(maker, script.key)
            }
        } else {
            script.reads_left -= 1;
            if maker.chance(0.25) {
                Request::Get {
                    key: maker.key(script.key),
                    snapshot,
                }
            } else {
                Request::Scan(Scan {
                    snapshot,
                    ..script.scan.clone()
                })
            }
        };
        // A write between any two reads, none after the last.
        script.write_next = !script.write_next && script.reads_left > 0;
        self.script = Script::Snapshot(script);
        step(OpKind::Snapshot, request, 0, false)
    }
}

fn step(kind: OpKind, request: Request, think_ns: u64, last: bool) -> Step {
    Step {
        kind,
        request,
        think_ns,
        last,
    }
}

fn put(maker: &mut Maker<'_>, key: u64) -> Request {
    let key = maker.key(key);
    let value = maker.value(&key);
    Request::Put {
        key,
        value,
        durability: maker.durability(),
    }
}

fn scan(maker: &mut Maker<'_>, key: u64) -> Scan {
    let limit = maker.count(maker.config.scan_entries);
    let bounded = maker.chance(maker.config.bounded_fraction);
    let reverse = maker.chance(maker.config.reverse_fraction);
    let far = u64::from(limit);
    let (start, end) = match (reverse, bounded) {
        (false, false) => (Some(key), None),
        (false, true) => (
            Some(key),
            Some(key + far).filter(|&end| end < maker.shared.keys.keys()),
        ),
        (true, false) => (None, Some(key)),
        (true, true) => (Some(key.saturating_sub(far)), Some(key)),
    };
    let (mut start, mut end) = (
        start.map(|key| maker.key(key)),
        end.map(|key| maker.key(key)),
    );
    // Keys of mixed shapes are not in the order of their numbers.
    if start.is_some() && end.is_some() && start > end {
        std::mem::swap(&mut start, &mut end);
    }
    Scan {
        snapshot: 0,
        direction: if reverse {
            Direction::Reverse
        } else {
            Direction::Forward
        },
        start,
        end,
        limit,
        max_bytes: maker.config.scan_bytes_max,
    }
}

/// The key right behind this one.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

fn batch(maker: &mut Maker<'_>) -> Request {
    let writes = maker.count(maker.config.batch_writes);
    let mut mutations = Vec::with_capacity(writes as usize);
    for _ in 0..writes {
        let number = maker.draw_key();
        let key = maker.key(number);
        mutations.push(if maker.chance(maker.config.batch_delete_fraction) {
            Mutation::Delete { key }
        } else {
            let value = maker.value(&key);
            Mutation::Put { key, value }
        });
    }
    Request::Batch {
        mutations,
        durability: maker.durability(),
    }
}

fn draw_kind(maker: &mut Maker<'_>) -> OpKind {
    let weights = maker.config.operations;
    let mut left = maker.rng.below(weights.total());
    for (weight, kind) in [
        (weights.put, OpKind::Put),
        (weights.insert, OpKind::Insert),
        (weights.delete, OpKind::Delete),
        (weights.get, OpKind::Get),
        (weights.scan, OpKind::Scan),
        (weights.batch, OpKind::Batch),
        (weights.read_modify_write, OpKind::ReadModifyWrite),
        (weights.snapshot, OpKind::Snapshot),
        (weights.sync, OpKind::Sync),
    ] {
        match left.checked_sub(u64::from(weight)) {
            Some(rest) => left = rest,
            None => return kind,
        }
    }
    unreachable!("a draw below the sum of the weights")
}
