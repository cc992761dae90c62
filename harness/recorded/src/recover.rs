//! The engine on an image in memory: opened, read back, judged.
//!
//! Operations end at once and in order. What the engine writes goes to a copy, so that an image can be recovered from any number of
//! times.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kvsim_engine::{
    Config, Direction, DiskError, DiskOp, Engine, Level, Nanos, Port, Request, RequestId,
    ScanRange, Status,
};
use kvsim_sim::api;
use kvsim_simdisk::Image;

use super::replay::NOTHING_BYTES;
use kvsim_oracle::{
    CheckConfig, DeviceTruth, Facts, GuestFault, Observation, Oracle, Property, Symptom,
    Verification, Violation, misbehaved,
};

/// What the driver makes of a file's length, and by how much it grows.
const BLOCK_BYTES: u64 = 4096;
const PIECE_BYTES: u64 = 1 << 20;
/// Completions and wake-ups of one opening and reading back. Real ones take thousands.
const STEPS_MAX: u64 = 10_000_000;
/// What one operation takes, in virtual time.
const STEP_NS: Nanos = 1_000;

/// What was found.
pub(crate) struct Recovered {
    /// What reading back showed.
    pub(crate) seen: Observation,
    /// The disk after that.
    pub(crate) image: Image,
}

/// How an image is opened: as the recorded database was.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// Of the recorded opening; sizes are the image's.
    pub(crate) config: Config,
    /// Size of a new file.
    pub(crate) size_bytes: u64,
    pub(crate) check: CheckConfig,
}

/// Opens an image and reads it back. What no engine may do is a violation.
pub(crate) fn recover(
    image: Image,
    opening: &Opening,
    oracle: &Oracle,
) -> Result<Recovered, Box<Violation>> {
    catch_unwind(AssertUnwindSafe(|| attempt(image, opening, oracle))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = text.unwrap_or_else(|| "it said nothing".to_owned());
        let stack = Vec::new();
        let fault = GuestFault::Panic { message, stack };
        Err(misbehaved(&fault, 1, "recovering"))
    })
}

fn attempt(image: Image, opening: &Opening, oracle: &Oracle) -> Result<Recovered, Box<Violation>> {
    let mut instance = Instance::open(image, opening)?;
    let answer = instance.until_answered(0)?;
    if answer.status != api::Status::Ok {
        let refused = oracle.clone().opened(&answer, &DeviceTruth::default());
        return Err(match refused {
            Err(violation) => violation,
            Ok(_) => Violation::new(
                Property::AcknowledgedDurable,
                Symptom::RefusedToOpen,
                format!(
                    "the engine does not take what is on the disk: {:?}",
                    answer.body
                ),
                Facts::default(),
            ),
        });
    }
    let mut reading = Verification::new(oracle, &opening.check);
    while !reading.is_done() {
        let Some((token, request)) = reading.next_request(oracle) else {
            break;
        };
        let answer = instance.ask(&request)?;
        reading.reply(oracle, token, &answer);
    }
    Ok(Recovered {
        seen: reading.finish(),
        image: instance.image,
    })
}

#[derive(Default)]
struct Effects {
    operations: VecDeque<(u64, DiskOp)>,
    answers: VecDeque<(RequestId, kvsim_engine::Reply)>,
}

impl Port for Effects {
    fn submit(&mut self, tag: u64, op: DiskOp) {
        self.operations.push_back((tag, op));
    }

    fn reply(&mut self, id: RequestId, reply: kvsim_engine::Reply) {
        self.answers.push_back((id, reply));
    }

    fn log(&mut self, _: Level, text: &str) {
        tracing::trace!("{text}");
    }
}

struct Instance {
    engine: Option<Engine>,
    effects: Effects,
    image: Image,
    max_bytes: u64,
    now: Nanos,
    wake_at: Option<Nanos>,
    requests: RequestId,
    steps: u64,
}

impl Instance {
    /// Begins to open, on a file as the driver would find it.
    fn open(mut image: Image, opening: &Opening) -> Result<Instance, Box<Violation>> {
        let whole = image.len_bytes() / BLOCK_BYTES * BLOCK_BYTES;
        image.resize(if whole <= NOTHING_BYTES {
            opening.size_bytes
        } else {
            whole
        });
        let mut config = opening.config.clone();
        config.device.capacity_bytes = image.len_bytes();
        let max_bytes = config.device.max_capacity_bytes.max(image.len_bytes());
        config.device.max_capacity_bytes = max_bytes;
        let mut effects = Effects::default();
        let (engine, wake_at) = Engine::open(0, &config, &mut effects);
        Ok(Instance {
            engine,
            effects,
            image,
            max_bytes,
            now: 0,
            wake_at,
            requests: 0,
            steps: 0,
        })
    }

