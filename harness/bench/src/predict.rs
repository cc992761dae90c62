//! What the simulator says of a workload, to stand beside what was measured.
//!
//! The course is the benchmark's own: a file of the same size, the same options, the same records loaded, the engine
//! opened anew, the same clients with the same operations, the same rounds. The engine runs in the sandbox, and its
//! calls take the time of their fuel. The disk is the profile's. Clients share the processors of [`Host`] with the
//! engine. A prediction has no noise: the same profile, scenario and course give the same figures.
//!
//! It ends after `OPERATIONS_MAX` operations, if the rounds are not over by then; what was seen of a round that is cut short counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kvsim_sim::api::{Durability as Acknowledged, Reply, Request, RequestId, Status};
use kvsim_sim::{Program, Step, TraceMode, World};
use kvsim_simdisk::{Cache, CrashKind, FaultConfig, LatencyConfig, Nanos};

use super::host::{Client, Host};
use super::native::file_bytes;
use super::numbers::{float, whole};
use super::play::Play;
use super::store::Durability;
use super::stream::{self, Script};
use kvsim_api::units::OptionText;
use kvsim_drive::tally::Times;
use kvsim_scenario::Scenario;
use kvsim_scenario::setup::world_config;

/// Simulated at most, over all rounds: several times what it takes until every block of the file was written.
const OPERATIONS_MAX: u64 = 400_000;
/// A file may grow as far as natively it has room to.
const GROWTH: u64 = 8;
/// A cache with what it costs beside its values has to fit into a sandbox's 4 GiB.
const CACHE_BYTES_MAX: u64 = 1 << 30;
/// Engines work in whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// The course of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// When writes are acknowledged.
    pub durability: Durability,
    /// Clients are tasks on one thread: they share one processor and none of them sleeps.
    pub tasks: bool,
    /// The file that the engine begins with, in percent of the data.
    pub space_percent: u64,
    /// The bound of the cache around the engine; of more than 1 GiB, so much is simulated.
    pub cache_bytes: u64,
    /// Memory for the entries of the engine's index; 0: all of them are in memory.
    pub index_bytes: u64,
    /// Rounds, one after the other.
    pub rounds: u32,
    /// How long each runs before it is measured.
    pub warm_up: Duration,
    /// How long it is measured.
    pub measured: Duration,
}

/// A prediction.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// The profile that it is based on; empty for none.
    pub profile: String,
    /// What the profile does not say, and what was taken instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
    /// Operations that were simulated and measured.
    pub operations: u64,
    /// Operations a second of virtual time, in the median of the rounds.
    pub operations_per_second: f64,
    /// Half of the latencies are below, in nanoseconds.
    pub p50_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// All but one in a thousand.
    pub p999_ns: u64,
    /// Flushes and write-throughs for each commit.
    pub flushes_per_commit: f64,
}

/// Said of a profile without `[host]`.
const NO_HOST: &str = "the profile says nothing of the machine (kvsim calibrate writes it): one processor, the scenario's own options";

/// The scenario as it is run for a prediction: its workload, its device, what the engine has natively, and nothing that goes wrong.
fn as_natively(scenario: &Scenario, data_bytes: u64, course: &Course) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.faults = FaultConfig::default();
    // Natively values are cached around the engine, and garbage collection takes them from there. Its buffers are shares of the memory.
    let cache_bytes = course.cache_bytes.min(CACHE_BYTES_MAX);
    let memory = kvsim_native::ENGINE_MEMORY_BYTES + 2 * cache_bytes;
    scenario.guest.memory_bytes_max = scenario.guest.memory_bytes_max.max(memory);
    let device = &mut scenario.device;
    device.capacity_bytes =
        file_bytes(data_bytes, course.space_percent).next_multiple_of(BLOCK_BYTES);
    device.max_capacity_bytes = device.capacity_bytes * GROWTH;
    let timing = &mut device.timing;
    let commit_ns = scenario.host.commit_ns;
    // A commit ends with a write-through or with a flush, and where there is no volatile cache with a write.
    if device.cache == Cache::Volatile {
        timing.write_through.delay(commit_ns);
        timing.flush.delay(commit_ns);
    } else {
        timing.write.delay(commit_ns);
    }
    let options = scenario.host.options.clone();
    scenario.guest.options.extend(options);
    for (name, bytes) in [
        ("cache_bytes", cache_bytes),
        ("index_bytes", course.index_bytes),
    ] {
        let text = OptionText(bytes.to_string());
        scenario.guest.options.insert(name.to_owned(), text);
    }
    scenario
}

