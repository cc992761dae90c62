//! Growths, and writes through the cache beyond them, against brute force: every short run, every set of persisted writes.

use crate::common::{Rig, SECTOR, config, honest, write};
use kvsim_simdisk::{CrashState, DeviceConfig, Op, Persisted};

/// The device has two sectors and can have four.
const OLD: u64 = 2;
const MOST: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Grow(u64),
    Write { sector: u64, through: bool },
    Flush,
}

fn steps() -> Vec<Step> {
    let mut steps = vec![Step::Flush, Step::Grow(3), Step::Grow(4)];
    for sector in 1..MOST {
        for through in [false, true] {
            steps.push(Step::Write { sector, through });
        }
    }
    steps
}

/// What was done so far, each step complete before the next.
#[derive(Clone, Default)]
struct Model {
    /// Number, step, and whether it is durable, as far as it can be without its growth.
    done: Vec<(u64, Step, bool)>,
}

impl Model {
    fn sectors(&self) -> u64 {
        let grown = self.done.iter().map(|(_, step, _)| match step {
            Step::Grow(sectors) => *sectors,
            _ => OLD,
        });
        grown.max().unwrap_or(OLD)
    }

    fn happen(&mut self, id: u64, step: Step) {
        if step == Step::Flush {
            self.done
                .iter_mut()
                .for_each(|(_, _, durable)| *durable = true);
        }
        let durable = matches!(step, Step::Write { through: true, .. });
        self.done.push((id, step, durable));
    }

    /// What fills each sector after a cut with these persisted writes.
    fn after(&self, persisted: &[u64]) -> Vec<u8> {
        let kept = |(id, _, durable): &(u64, Step, bool)| *durable || persisted.contains(id);
        let grown = self
            .done
            .iter()
            .filter(|it| kept(it))
            .map(|(_, step, _)| match step {
                Step::Grow(sectors) => *sectors,
                _ => OLD,
            });
        let sectors = grown.max().unwrap_or(OLD);
        let of = |wanted: u64| {
            let mut writes = self.done.iter().rev().filter(
                |(_, step, _)| matches!(step, Step::Write { sector, .. } if *sector == wanted),
            );
            // The newest that is there; an older one never comes back over it.
            let newest = writes.find(|it| kept(it));
            newest.map_or(0, |(id, _, _)| fill(*id))
        };
        (0..sectors).map(of).collect()
    }
}

fn fill(id: u64) -> u8 {
    u8::try_from(id).unwrap() + 1
}

fn run(steps: &[Step]) -> Option<(Rig, Model)> {
    let device = DeviceConfig {
        physical_block_bytes: 512,
        capacity_bytes: OLD * SECTOR,
        max_capacity_bytes: MOST * SECTOR,
        ..config()
    };
    let mut rig = Rig::new(&device, &honest(), 1);
    let mut model = Model::default();
    for (id, &step) in (0..).zip(steps) {
        let op = match step {
            Step::Grow(sectors) => Op::Grow {
                new_bytes: sectors * SECTOR,
            },
            Step::Write { sector, .. } if sector >= model.sectors() => return None,
            Step::Write { sector, through } => write(sector, 1, fill(id), through),
            Step::Flush => Op::Flush,
        };
        rig.run(op).unwrap();
        model.happen(id, step);
    }
    Some((rig, model))
}

/// Goal: what was written through beyond a growth is there exactly if the growth is, and nothing makes the growth durable but a flush. Method: all runs of
/// up to four steps, and all sets of persisted writes of each, against a list of what was done.
#[test]
fn every_short_run_leaves_what_the_model_says() {
    let mut runs: Vec<Vec<Step>> = vec![Vec::new()];
    let (mut states, mut beyond) = (0, 0);
    for _ in 0..4 {
        let longer = |run: &Vec<Step>| {
            let run = run.clone();
            steps()
                .into_iter()
                .map(move |step| [run.clone(), vec![step]].concat())
        };
        runs = runs.iter().flat_map(longer).collect();
        for steps in &runs {
            let Some((rig, model)) = run(steps) else {
                continue;
            };
            let pending: Vec<u64> = rig.device.pending().iter().map(|write| write.id).collect();
            for bits in 0..1_u32 << pending.len() {
                let kept = (0..).zip(&pending).filter(|(at, _)| bits >> at & 1 == 1);
                let kept: Vec<u64> = kept.map(|(_, id)| *id).collect();
                let state = CrashState {
                    persisted: kept.iter().copied().map(Persisted::whole).collect(),
                };
                let image = rig.device.image_after(&state).unwrap();
                let found: Vec<u8> = (0..image.len_bytes() / SECTOR)
                    .map(|sector| image.excerpt(sector * SECTOR, 1).to_vec()[0])
                    .collect();
                assert_eq!(found, model.after(&kept), "{steps:?}, kept {kept:?}");
                let mut fork = Rig {
                    device: rig.device.clone(),
                    now: rig.now,
                };
                fork.cut(&state);
                assert_eq!(fork.device.image().hash(), image.hash());
                assert_eq!(fork.device.durable().hash(), image.hash());
                states += 1;
                let is_through = |it: &&(u64, Step, bool)| matches!(it.1, Step::Write { sector, through: true } if sector >= OLD);
                beyond += u32::from(model.done.iter().any(|it| is_through(&it)));
            }
        }
    }
    assert!(states > 10_000 && beyond > 1_000, "{states} {beyond}");
}
