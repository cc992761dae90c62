//! Tests: crafted images. Fields of real images are changed, and all checksums are made right again, so that only the
//! engine's own checks stand between a wrong number and its use. For every image the opening answers, and so does
//! everything after it: no panic, no endless work, no more memory than a stated multiple of the image.
#![allow(clippy::cast_possible_truncation, reason = "test sizes are small")]

#[path = "../../tests/engine/common/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    missing_docs,
    reason = "of what the engine's other tests have, a part is used"
)]
mod common;
mod craft;
mod memory;

use kvsim_engine::{Direction, Durability, Mutation, Reply, Request, ScanRange, Status};

use self::common::{Disk, FAST, Rng, World, bytes, device};
use self::craft::Image;
use self::memory::peak_of;

/// What the engine may hold for an image of so many bytes: a few times what is there, and its buffers.
fn memory_max(image_bytes: usize) -> usize {
    4 * image_bytes + (4 << 20)
}

/// Events that one request may take.
const STEPS_MAX: u32 = 400_000;

/// A database to begin with: its device, and what it is written with.
struct Recipe {
    capacity_bytes: u64,
    block_bytes: u32,
    options: &'static str,
    keys: u64,
    writes: u64,
    /// Values are of up to so many bytes, and every tenth of up to ten times as many.
    value_bytes: u64,
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        capacity_bytes: 1 << 20,
        block_bytes: 4096,
        options: "segment_bytes=16384\ncache_bytes=65536\ncheckpoint_bytes=65536",
        keys: 900,
        writes: 1500,
        value_bytes: 100,
    },
    Recipe {
        capacity_bytes: 4 << 20,
        block_bytes: 4096,
        options: "large_value_bytes=2048\ncache_bytes=65536\ncheckpoint_bytes=131072",
        keys: 100,
        writes: 300,
        value_bytes: 9_000,
    },
    Recipe {
        capacity_bytes: 2 << 20,
        block_bytes: 512,
        options: "inline_bytes=0\nsegment_bytes=65536\ncache_bytes=0\ncheckpoint_bytes=131072",
        keys: 200,
        writes: 2500,
        value_bytes: 1_000,
    },
    Recipe {
        capacity_bytes: 2 << 20,
        block_bytes: 4096,
        options: "segment_bytes=16384\nlarge_value_bytes=1024\ncheckpoint_bytes=1000000",
        keys: 50,
        writes: 60,
        value_bytes: 3_000,
    },
    Recipe {
        capacity_bytes: 1 << 20,
        block_bytes: 512,
        options: "segment_bytes=16384\ninline_bytes=1024\ncheckpoint_bytes=16384",
        keys: 300,
        writes: 600,
        value_bytes: 300,
    },
    // All values lie in an index that does not fit into memory: its runs have filters.
    Recipe {
        capacity_bytes: 2 << 20,
        block_bytes: 512,
        options: "segment_bytes=16384\ninline_bytes=1024\ncheckpoint_bytes=16384\nindex_bytes=16384",
        keys: 900,
        writes: 1500,
        value_bytes: 90,
    },
];

impl Recipe {
    fn world(&self) -> World {
        let mut info = device(self.capacity_bytes);
        info.physical_block_bytes = self.block_bytes;
        World::new(Disk::new(info, FAST, 1), self.options)
    }

    /// The image after a crash that lost nothing.
    fn make(&self) -> Vec<u8> {
        let mut rng = Rng(self.keys);
        let mut world = self.world();
        world.open().expect("opens");
        for n in 0..self.writes {
            let key = format!("key{:05}", rng.below(self.keys)).into_bytes();
            let many = if n % 10 == 0 { 10 } else { 1 };
            let value = bytes(n, rng.below(self.value_bytes * many) as usize);
            match n % 8 {
                7 => world.delete(&key),
                _ => world.put(&key, &value),
            };
        }
        world.kill();
        world.disk.keep_all();
        world.disk.durable
    }
}

fn answer(world: &mut World, request: Request<'_>) -> Reply {
    let id = world.request(request);
    for _ in 0..STEPS_MAX {
        match world.step() {
            Some(Some((answered, reply))) if answered == id => return reply,
            Some(_) => {}
            None => panic!("a request is never answered; log: {:#?}", world.log()),
        }
    }
    panic!("a request takes for ever; log: {:#?}", world.log());
}