/// Predicts.
///
/// # Errors
/// The workload is none for a benchmark, or the run did not end well, in words.
pub fn predict(
    scenario: &Scenario,
    program: &Arc<dyn Program>,
    course: &Course,
) -> Result<Prediction, String> {
    let seed = scenario.run.seeds.start;
    let workload = &scenario.workload;
    let script = stream::script(workload, seed)?;
    let record_bytes = script.values.mean_bytes() + u64::from(workload.key_bytes);
    let data_bytes = workload.keys.max(workload.preload) * record_bytes;
    let scenario = as_natively(scenario, data_bytes, course);
    let failed =
        |what: String| format!("{}: the prediction did not end well: {what}", scenario.name);
    let config = world_config(&scenario, program.as_ref(), seed, TraceMode::Off);
    let world = World::new(Arc::clone(program), config);
    let mut world = world.map_err(|error| failed(error.to_string()))?;
    load(&mut world, &script).map_err(failed)?;
    let note = (scenario.host.processors == 0).then_some(NO_HOST);
    let (processors, cost) = match (course.tasks, note) {
        (true, _) => (1, LatencyConfig::fixed(0)),
        (false, None) => (scenario.host.processors, scenario.host.client),
        (false, Some(_)) => (1, scenario.guest.client_turn),
    };
    let mut run = Run {
        host: Host::new(processors, cost, seed, world.now()),
        play: Play::new(&script, acknowledged(course.durability)),
        began_ns: world.now(),
        world,
        coming: BTreeMap::new(),
        under_way: BTreeMap::new(),
        operations: vec![None; script.lists.len()],
        rounds: Rounds::new(course),
    };
    let seen = run.work(script.lists.len()).map_err(failed)?;
    Ok(Prediction {
        profile: scenario.profile.clone().unwrap_or_default(),
        note,
        ..seen
    })
}

fn acknowledged(durability: Durability) -> Acknowledged {
    match durability {
        Durability::Full | Durability::Os => Acknowledged::Durable,
        Durability::Relaxed => Acknowledged::Relaxed,
    }
}

/// Writes the records, and opens the engine anew, as a benchmark does.
fn load(world: &mut World, script: &Script) -> Result<(), String> {
    world.open().map_err(|error| error.to_string())?;
    answered(world, 0)?;
    if script.preload == 0 {
        return Ok(());
    }
    for request in Play::preload(script).chain([Request::Sync, Request::Close]) {
        let id = world.submit(world.now(), request);
        answered(world, id)?;
    }
    // Closed cleanly: nothing is left that a crash could take.
    world.crash(CrashKind::Process);
    world.open().map_err(|error| error.to_string())?;
    answered(world, 0)
}

/// Lets the world go on until a request is answered.
fn answered(world: &mut World, id: RequestId) -> Result<(), String> {
    loop {
        match world.step().map_err(|error| error.to_string())? {
            Step::Reply(reply) if reply.id == id => return well(&reply),
            Step::Quiet => return Err("it answers no more".to_owned()),
            Step::Reply(_) | Step::Event => {}
        }
    }
}

fn well(reply: &Reply) -> Result<(), String> {
    match reply.status {
        Status::Ok | Status::NotFound => Ok(()),
        status => Err(format!("a request was answered with {status:?}")),
    }
}

/// A client's request that has a processor.
struct HandIn {
    processor: usize,
}

/// A run of the clients.
struct Run<'a> {
    world: World,
    host: Host,
    play: Play<'a>,
    began_ns: Nanos,
    /// Requests that were handed in and have not come to the engine, in the order in which they will.
    coming: BTreeMap<(Nanos, RequestId), HandIn>,
    /// Whose each request is.
    under_way: BTreeMap<RequestId, Client>,
    /// When each client's operation began.
    operations: Vec<Option<Nanos>>,
    rounds: Rounds,
}

