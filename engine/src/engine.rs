//! The engine as its driver sees it: four calls in, effects out through the port, and the next wake-up.
//!
//! Invariants: a call ends when there is nothing more to do. Effects leave in the order in which they were decided.
//! Without requests, operations in flight or a next wake-up, nothing ever happens.

mod close;
mod complete;
mod schedule;
mod serve;

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use self::close::close;
use crate::api::buffer::IoBuf;
use crate::api::cached_values::CachedValues;
use crate::api::config::{Config, Settings};
use crate::api::coverage::CoveragePoint;
use crate::api::port::{
    DiskError, Durability, Mutation, Nanos, PROMISED, Port, Request, RequestId, ScanRange, Status,
};
use crate::api::promise::{Promise, Room};
use crate::api::stats::Stats;
use crate::core::{Core, Phase};
use crate::read::find::{Find, Learnt};
use crate::read::outside::Join;
use crate::recovery::open::open;
use crate::runtime::executor::Executor;
use crate::runtime::handle::Handle;

/// One process run of a database: from an opening to its close, or to the end of the process.
pub struct Engine {
    core: Rc<RefCell<Core>>,
    executor: Executor,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Begins to open the database, which is answered as request 0. A wrong configuration is answered at once, and then
    /// there is no engine.
    pub fn open(
        now: Nanos,
        config: &Config,
        port: &mut impl Port,
    ) -> (Option<Engine>, Option<Nanos>) {
        let settings = match Settings::new(config) {
            Ok(settings) => settings,
            Err(error) => {
                port.reply(
                    0,
                    crate::api::port::Reply::Failed(Status::Invalid, error.to_string()),
                );
                return (None, None);
            }
        };
        let core = Rc::new(RefCell::new(Core::new(now, settings)));
        let mut executor = Executor::default();
        executor.spawn(open(Handle::new(core.clone())));
        let mut engine = Engine { core, executor };
        let wake_at = engine.run(port);
        (Some(engine), wake_at)
    }

    /// Tells the engine of values in memory that it may take instead of reading them.
    pub fn use_cache(&mut self, values: Arc<dyn CachedValues>) {
        self.core.borrow_mut().values = Some(values);
    }

    /// A client asks for something. Returns when to call `tick` if nothing else happens before.
    pub fn request(
        &mut self,
        now: Nanos,
        id: RequestId,
        request: Request<'_>,
        port: &mut impl Port,
    ) -> Option<Nanos> {
        assert_ne!(id, PROMISED, "that number stands for what nobody asks for");
        self.core_at(now).arrive(id, &request);
        self.run(port)
    }

    /// A disk operation has ended; a read brings its buffer back.
    pub fn complete(
        &mut self,
        now: Nanos,
        tag: u64,
        result: Result<Option<IoBuf>, DiskError>,
        port: &mut impl Port,
    ) -> Option<Nanos> {
        self.core_at(now).complete(tag, result);
        self.run(port)
    }

    /// The next wake-up is due.
    pub fn tick(&mut self, now: Nanos, port: &mut impl Port) -> Option<Nanos> {
        drop(self.core_at(now));
        self.run(port)
    }

    /// Whether the request that was handed in last waits for room, and so has had no effect yet.
    #[must_use]
    pub fn is_queued(&self, id: RequestId) -> bool {
        let core = self.core.borrow();
        core.queue.back().is_some_and(|(last, _)| *last == id)
    }

    /// Calls `take` with the keys that a scan of the newest versions would return now, for a driver that has the values
    /// itself. Says whether there are more. `None` where only a request can be answered: with a refusal, or later,
    /// behind a write that waits for room, or since a part of the index is not in memory, as it is after [`Request::Know`] of the same range. Such a write may be acknowledged already, see [`Engine::keep`].
    pub fn scan_keys(&self, range: &ScanRange<'_>, mut take: impl FnMut(&[u8])) -> Option<bool> {
        let core = self.core.borrow();
        let newest = core.phase == Phase::Running && range.snapshot == 0;
        let now = newest && core.queue.is_empty() && core.knows_range(range);
        now.then(|| core.walk(range, u64::MAX, |key, _| take(key)))
    }

    /// Begins a scan that the caller goes on with while others use the engine: [`Join`] reads leaves of the index, joins them with what is in memory now, and reads the values. `None` where only a
    /// request can be answered, or where nothing of the range has to be read.
    pub fn begin_join(&mut self, range: &ScanRange<'_>) -> Option<Join> {
        self.core.borrow_mut().begin_join(range)
    }

    /// Gives such a scan what it needs next of what is in memory, and says where values are. Whether it can go on: else it has to be answered, [`Engine::end_join`].
    pub fn show_next(&mut self, join: &mut Join) -> bool {
        self.core.borrow_mut().show_next(join)
    }