/// Opens; an image that is refused is damaged, of another device, or too full.
fn open(world: &mut World) -> bool {
    world.begin_open();
    for _ in 0..STEPS_MAX {
        match world.step() {
            Some(Some((0, Reply::Done))) => return true,
            Some(Some((0, Reply::Failed(status, message)))) => {
                let known = [Status::Corruption, Status::Invalid, Status::NoSpace];
                assert!(known.contains(&status), "{status:?} {message}");
                let is_placed = message.contains("damage at byte")
                    && message.contains("expected")
                    && message.contains("found");
                assert!(is_placed || status != Status::Corruption, "{message}");
                return false;
            }
            Some(_) => {}
            None => panic!("the opening is never answered; log: {:#?}", world.log()),
        }
    }
    panic!("the opening takes for ever; log: {:#?}", world.log());
}

fn scan(world: &mut World, direction: Direction) {
    let mut bound: Option<Vec<u8>> = None;
    loop {
        let (start, end) = match direction {
            Direction::Forward => (bound.as_deref(), None),
            Direction::Reverse => (None, bound.as_deref()),
        };
        let range = ScanRange {
            snapshot: 0,
            direction,
            start,
            end,
            limit: 50,
            max_bytes: 100_000,
        };
        let Reply::Entries { entries, more } = answer(world, Request::Scan(range)) else {
            return;
        };
        let Some(last) = entries.last().filter(|_| more) else {
            return;
        };
        let mut next = last.key.to_vec();
        if direction == Direction::Forward {
            next.push(0);
        }
        bound = Some(next);
    }
}

fn write(world: &mut World, key: &[u8], value: Option<&[u8]>, durability: Durability) {
    let mutation = match value {
        Some(value) => Mutation::Put { key, value },
        None => Mutation::Delete { key },
    };
    let mutations = &[mutation];
    answer(
        world,
        Request::Write {
            mutations,
            durability,
        },
    );
}

/// Uses an open database in every way. Any answer will do.
fn use_it(world: &mut World, seed: u64, keys: u64) {
    let mut rng = Rng(seed);
    scan(world, Direction::Forward);
    scan(world, Direction::Reverse);
    let snapshot = answer(world, Request::Snapshot);
    for n in 0..60 {
        let key = format!("key{:05}", rng.below(keys)).into_bytes();
        let value = bytes(seed ^ n, [10, 500, 2_000, 30_000][rng.below(4) as usize]);
        let durability = match rng.chance(50) {
            true => Durability::Durable,
            false => Durability::Relaxed,
        };
        match rng.below(6) {
            0 => write(world, &key, None, durability),
            1 => {
                answer(
                    world,
                    Request::Get {
                        snapshot: 0,
                        key: &key,
                    },
                );
            }
            _ => write(world, &key, Some(&value), durability),
        }
    }
    if let Reply::Snapshot(snapshot) = snapshot {
        answer(
            world,
            Request::Get {
                snapshot,
                key: b"key00001",
            },
        );
        answer(world, Request::Release { snapshot });
    }
    answer(world, Request::Sync);
    scan(world, Direction::Forward);
}

/// An image in memory.
struct Bytes<'a>(&'a [u8]);

impl kvsim_engine::Image for Bytes<'_> {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let rest = self.0.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
    }
}

/// Repairs an image. Any keys and values will do.
fn repair(image: &[u8]) {
    let mut image = Bytes(image);
    if let Ok(repair) = kvsim_engine::Repair::of(&mut image, None, &mut |_| ()) {
        let all = repair.each(&mut image, |_, _| Ok::<(), ()>(()));
        all.expect("nothing is refused");
        let spans = repair.unknown();
        let apart = |two: &[kvsim_engine::KeySpan]| {
            let end = two[0].to.as_ref();
            end.is_some_and(|end| end < &two[1].from)
        };
        assert!(spans.windows(2).all(apart), "{spans:?}");
    }
}