impl Run<'_> {
    fn work(&mut self, clients: usize) -> Result<Prediction, String> {
        for client in 0..clients {
            self.host.tell(client, self.began_ns, false);
        }
        // The call under way: whose it is, and whether it has told anybody yet.
        let (mut own, mut told) = (None, false);
        loop {
            self.start_clients();
            let (coming, busy_until) = (self.world.coming(), self.world.busy_until());
            match self.world.step().map_err(|error| error.to_string())? {
                Step::Reply(reply) => {
                    well(&reply)?;
                    let client = self.under_way.remove(&reply.id);
                    let client = client.ok_or("an answer that nobody waits for")?;
                    let now = self.world.now();
                    if own == Some(reply.id) {
                        self.host.go_on(client, now);
                    } else {
                        self.host.tell(client, now, !told && own.is_none());
                        told = true;
                    }
                }
                Step::Event if self.world.coming() < coming => {
                    let first = self.coming.pop_first();
                    let ((_, id), HandIn { processor }) = first.ok_or("a request of nobody")?;
                    self.host.leave(processor, self.world.busy_until());
                    (own, told) = (Some(id), false);
                }
                Step::Event if self.world.busy_until() > busy_until => {
                    self.host.occupy(self.world.busy_until());
                    (own, told) = (None, false);
                }
                Step::Event => {}
                Step::Quiet => return Err("it answers no more".to_owned()),
            }
            let stats = self.world.device().stats();
            let flushes = stats.flushes + stats.write_throughs;
            if self
                .rounds
                .are_over(self.world.now() - self.began_ns, flushes)
            {
                return Ok(self.rounds.prediction());
            }
        }
    }

    /// Clients that can have a processor hand in their next requests.
    fn start_clients(&mut self) {
        while let Some(start) = self.host.start() {
            let at = start.hands_in_at;
            let step = self.play.next(start.client);
            if step.begins {
                let began = self.operations[start.client].replace(at);
                if let Some(began) = began {
                    self.rounds.note(at - self.began_ns, at - began);
                }
            }
            self.rounds.commits += u64::from(step.commits);
            let id = self.world.submit(at, step.request);
            let processor = start.processor;
            self.coming.insert((at, id), HandIn { processor });
            self.under_way.insert(id, start.client);
        }
    }
}

/// What was seen in the rounds.
struct Rounds {
    warm_up_ns: Nanos,
    measured_ns: Nanos,
    left: u32,
    /// When the round under way began.
    began_ns: Nanos,
    latencies: Times,
    done: Vec<(f64, Times)>,
    operations: u64,
    measured: u64,
    commits: u64,
    flushes_before: Option<u64>,
    flushes: u64,
}

impl Rounds {
    fn new(course: &Course) -> Rounds {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        Rounds {
            warm_up_ns: ns(course.warm_up),
            measured_ns: ns(course.measured).max(1),
            left: course.rounds.max(1),
            began_ns: 0,
            latencies: Times::default(),
            done: Vec::new(),
            operations: 0,
            measured: 0,
            commits: 0,
            flushes_before: None,
            flushes: 0,
        }
    }

    /// An operation has ended.
    fn note(&mut self, at_ns: Nanos, latency_ns: Nanos) {
        self.operations += 1;
        let begins = self.began_ns + self.warm_up_ns;
        if at_ns >= begins && at_ns < begins + self.measured_ns {
            self.latencies.record(latency_ns.max(1));
        }
    }

    /// Whether nothing is left to see. A round ends on the way.
    fn are_over(&mut self, now_ns: Nanos, flushes: u64) -> bool {
        self.flushes = flushes - *self.flushes_before.get_or_insert(flushes);
        let begins = self.began_ns + self.warm_up_ns;
        let ends = begins + self.measured_ns;
        let over = now_ns >= ends;
        // A run that is cut short has seen at least something.
        let cut = self.operations >= OPERATIONS_MAX && (now_ns > begins || !self.done.is_empty());
        if over || cut {
            let took = now_ns.clamp(begins, ends) - begins;
            let latencies = std::mem::take(&mut self.latencies);
            let count = latencies.count();
            // A stump says little where whole rounds have been.
            if over || self.done.is_empty() || took * 2 >= self.measured_ns {
                self.measured += count;
                self.done.push((per_second(count, took), latencies));
            }
            self.began_ns = ends;
            self.left -= 1;
        }
        cut || self.left == 0
    }

    fn prediction(&self) -> Prediction {
        let median = |figure: &dyn Fn(&(f64, Times)) -> f64| {
            let mut all: Vec<f64> = self.done.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            let middle = all.len() / 2;
            match all.len() {
                0 => 0.0,
                len if len % 2 == 1 => all[middle],
                _ => f64::midpoint(all[middle - 1], all[middle]),
            }
        };
        let quantile = |share: f64| whole(median(&|(_, times)| float(times.quantile_ns(share))));
        Prediction {
            profile: String::new(),
            note: None,
            operations: self.measured,
            operations_per_second: median(&|(rate, _)| *rate),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            flushes_per_commit: float(self.flushes) / float(self.commits.max(1)),
        }
    }
}

fn per_second(count: u64, took_ns: Nanos) -> f64 {
    float(count) * 1e9 / float(took_ns.max(1))
}
