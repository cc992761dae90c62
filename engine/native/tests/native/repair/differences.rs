//! Where an opening succeeds, a repair finds what it shows.

use crate::common::directory;
use std::path::Path;

use kvsim_native::{Durability, OpenOptions};

use crate::noise::Noise;
use crate::repair::found::{Found, find, try_find};
use crate::repair::made::{Known, Shown, Writer, closed, open, opened, options};

const BLOCK: usize = 4096;

/// What is readable in an opening has that value in a repair. What is not is lost there or has some value, and nothing else is there.
fn compare(shown: &Shown, found: &Found, what: &str) {
    for (key, value) in shown {
        let name = key.escape_ascii();
        match value {
            Some(value) => assert_eq!(found.values.get(key), Some(value), "{what}: {name}"),
            // The same version may lie elsewhere too.
            None => assert!(
                found.lost.contains(key) || found.values.contains_key(key),
                "{what}: {name}"
            ),
        }
    }
    for key in found.values.keys() {
        assert!(shown.contains_key(key), "{what}: {}", key.escape_ascii());
    }
}

/// Goal: a repair and an opening agree wherever the opening succeeds, as after a torn end of the log. Method: blocks at the end of the log and elsewhere are damaged, in databases that are
/// open and were written to just before.
#[test]
fn a_repair_finds_what_an_opening_shows() {
    let directory = directory();
    let mut writer = Writer::new(&directory.path().join("database"), 7);
    writer.change(4000, 2000);
    writer.sync();
    let mut images: Vec<Known> = vec![closed(20), open(21)];
    for _ in 0..10 {
        let before = writer.image().bytes;
        writer.change(150, 2000);
        writer.sync();
        let image = writer.image();
        // The blocks that the last writes have changed, in any order, are the end of the log.
        let changed = (0..before.len()).step_by(BLOCK);
        let changed = changed.filter(|at| before[*at..at + BLOCK] != image.bytes[*at..at + BLOCK]);
        let changed: Vec<usize> = changed.collect();
        let mut noise = Noise(changed.len() as u64);
        for _ in 0..10 {
            let mut torn = image.clone();
            for _ in 0..=noise.below(3) {
                let at = changed[noise.place(changed.len())];
                match noise.below(2) {
                    0 => torn.bytes[at..at + BLOCK].fill(0),
                    _ => torn.bytes[at..at + BLOCK].copy_from_slice(&before[at..at + BLOCK]),
                }
            }
            images.push(torn);
        }
        images.push(image);
    }
    for seed in 0..60 {
        let mut noise = Noise(seed);
        let mut image = images[noise.place(2)].clone();
        crate::repair::damage::damage(&mut noise, &mut image.bytes);
        images.push(image);
    }
    let (mut open, mut torn) = (0, 0);
    for (number, image) in images.iter().enumerate() {
        let Some(shown) = opened(image) else {
            continue;
        };
        open += 1;
        let found = find(&image.bytes);
        assert!(found.unknown.is_empty() && !found.has_gap(), "{number}");
        compare(&shown, &found, &format!("image {number}"));
        let mut written = image.now.iter();
        let is_shown = |(key, value)| shown.get(key) == Some(&Some(Vec::clone(value)));
        torn += u32::from(!written.all(is_shown));
    }
    assert!(
        open > 20 && open < images.len() && torn > 2,
        "{open} {torn} of {}",
        images.len()
    );
}

/// Goal: of an image that an opening refuses more is found than nothing. Method: the same, where a repair finds a database and an opening none.
#[test]
fn a_repair_finds_much_of_what_no_opening_shows() {
    let known = closed(22);
    let (mut refused, mut right) = (0, 0);
    for seed in 0..60 {
        let mut noise = Noise(seed);
        let mut image = known.clone();
        crate::repair::damage::damage(&mut noise, &mut image.bytes);
        if opened(&image).is_some() {
            continue;
        }
        let found = try_find(&image.bytes).expect("some header is left");
        let values = found.values.iter();
        let count = values.filter(|(key, value)| known.now.get(*key) == Some(*value));
        right += count.count();
        refused += 1;
    }
    assert!(refused > 2, "{refused}");
    assert!(right * 5 > refused * known.now.len() * 4, "{right}");
}