/// Repairs an image. Opens it and uses the database; then once more after a crash.
fn try_image(recipe: &Recipe, image: Vec<u8>, seed: u64) -> bool {
    let mut bare = image.clone();
    if seed.is_multiple_of(2) {
        // Without a superblock.
        bare[..256 << 10].fill(0);
    }
    let ((), peak) = peak_of(|| repair(&bare));
    let max = memory_max(bare.len());
    assert!(
        peak <= max,
        "{peak} bytes for a repair, and {max} are allowed"
    );
    let mut world = recipe.world();
    let image_bytes = image.len();
    // Half of them load their index behind the opening, and of some not all entries fit into memory.
    if seed / 2 % 2 == 1 {
        world.options += "\nload_first_bytes=0";
    }
    if seed / 4 % 4 == 3 {
        world.options += "\nindex_bytes=16384";
    }
    world.disk.load(image);
    let (opened, peak) = peak_of(|| {
        let opened = open(&mut world);
        if opened {
            use_it(&mut world, seed, recipe.keys);
            if seed.is_multiple_of(2) {
                answer(&mut world, Request::Close);
            }
            world.kill();
            world.disk.power_cut();
            if open(&mut world) {
                scan(&mut world, Direction::Forward);
            }
        }
        opened
    });
    let max = memory_max(image_bytes);
    assert!(peak <= max, "{peak} bytes of memory, and {max} are allowed");
    opened
}

/// Tries so many crafted images from a number on; returns how many could be opened.
fn try_crafted(from: u64, count: u64) -> u64 {
    let originals: Vec<Vec<u8>> = RECIPES.iter().map(Recipe::make).collect();
    let (mut opened, mut failures) = (0, Vec::new());
    for seed in from..from + count {
        let at = (seed % RECIPES.len() as u64) as usize;
        let mut image = Image::of(originals[at].clone());
        let mut rng = Rng(seed);
        let edits = 1 + rng.below(3) * rng.below(2);
        let edits: Vec<String> = (0..edits).map(|_| image.edit(&mut rng)).collect();
        let bytes = image.into_bytes();
        let tried = std::panic::catch_unwind(|| try_image(&RECIPES[at], bytes, seed));
        match tried {
            Ok(it) => opened += u64::from(it),
            Err(panic) => {
                let message = panic.downcast_ref::<String>().cloned();
                let message = message.or(panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
                failures.push(format!(
                    "image {seed} of recipe {at}: {edits:#?}: {message:?}"
                ));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count}, among them {:#}",
        failures.len(),
        failures[..failures.len().min(5)].join("\n")
    );
    opened
}

/// Goal: the test's own hand is steady. Method: images that are parsed and put together again without a change are the same, and open.
#[test]
fn an_image_without_a_change_is_the_same() {
    for recipe in &RECIPES {
        let original = recipe.make();
        let mut image = Image::of(original.clone());
        image.rebuild_all();
        image.reseal();
        assert!(image.into_bytes() == original);
        assert!(try_image(recipe, original, 1));
    }
}

/// Goal: the header of the segment in which replay begins is not believed where it leads, for no frame is tied to it. Method: another segment there, under a right checksum, as an older
/// header of the same segment has.
#[test]
fn a_first_header_that_leads_elsewhere_is_damage() {
    let mut tried = 0;
    for recipe in &RECIPES {
        let mut image = Image::of(recipe.make());
        if !image.lead_elsewhere() {
            continue;
        }
        tried += 1;
        let mut world = recipe.world();
        world.disk.load(image.into_bytes());
        let (status, message) = world.open().expect_err("it leads elsewhere");
        assert_eq!(status, kvsim_engine::Status::Corruption);
        assert!(message.contains("next segment"), "{message}");
    }
    assert!(tried > 0);
}

/// Goal: no crafted image makes the engine panic, hang or outgrow its memory. Method: thousands of them.
#[test]
fn crafted_images_are_answered() {
    let count = 3_000;
    let opened = try_crafted(0, count);
    assert!(
        opened > count / 20 && opened < count * 19 / 20,
        "{opened} of {count} could be opened"
    );
}

/// The same for longer. `KVSIM_ENGINE_SEEDS` of them from `KVSIM_ENGINE_FIRST` on:
/// `cargo test --release -p kvsim-engine --lib crafted -- --ignored`
#[test]
#[ignore = "takes long"]
fn many_crafted_images_are_answered() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let first = number("KVSIM_ENGINE_FIRST").unwrap_or(1_000_000);
    try_crafted(first, number("KVSIM_ENGINE_SEEDS").unwrap_or(100_000));
}
