//! Gets and scans that are done outside the engine, as threads of the library do them: it begins them, and gives them what memory has; what lies on the device is read here, while it goes on.
//!
//! Such a read is made in steps. A step that lacks bytes says which, and is made again when they have come. What cannot be read so becomes a request to the engine, which reads again and says what is
//! wrong.
//!
//! Invariant: whoever asks is answered once, by the task or by the engine.

use kvsim_engine::{Find, Found, IoBuf, Join, OwnedRange, Port, Reply, Request};

use crate::call::Call;

/// The reads under way.
#[derive(Default)]
pub(crate) struct Outside {
    tasks: Vec<Task>,
}

struct Task {
    /// Of the request.
    id: u64,
    what: What,
    reads: Vec<Read>,
}

enum What {
    Get { key: Vec<u8>, find: Find },
    Scan { range: OwnedRange, join: Box<Join> },
}

/// A read of the device for a task.
struct Read {
    tag: u64,
    offset: u64,
    bytes: usize,
    /// Once it has ended: what was read, unless it failed.
    ended: Option<Option<IoBuf>>,
}

/// What a step has come to.
enum Step {
    /// It goes on with another step.
    Again(What),
    /// It wants these places of the device, an offset and so many bytes each.
    Lacks(What, Vec<(u64, usize)>),
    /// It was answered, or the engine answers it.
    Ended,
}

impl Outside {
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Begins a request outside the engine. Whether that can be: only the newest versions are read so, and only what is not all in memory.
    pub(crate) fn begin(&mut self, id: u64, request: &Request<'_>, call: &mut Call<'_>) -> bool {
        let engine = &mut *call.engine;
        let what = match request {
            Request::Get { snapshot: 0, key } => engine.begin_find(key).map(|find| What::Get {
                key: key.to_vec(),
                find,
            }),
            Request::Scan(range) if range.snapshot == 0 => {
                engine.begin_join(range).map(|join| What::Scan {
                    range: OwnedRange::new(range),
                    join: Box::new(join),
                })
            }
            _ => None,
        };
        let Some(what) = what else {
            return false;
        };
        let reads = Vec::new();
        self.go_on(Task { id, what, reads }, call);
        true
    }

    /// A read of a task has ended; without a buffer, it has failed.
    pub(crate) fn complete(&mut self, tag: u64, buffer: Option<IoBuf>, call: &mut Call<'_>) {
        // A tag is used again once its read has ended.
        let is_it = |read: &Read| read.tag == tag && read.ended.is_none();
        let has = |task: &Task| task.reads.iter().any(is_it);
        let number = self.tasks.iter().position(has).expect("a task has asked");
        let task = &mut self.tasks[number];
        let read = task.reads.iter_mut().find(|read| is_it(read));
        let read = read.expect("it has it");
        read.ended = Some(buffer);
        if task.reads.iter().all(|read| read.ended.is_some()) {
            let task = self.tasks.remove(number);
            self.go_on(task, call);
        }
    }

    /// Makes steps until the task has ended or has to wait.
    fn go_on(&mut self, task: Task, call: &mut Call<'_>) {
        let Task {
            id,
            mut what,
            mut reads,
        } = task;
        loop {
            let step = match what {
                What::Get { key, find } => step_of_get(id, key, find, &reads, call),
                What::Scan { range, join } => step_of_scan(id, range, join, &reads, call),
            };
            match step {
                Step::Again(next) => {
                    reads.clear();
                    what = next;
                }
                Step::Lacks(what, places) => {
                    reads.extend(places.into_iter().map(|(offset, bytes)| Read {
                        tag: call.port.read_outside(offset, bytes),
                        offset,
                        bytes,
                        ended: None,
                    }));
                    return self.tasks.push(Task { id, what, reads });
                }
                Step::Ended => return,
            }
        }
    }
}

fn step_of_get(id: u64, key: Vec<u8>, find: Find, reads: &[Read], call: &mut Call<'_>) -> Step {
    let Call { now, engine, port } = call;
    let mut lacks = Vec::new();
    let found = find.finish(
        |offset, bytes| read_of(reads, offset, bytes, &mut lacks),
        <[u8]>::to_vec,
    );
    if !lacks.is_empty() {
        return Step::Lacks(What::Get { key, find }, lacks);
    }
    match found {
        Ok(Found::Here(value)) => {
            if !find.is_of_value() {
                engine.make_room_for_kept(1);
            }
            port.reply(id, Reply::Value(kvsim_engine::Shared::copy(&value)));
            return Step::Ended;
        }
        Ok(Found::Nowhere) => {
            port.reply(id, Reply::NotFound);
            return Step::Ended;
        }
        Ok(Found::Elsewhere(learnt)) => {
            if let Some(find) = engine.learn(learnt) {
                return Step::Again(What::Get { key, find });
            }
        }
        Err(_) => {}
    }
    let request = Request::Get {
        snapshot: 0,
        key: &key,
    };
    engine.request(*now, id, request, *port);
    Step::Ended
}

fn step_of_scan(
    id: u64,
    range: OwnedRange,
    mut join: Box<Join>,
    reads: &[Read],
    call: &mut Call<'_>,
) -> Step {
    let Call { now, engine, port } = call;
    let mut lacks = Vec::new();
    let went_on = join.go_on(|places| {
        let read = places
            .iter()
            .map(|(offset, bytes)| read_of(reads, *offset, *bytes, &mut lacks));
        // All that it lacks is read at once.
        let read: Vec<Option<IoBuf>> = read.collect();
        read.into_iter().collect()
    });
    if !lacks.is_empty() {
        return Step::Lacks(What::Scan { range, join }, lacks);
    }
    let found = join.take_entries();
    if found.is_none() && went_on.is_ok() {
        if engine.show_next(&mut join) {
            return Step::Again(What::Scan { range, join });
        }
        engine.end_join(*now, id, *join, *port);
        return Step::Ended;
    }
    engine.drop_join(*now, *join, *port);
    match found {
        Some((entries, more)) => port.reply(id, Reply::Entries { entries, more }),
        None => {
            engine.request(*now, id, Request::Scan(range.borrow()), *port);
        }
    }
    Step::Ended
}

/// What was read there. `None` if that has failed, or if it is lacking.
fn read_of(
    reads: &[Read],
    offset: u64,
    bytes: usize,
    lacks: &mut Vec<(u64, usize)>,
) -> Option<IoBuf> {
    let mut made = reads.iter();
    match made.find(|read| (read.offset, read.bytes) == (offset, bytes)) {
        // It may be wanted again: a step that lacks something else is made anew.
        Some(read) => {
            let read = read.ended.as_ref().expect("all have ended").as_ref()?;
            let mut copy = IoBuf::zeroed(read.len());
            copy.copy_from_slice(read);
            Some(copy)
        }
        None => {
            lacks.push((offset, bytes));
            None
        }
    }
}