    /// Such a scan has ended: answers it as the request of this id, once the values that it has not read are read. Returns when to call `tick` if nothing else happens before.
    pub fn end_join(
        &mut self,
        now: Nanos,
        id: RequestId,
        join: Join,
        port: &mut impl Port,
    ) -> Option<Nanos> {
        self.core_at(now).end_join(id, join);
        self.run(port)
    }

    /// Such a scan is given up, or its entries were taken: nobody is answered. Returns when to call `tick` if nothing else happens before.
    pub fn drop_join(&mut self, now: Nanos, join: Join, port: &mut impl Port) -> Option<Nanos> {
        self.core_at(now).drop_join(join);
        self.run(port)
    }

    /// Begins a get of the newest value that the caller finishes while others use the engine: [`Find`] reads leaves of the index, or the value. `None` where only a request can be answered, or
    /// where nothing has to be read.
    pub fn begin_find(&mut self, key: &[u8]) -> Option<Find> {
        self.core.borrow_mut().begin_find(key)
    }

    /// Such a get has found an entry whose value lies elsewhere. It goes on with what is returned: that reads the value. `None`: a request has to be made.
    pub fn learn(&mut self, found: Learnt) -> Option<Find> {
        self.core.borrow_mut().learn_found(found)
    }

    /// The driver keeps so many values that such gets have found in the index: entries make room for them.
    pub fn make_room_for_kept(&mut self, values: u64) {
        self.core.borrow_mut().make_room_for_kept(values);
    }

    /// Of the memory that `index_bytes` gives to the index, what it does not take now, in bytes.
    #[must_use]
    pub fn spare_bytes(&self) -> u64 {
        self.core.borrow().spare_bytes()
    }

    /// Promises so much room, if there is so much. From then on a device that can grow does so ahead of it.
    #[must_use]
    pub fn promise(&self, room: Room) -> Option<Promise> {
        self.core.borrow_mut().promise(room)
    }

    /// Takes writes that were promised, each of them all or nothing; nobody is answered. Returns when to call `tick` if nothing else happens before.
    pub fn keep<'a>(
        &mut self,
        now: Nanos,
        writes: impl Iterator<Item = &'a [Mutation<'a>]> + Clone,
        port: &mut impl Port,
    ) -> Option<Nanos> {
        {
            let mut core = self.core_at(now);
            // Entries lie anywhere in memory: to look at them first has what each waits for come at the same time.
            let keys = writes.clone().flatten().map(Mutation::key);
            let known = keys.filter(|key| core.index.newest(key).is_some());
            std::hint::black_box(known.count());
            core.reached(CoveragePoint::PromiseKept);
            for mutations in writes {
                let durability = Durability::Relaxed;
                core.arrive(
                    PROMISED,
                    &Request::Write {
                        mutations,
                        durability,
                    },
                );
            }
        }
        self.run(port)
    }

    /// What the engine has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let core = self.core.borrow();
        Stats {
            keys: core.index.len_about(),
            index_memory_bytes: core.index.memory_bytes(),
            free_segments: core.segments.free_count(),
            segments: core.segments.count().into(),
            segment_bytes: core.geometry.segment_bytes,
            ..core.stats
        }
    }

    /// The core at the beginning of a call, at this time.
    fn core_at(&mut self, now: Nanos) -> RefMut<'_, Core> {
        let mut core = self.core.borrow_mut();
        core.at(now);
        core
    }

    /// Lets everything happen that can.
    fn run(&mut self, port: &mut impl Port) -> Option<Nanos> {
        let handle = Handle::new(self.core.clone());
        loop {
            let before = self.core.borrow().activity;
            self.core.borrow_mut().serve_first();
            self.executor.poll();
            let mut core = self.core.borrow_mut();
            if core.phase == Phase::Running {
                core.serve_queue();
            }
            core.maintain(&mut self.executor, &handle);
            core.read_to_know(&mut self.executor, &handle);
            core.start_runs_scans(&mut self.executor, &handle);
            core.subtract_if_due(&mut self.executor, &handle);
            core.look_up_replaced();
            core.mark_if_idle();
            core.hurry_log_free();
            core.pump();
            if let Some(id) = core.closing.take() {
                self.executor.spawn(close(handle.clone(), id));
                core.activity += 1;
            }
            if core.activity == before {
                break;
            }
        }
        let mut core = self.core.borrow_mut();
        if !core.is_serving() || core.phase == Phase::Closing {
            core.serve_queue();
        }
        core.forget_some();
        core.drain(port);
        core.group_wake_at()
    }
}

impl Core {
    fn at(&mut self, now: Nanos) -> &mut Core {
        self.now = self.now.max(now);
        self.calls += 1;
        self.resume_at = None;
        self
    }
}