/// Goal: what a recovery has cut off does not come back, even where no superblock is left: neither from the log, nor from pages of a checkpoint that was under way. Method: databases with
/// a torn end of the log are opened, which cuts it off, and written to; then all copies of the superblock are damaged. What an opening showed before is found. Where no checkpoint was
/// under way, few writes follow, and only the epochs tell. Else so many follow that all sequence numbers are used again.
#[test]
fn what_was_cut_off_stays_away() {
    let mut cut = 0;
    for (checkpoint_bytes, writes) in [(1 << 30, 20), (1 << 18, 250)] {
        let options = options().checkpoint_bytes(checkpoint_bytes);
        let directory = directory();
        let path = directory.path().join("database");
        let mut writer = Writer::with(&path, 8, &options);
        writer.change(2000, 500);
        writer.sync();
        for round in 0..12 {
            let before = writer.image().bytes;
            writer.change(200, 500);
            writer.sync();
            for (number, image) in torn(&writer, &before, round).into_iter().enumerate() {
                let path = directory.path().join(format!("other {round} {number}"));
                cut += u32::from(stays_away(image, &path, &options, writes));
            }
        }
    }
    assert!(cut > 0, "{cut}");
}

/// The database as it is now, but for a block that is as it was before; in every second round a frame begins with it. With durable marks, and without them: then an opening
/// lets the log go on in a segment of its own.
fn torn(writer: &Writer, before: &[u8], round: u64) -> [Known; 2] {
    let image = writer.image();
    [without_durable_marks(&image, before), image].map(|mut image| {
        let changed = (0..before.len()).step_by(BLOCK);
        let changed = changed.filter(|at| before[*at..at + BLOCK] != image.bytes[*at..at + BLOCK]);
        let changed = changed.filter(|at| round.is_multiple_of(2) || is_frame(&image.bytes[*at..]));
        let changed: Vec<usize> = changed.collect();
        let at = changed[Noise(round).place(changed.len())];
        image.bytes[at..at + BLOCK].copy_from_slice(&before[at..at + BLOCK]);
        image
    })
}

fn is_frame(block: &[u8]) -> bool {
    block.starts_with(b"KVFR")
}

/// The same without frames that hold no record: they say only what is durable, and are written a little later.
fn without_durable_marks(image: &Known, before: &[u8]) -> Known {
    let mut image = image.clone();
    for at in (0..before.len()).step_by(BLOCK) {
        let block = &mut image.bytes[at..at + BLOCK];
        if is_frame(block) && block[44..48] == [0; 4] {
            block.copy_from_slice(&before[at..at + BLOCK]);
        }
    }
    image
}

/// Opens a database and writes to it; then what was cut off is not found. Returns whether something was.
fn stays_away(mut image: Known, path: &Path, options: &OpenOptions, writes: u64) -> bool {
    std::fs::write(path, &image.bytes).expect("there is room");
    let before = image.bytes.clone();
    let Ok(database) = options.open(path) else {
        return false;
    };
    let mut noise = Noise(writes);
    for key in 0..writes {
        let key = format!("key {:06}", key * 2);
        let value = noise.bytes(100);
        let put = database.put(key.as_bytes(), &value, Durability::Relaxed);
        put.expect("there is room");
        let all = image.history.entry(key.into_bytes()).or_default();
        all.insert(value);
    }
    database.sync().expect("the disk works");
    image.bytes = std::fs::read(path).expect("it is there");
    database.close().expect("the disk works");
    let what = format!("{writes} writes, {}", path.display());
    let without = without_durable_marks(&image, &before);
    agree(without, &format!("{what}, without durable marks"));
    agree(image, &what)
}

/// A repair shows what an opening does, with and without superblocks. Returns whether something was cut off.
fn agree(mut image: Known, what: &str) -> bool {
    let shown = opened(&image).expect("it was open");
    compare(&shown, &find(&image.bytes), what);
    let was_cut = database_was_cut(&image, &shown);
    image.bytes[..256 << 10].fill(0);
    let found = find(&image.bytes);
    for (key, value) in &shown {
        // What an opening cannot read may have an older value here.
        if value.is_some() {
            let (found, name) = (found.values.get(key), key.escape_ascii());
            assert_eq!(found, value.as_ref(), "{what}: {name}");
        }
    }
    was_cut
}

/// Whether some key does not have the value that was written last.
fn database_was_cut(image: &Known, shown: &Shown) -> bool {
    let mut written = image.now.iter();
    written.any(|(key, value)| {
        let is_new = |it: &Vec<u8>| it.len() == 100;
        let shown = shown.get(key).and_then(Option::as_ref);
        shown.is_none_or(|it| it != value && !is_new(it))
    })
}
