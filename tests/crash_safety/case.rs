//! A test case: operations, and cuts with what they leave. Every step makes sense anywhere, so that any part of a case is a
//! case, which is what makes shrinking work.

use quickcheck::{Arbitrary, Gen};

/// Keys are few, so that operations meet.
pub(crate) const KEYS: u8 = 8;

/// Lengths of values: inside one sector, about one block, several blocks, and a large one.
pub(crate) const VALUE_BYTES: [usize; 5] = [0, 40, 900, 6_000, 140_000];

/// What is done.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// `None` deletes; else an index into [`VALUE_BYTES`].
    Write {
        writes: Vec<(u8, Option<u8>)>,
        durable: bool,
    },
    Sync,
    Get(u8),
    Scan {
        reverse: bool,
        limit: u8,
    },
    Snapshot,
    /// Reads a snapshot that was taken, if there is one.
    ReadSnapshot(u8),
    /// Closes cleanly and opens again.
    Reopen,
    Cut(Cut),
}

/// A power cut or a killed process, and what is left.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) process: bool,
    /// One bit for each pending write, over and over: whether it survives.
    pub(crate) survive: u64,
    /// The same: whether only every other one of its sectors does.
    pub(crate) torn: u64,
    /// The persisted writes reached the medium in the reverse of their order.
    pub(crate) reversed: bool,
    /// The recovery is itself cut after so many events, and nothing pending survives that.
    pub(crate) again_after: Option<u8>,
}

/// An action, and how long the world goes on before the next.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) action: Action,
    /// World events before the next step; `None` waits until all is answered.
    pub(crate) events: Option<u8>,
}

/// A sequence of steps.
#[derive(Debug, Clone)]
pub(crate) struct Case(pub(crate) Vec<Step>);

fn below(g: &mut Gen, end: u8) -> u8 {
    u8::arbitrary(g) % end
}

fn write(g: &mut Gen) -> (u8, Option<u8>) {
    // Large values are rare: they cost time and say little more.
    let size = *g
        .choose(&[0, 1, 1, 1, 2, 2, 2, 3, 3, 4])
        .expect("it is not empty");
    let value = (below(g, 5) > 0).then_some(size);
    (below(g, KEYS), value)
}

fn shrink_write(&(key, size): &(u8, Option<u8>)) -> Vec<(u8, Option<u8>)> {
    let smaller_key = (key > 0).then_some((0, size));
    let smaller_value = size.filter(|&size| size > 1).map(|_| (key, Some(1)));
    smaller_key.into_iter().chain(smaller_value).collect()
}

impl Arbitrary for Cut {
    fn arbitrary(g: &mut Gen) -> Cut {
        let masks = [
            0,
            u64::MAX,
            u64::arbitrary(g),
            1 << below(g, 8),
            !(1 << below(g, 8)),
        ];
        Cut {
            process: below(g, 6) == 0,
            survive: *g.choose(&masks).expect("it is not empty"),
            torn: if bool::arbitrary(g) {
                u64::arbitrary(g)
            } else {
                0
            },
            reversed: bool::arbitrary(g),
            again_after: (below(g, 4) == 0).then(|| below(g, 60)),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Cut>> {
        let this = self.clone();
        let again = this.again_after.map(|_| Cut {
            again_after: None,
            ..this.clone()
        });
        let torn = (this.torn != 0).then(|| Cut {
            torn: 0,
            ..this.clone()
        });
        let lost = (this.survive != 0).then(|| Cut {
            survive: 0,
            torn: 0,
            ..this.clone()
        });
        let in_order = this.reversed.then(|| Cut {
            reversed: false,
            ..this.clone()
        });
        let fewer = (0..8)
            .filter(move |bit| this.survive & (1 << bit) != 0)
            .map({
                let this = self.clone();
                move |bit| Cut {
                    survive: this.survive & !(1 << bit),
                    ..this.clone()
                }
            });
        Box::new(
            [again, torn, lost, in_order]
                .into_iter()
                .flatten()
                .chain(fewer),
        )
    }
}

impl Arbitrary for Action {
    fn arbitrary(g: &mut Gen) -> Action {
        let durable = below(g, 4) > 0;
        match below(g, 40) {
            0..16 => Action::Write {
                writes: vec![write(g)],
                durable,
            },
            16..22 => {
                let count = 1 + below(g, 5);
                Action::Write {
                    writes: (0..count).map(|_| write(g)).collect(),
                    durable,
                }
            }
            22..24 => Action::Sync,
            24..26 => Action::Get(below(g, KEYS)),
            26..29 => Action::Scan {
                reverse: bool::arbitrary(g),
                limit: 1 + below(g, KEYS + 2),
            },
            29 => Action::Snapshot,
            30..32 => Action::ReadSnapshot(below(g, 4)),
            32 => Action::Reopen,
            _ => Action::Cut(Cut::arbitrary(g)),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Action>> {
        match self.clone() {
            Action::Cut(cut) => Box::new(cut.shrink().map(Action::Cut)),
            Action::Write { writes, durable } => {
                let shorter = (writes.len() > 1).then(|| {
                    let writes = writes.clone();
                    (0..writes.len()).map(move |at| {
                        let mut fewer = writes.clone();
                        fewer.remove(at);
                        fewer
                    })
                });
                let smaller: Vec<Vec<_>> = (0..writes.len())
                    .flat_map(|at| {
                        let writes = &writes;
                        shrink_write(&writes[at]).into_iter().map(move |small| {
                            let mut changed = writes.clone();
                            changed[at] = small;
                            changed
                        })
                    })
                    .collect();
                let all = shorter.into_iter().flatten().chain(smaller);
                Box::new(all.map(move |writes| Action::Write { writes, durable }))
            }
            _ => quickcheck::empty_shrinker(),
        }
    }
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Step {
        let action = Action::arbitrary(g);
        Step {
            action,
            events: bool::arbitrary(g).then(|| below(g, 12)),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Step>> {
        let (events, action) = (self.events, self.action.clone());
        let at_last = events.map(|_| Step {
            events: None,
            action: action.clone(),
        });
        let at_once = events.filter(|&events| events > 0).map(|_| Step {
            events: Some(0),
            action,
        });
        let simpler = self
            .action
            .shrink()
            .map(move |action| Step { action, events });
        Box::new(at_last.into_iter().chain(at_once).chain(simpler))
    }
}

impl Arbitrary for Case {
    fn arbitrary(g: &mut Gen) -> Case {
        Case(Vec::arbitrary(g))
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Case>> {
        Box::new(self.0.shrink().map(Case))
    }
}