    /// Makes a request and lets everything happen until it is answered.
    fn ask(&mut self, request: &api::Request) -> Result<api::Reply, Box<Violation>> {
        let request = match request {
            api::Request::Get { key, snapshot } => Request::Get {
                snapshot: *snapshot,
                key,
            },
            api::Request::Scan(scan) => Request::Scan(ScanRange {
                snapshot: scan.snapshot,
                direction: match scan.direction {
                    api::Direction::Forward => Direction::Forward,
                    api::Direction::Reverse => Direction::Reverse,
                },
                start: scan.start.as_deref(),
                end: scan.end.as_deref(),
                limit: scan.limit,
                max_bytes: scan.max_bytes,
            }),
            other => unreachable!("reading back asks for nothing else: {other:?}"),
        };
        self.requests += 1;
        let id = self.requests;
        if let Some(engine) = &mut self.engine {
            self.wake_at = engine.request(self.now, id, request, &mut self.effects);
        }
        self.until_answered(id)
    }

    fn until_answered(&mut self, id: RequestId) -> Result<api::Reply, Box<Violation>> {
        loop {
            while let Some((answered, reply)) = self.effects.answers.pop_front() {
                if answered == id {
                    return Ok(in_api(id, reply));
                }
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(misbehaved(
                    &GuestFault::OutOfFuel { stack: Vec::new() },
                    1,
                    "recovering",
                ));
            }
            let Some(engine) = &mut self.engine else {
                return Err(stalled());
            };
            match (self.effects.operations.pop_front(), self.wake_at) {
                (Some((tag, op)), _) => {
                    let result = execute(&mut self.image, self.max_bytes, op);
                    self.now += STEP_NS;
                    self.wake_at = engine.complete(self.now, tag, result, &mut self.effects);
                }
                (None, Some(at)) => {
                    self.now = self.now.max(at);
                    self.wake_at = engine.tick(self.now, &mut self.effects);
                }
                (None, None) => return Err(stalled()),
            }
        }
    }
}

fn stalled() -> Box<Violation> {
    misbehaved(&GuestFault::Stalled { unanswered: 1 }, 1, "recovering")
}

fn execute(
    image: &mut Image,
    max_bytes: u64,
    op: DiskOp,
) -> Result<Option<kvsim_engine::IoBuf>, DiskError> {
    match op {
        DiskOp::Read { offset, mut buffer } => {
            if offset + buffer.len() as u64 > image.len_bytes() {
                return Err(DiskError::Read);
            }
            image.read(offset, &mut buffer);
            return Ok(Some(buffer));
        }
        DiskOp::Write { offset, data, .. } => {
            if offset + data.len() as u64 > image.len_bytes() {
                return Err(DiskError::Write);
            }
            image.write(offset, &data);
        }
        DiskOp::Grow { new_bytes } => {
            let new_bytes = new_bytes.next_multiple_of(PIECE_BYTES);
            if new_bytes > max_bytes {
                return Err(DiskError::NoSpace);
            }
            image.resize(new_bytes.max(image.len_bytes()));
        }
        DiskOp::Flush | DiskOp::Discard { .. } => {}
    }
    Ok(None)
}

fn in_api(id: RequestId, reply: kvsim_engine::Reply) -> api::Reply {
    use kvsim_engine::Reply;
    let (status, body) = match reply {
        Reply::Done => (api::Status::Ok, api::Body::Empty),
        Reply::Value(value) => (api::Status::Ok, api::Body::Value(value.to_vec())),
        Reply::NotFound => (api::Status::NotFound, api::Body::Empty),
        Reply::Snapshot(id) => (api::Status::Ok, api::Body::Snapshot(id)),
        Reply::Failed(status, message) => (status_in_api(status), api::Body::Message(message)),
        Reply::Entries { entries, more } => {
            let entries = entries.into_iter();
            let entries = entries.map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
            let entries = entries.collect();
            (api::Status::Ok, api::Body::Entries { entries, more })
        }
    };
    api::Reply { id, status, body }
}

/// The same numbers, by their names.
pub(crate) fn status_in_api(status: Status) -> api::Status {
    match status {
        Status::Corruption => api::Status::Corruption,
        Status::NoSpace => api::Status::NoSpace,
        Status::ReadOnly => api::Status::ReadOnly,
        Status::Invalid => api::Status::Invalid,
        Status::Closed => api::Status::Closed,
        // An unknown failure is taken for the one that promises least.
        _ => api::Status::IoError,
    }
}
