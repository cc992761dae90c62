//! One engine, many threads: the lock around it, and who waits for the disk.
//!
//! The thread that makes a request hands it in, under the lock. If its reply has to wait for the disk, a thread has to
//! wait there too: the first such thread becomes the *leader*. It sleeps in the driver on behalf of all, hands
//! completions to the engine, and tells the others. A thread whose request needs a small read does that read itself meanwhile, and
//! the leader does its own where nothing else is under way. When its own reply has come, it passes the lead on. Where no thread
//! waits, as with relaxed writes, a thread of the database leads; it sleeps when there is nothing to lead.
//!
//! Invariants:
//! - while operations are under way or the engine has a next wake-up, there is a leader, or the database's own thread
//!   has a timer set;
//! - the engine is touched with its lock held and only then, and no lock is held while a thread sleeps or waits for the disk;
//! - a small relaxed write may be accepted before the engine has it. The lock's holder hands it in before anything
//!   else, or when the lock has been let go (see `intake`);
//! - if the engine panics, or whoever works for all outside its lock, it is given up, and nobody waits for it (see `held`).

mod combining;
mod finding;
mod held;
mod joining;
mod state;
mod taking_in;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use kvsim_engine::{CachedValues, Engine, Mutation, Nanos, Port as _, Reply, Request, Status};

use self::finding::ReadsOutside;
use self::state::{Inside, Leader, Movable, PostUnlock, Work};
use crate::cache::draft::Draft;
use crate::cache::rows::Rows;
use crate::io::driver::{Completion, Driver};
use crate::record::Recorder;
use crate::sync::combining::Combining;
use crate::sync::effects::Effects;
use crate::sync::intake::Intake;
use crate::sync::waiter::{Call, Receiver, TaskCompletion, ThreadWaiter};

pub(crate) use held::Held;
pub use state::Counts;
pub(crate) use state::{Beside, Shared};
pub(crate) use taking_in::CaughtUp;

/// A wake-up that is due sooner than this is waited for by giving way to other threads: going to sleep takes longer.
const SPIN: Duration = Duration::from_micros(100);
/// How soon the database's own thread looks again while somebody else leads.
const LOOK_NS: Nanos = 1_000_000;

#[expect(clippy::disallowed_methods, reason = "a real disk works in real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

impl Shared {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        cache_bytes: u64,
        recorder: Option<Recorder>,
    ) -> Shared {
        let rows = Arc::new(Rows::new(cache_bytes));
        let effects = Effects::new(Arc::clone(&driver), Arc::clone(&rows), recorder.clone());
        Shared {
            recorder,
            inside: Mutex::new(Inside {
                engine: None,
                effects,
                wake_at: None,
                leader: Leader::Nobody,
                leader_sleeps: None,
                waiters: Vec::new(),
                alarm: None,
                stopping: false,
                farewell: None,
                gave_up: false,
                promised: None,
                taken: Vec::new(),
            }),
            intake: Intake::default(),
            combining: Combining::default(),
            gate: Arc::default(),
            driver,
            rows,
            began: instant(),
            nudge: AtomicBool::new(false),
            helper: OnceLock::new(),
            reads_outside: ReadsOutside::default(),
            wake_ups: AtomicU64::new(0),
            turns: AtomicU64::new(0),
        }
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a process does not live that long")
    }

    pub(crate) fn counts(&self) -> Counts {
        let inside = self.lock();
        let engine = inside.engine.as_ref();
        let mut engine = engine.map_or_else(Default::default, |engine| engine.0.stats());
        let mut io = inside.effects.counts;
        self.reads_outside.add_to(&mut engine, &mut io);
        Counts {
            engine,
            io,
            wake_ups: self.wake_ups.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
        }
    }

    /// Requests that are with the engine and not answered.
    #[cfg(test)]
    pub(crate) fn unanswered(&self) -> usize {
        self.lock().effects.pending.iter().flatten().count()
    }

    #[cfg(test)]
    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Opens the engine; the reply is that of request 0.
    pub(crate) fn open(&self, config: &kvsim_engine::Config) -> Reply {
        let _outside = self.outside();
        let waiter = ThreadWaiter::mine();
        waiter.reset();
        let mut inside = self.lock();
        let id = inside.effects.expect(Receiver::Thread(Arc::clone(&waiter)));
        assert_eq!(id, 0, "the opening is the first request");
        let (mut engine, wake_at) = Engine::open(self.now(), config, &mut inside.effects);
        if let Some(engine) = &mut engine {
            engine.use_cache(Arc::clone(&self.rows) as Arc<dyn CachedValues>);
        }
        inside.engine = engine.map(Movable);
        inside.wake_at = wake_at;
        self.await_reply(inside, &waiter)
    }

    /// Makes a request and waits for its reply.
    pub(crate) fn call(&self, request: Request<'_>, beside: &Beside<'_>) -> Reply {
        let _outside = self.outside();
        if let Some(draft) = beside.draft
            && self.accept(&request, draft)
        {
            return Reply::Done;
        }
        self.ask(self.lock(), request, beside)
    }

    /// The same where the lock is held.
    fn ask(&self, mut inside: Held<'_>, request: Request<'_>, beside: &Beside<'_>) -> Reply {
        let waiter = ThreadWaiter::mine();
        waiter.reset_for(&request);
        self.hand_in(
            &mut inside,
            request,
            beside,
            Receiver::Thread(Arc::clone(&waiter)),
        );
        self.await_reply(inside, &waiter)
    }

    /// Makes a request whose reply goes to a task.
    pub(crate) fn send(
        &self,
        request: Request<'_>,
        beside: &Beside<'_>,
        completion: Arc<TaskCompletion>,
    ) {
        let _outside = self.outside();
        if let Some(draft) = beside.draft
            && self.accept(&request, draft)
        {
            completion.put(Reply::Done).for_each(wake);
            return;
        }
        let mut inside = self.lock();
        self.hand_in(&mut inside, request, beside, Receiver::Task(completion));
        self.leave(inside);
    }

    fn hand_in(
        &self,
        inside: &mut Inside,
        request: Request<'_>,
        beside: &Beside<'_>,
        receiver: Receiver,
    ) {
        // As long as this is held, no other write comes between what the engine is told and what the rows are.
        let mut queue = self.take_all_in(inside);
        self.hand_in_next(inside, request, beside, receiver);
        self.renew_promise(inside, &mut queue);
    }

    fn hand_in_next(
        &self,
        inside: &mut Inside,
        request: Request<'_>,
        beside: &Beside<'_>,
        receiver: Receiver,
    ) {
        let Inside {
            engine, effects, ..
        } = inside;
        let id = effects.expect(receiver);
        let index = usize::try_from(id).expect("ids are indices");
        if let Some((key, stamp)) = beside.fill
            && let Some(pending) = &mut effects.pending[index]
        {
            pending.fill = Some((key.into(), stamp));
        }
        (effects.current, effects.is_refused) = (Some(id), false);
        if matches!(request, Request::Close) {
            effects.closes(id);
        }
        if let Some(recorder) = &effects.recorder {
            recorder.handed_in(id, &request);
        }
        let Some(Movable(engine)) = engine else {
            let message = match inside.gave_up {
                true => "the engine has panicked and was given up: open the database anew",
                false => "the database is not open",
            };
            return effects.reply(id, Reply::Failed(Status::Closed, message.to_owned()));
        };
        inside.wake_at = engine.request(self.now(), id, request, effects);
        effects.current = None;
        if matches!(request, Request::Close) {
            self.rows.forget_ranges();
        }
        let is_taken = |draft: &&Draft<'_>| !draft.batch().is_empty() && !effects.is_refused;
        let Some(draft) = beside.draft.filter(is_taken) else {
            return;
        };
        if engine.is_queued(id) {
            let pending = effects.pending[index].as_mut().expect("it is not answered");
            let keys = draft.batch().iter().map(Mutation::key);
            pending.fenced = keys.clone().map(Into::into).collect();
            keys.for_each(|key| self.rows.fence(key));
            return;
        }
        self.rows.apply(draft);
    }

    fn await_reply<'a>(&'a self, mut inside: Held<'a>, waiter: &Arc<ThreadWaiter>) -> Reply {
        if let Some(reply) = waiter.take() {
            self.leave(inside);
            return reply;
        }
        if matches!(inside.leader, Leader::Nobody) {
            inside.leader = Leader::Thread(Arc::clone(waiter));
            return self
                .lead(inside, Some(waiter))
                .expect("a leader gets its reply");
        }
        inside.waiters.push(Arc::clone(waiter));
        // The leader may sleep until its group has gathered: whoever completes the group is awake, and would only wait.
        let mut work = self.let_go(inside, true);
        loop {
            match work {
                Work::None => break,
                Work::Read(taken) => self.driver.read(taken),
                Work::Lone if self.driver.work() => {}
                Work::Lone => {
                    self.driver.start();
                    break;
                }
            }
            let mut inside = self.lock();
            self.take_completions(&mut inside, &mut Vec::new());
            work = self.let_go(inside, !waiter.is_answered());
        }
        self.await_call(waiter)
    }

    /// Waits until the reply is there, or the lead is to be taken and then the reply is.
    fn await_call(&self, waiter: &Arc<ThreadWaiter>) -> Reply {
        match waiter.wait() {
            Call::Ready => waiter.take().expect("it was put down"),
            Call::Lead => {
                let inside = self.lock();
                match waiter.take() {
                    Some(reply) => {
                        self.hand_over(inside);
                        reply
                    }
                    None => self
                        .lead(inside, Some(waiter))
                        .expect("a leader gets its reply"),
                }
            }
        }
    }

    /// Collects what has to be done after the lock was let go.
    fn post_unlock(&self, inside: &mut Inside) -> PostUnlock {
        self.take_in(inside);
        if let Some(Movable(engine)) = &inside.engine {
            self.rows.set_spare(engine.spare_bytes());
        }
        let told = std::mem::take(&mut inside.effects.told);
        let wakers = std::mem::take(&mut inside.effects.wakers);
        if !told.is_empty() {
            inside.waiters.retain(|waiter| !is_among(&told, waiter));
        }
        PostUnlock {
            told,
            wakers,
            ..PostUnlock::default()
        }
    }

    /// Lets the lock go after a call that was not the leader's.
    fn leave(&self, inside: Held<'_>) {
        self.let_go(inside, false);
    }

    /// The same for a thread that can do some of the work itself, which it is given.
    fn let_go(&self, inside: Held<'_>, works: bool) -> Work {
        let work = self.end(inside, works);
        self.come_by();
        work
    }

    /// The same without a look at what was accepted meanwhile.
    fn end(&self, mut inside: Held<'_>, works: bool) -> Work {
        // What has ended is taken by whoever comes along: the leader may have to wait for a processor.
        if self.driver.has_ended() {
            self.take_completions(&mut inside, &mut Vec::new());
        }
        let mut post_unlock = self.post_unlock(&mut inside);
        // Whoever took the last end: this thread now, or one before that did the work itself.
        let helper_is_done = inside.effects.in_flight == 0;
        let taken = match works && inside.effects.queued {
            true => self.driver.take_read(),
            false => None,
        };
        let taken = taken.map(|(taken, left)| {
            inside.effects.queued = left;
            taken
        });
        match &inside.leader {
            Leader::Nobody => post_unlock.call_helper = self.needs_helper(&mut inside),
            leader => {
                post_unlock.wake_leader = match leader {
                    // It finds its reply under the lock, and may be gone, and back with another request, before it were told.
                    Leader::Thread(waiter) => {
                        let told = post_unlock.told.len();
                        post_unlock.told.retain(|other| !Arc::ptr_eq(other, waiter));
                        post_unlock.told.len() < told
                    }
                    _ => helper_is_done,
                };
                match inside.leader_sleeps {
                    Some(until) => {
                        post_unlock.begin = std::mem::take(&mut inside.effects.queued);
                        post_unlock.wake_leader |= is_sooner(inside.wake_at, until);
                    }
                    None if inside.effects.queued || post_unlock.wake_leader => {
                        post_unlock.wake_leader = false;
                        self.nudge.store(true, Ordering::Release);
                    }
                    None => {}
                }
            }
        }
        inside.end();
        let lone = works && taken.is_none() && std::mem::take(&mut post_unlock.begin);
        self.run(post_unlock);
        match taken {
            Some(taken) => Work::Read(taken),
            None if lone => Work::Lone,
            None => Work::None,
        }
    }

    /// Nobody leads: whether the helper has to be told, and whether it leads from here on.
    fn needs_helper(&self, inside: &mut Inside) -> bool {
        if inside.effects.in_flight > 0 {
            inside.leader = Leader::Helper;
            return true;
        }
        is_sooner(inside.wake_at, inside.alarm)
    }

    fn run(&self, post_unlock: PostUnlock) {
        if post_unlock.begin {
            self.driver.start();
        }
        if post_unlock.wake_leader {
            self.driver.wake();
        }
        let mut woken = 0;
        if let Some(next) = post_unlock.next {
            woken += u64::from(next.tell(Call::Lead));
        }
        if post_unlock.call_helper
            && let Some(helper) = self.helper.get()
        {
            woken += u64::from(helper.tell(Call::Lead));
        }
        for waiter in post_unlock.told {
            woken += u64::from(waiter.tell(Call::Ready));
        }
        post_unlock.wakers.into_iter().for_each(wake);
        if woken > 0 {
            self.wake_ups.fetch_add(woken, Ordering::Relaxed);
        }
    }

    /// Leads until this thread's own reply is there; or, without a waiter, until nothing is under way any more.
    fn lead<'a>(&'a self, mut inside: Held<'a>, me: Option<&Arc<ThreadWaiter>>) -> Option<Reply> {
        let mut done: Vec<Completion> = Vec::new();
        let mut round = None;
        if me.is_none() {
            self.combines(&inside, &mut round);
        }
        loop {
            let post_unlock = self.post_unlock(&mut inside);
            inside.effects.queued = false;
            let wake_at = inside.wake_at;
            let left = wake_at.map(|at| Duration::from_nanos(at.saturating_sub(self.now())));
            let spins = round.is_some() || left.is_some_and(|left| left < SPIN);
            inside.leader_sleeps = (!spins).then_some(wake_at);
            self.nudge.store(false, Ordering::Release);
            let taken = match spins {
                true => None,
                false => self.driver.take_lone_read(),
            };
            drop(inside);
            self.run(post_unlock);
            if let Some(taken) = taken {
                self.driver.read(taken);
                self.driver.awake();
            } else if let Some(round) = &mut round {
                self.await_accepted(round);
                self.driver.awake();
            } else if spins {
                if !self.driver.work() {
                    self.give_way_until(wake_at.unwrap_or(0));
                }
                self.driver.awake();
            } else {
                self.driver.wait(left);
            }
            if round.is_none() {
                self.turns.fetch_add(1, Ordering::Relaxed);
            }
            inside = self.lock();
            inside.leader_sleeps = None;
            self.take_completions(&mut inside, &mut done);
            match me {
                Some(waiter) => {
                    if let Some(reply) = waiter.take() {
                        self.hand_over(inside);
                        return Some(reply);
                    }
                }
                None => {
                    let combines = self.combines(&inside, &mut round);
                    if !combines && inside.effects.in_flight == 0 {
                        self.hand_over(inside);
                        return None;
                    }
                }
            }
        }
    }

    /// Waits for a moment without sleeping, while others may work.
    fn give_way_until(&self, at: Nanos) {
        self.driver.start();
        while self.now() < at && !self.nudge.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn take_completions(&self, inside: &mut Inside, done: &mut Vec<Completion>) {
        self.driver.reap(done);
        let Inside {
            engine, effects, ..
        } = inside;
        effects.in_flight -= done.len();
        let Some(engine) = engine else {
            done.clear();
            return;
        };
        for Completion { tag, result } in done.drain(..) {
            inside.wake_at = engine.0.complete(self.now(), tag, result, effects);
        }
        let now = self.now();
        if inside.wake_at.is_some_and(|at| at <= now) {
            inside.wake_at = engine.0.tick(now, effects);
        }
    }

    /// The leader leaves: someone else leads from here on, if there is anything to lead.
    fn hand_over(&self, mut inside: Held<'_>) {
        let mut post_unlock = self.post_unlock(&mut inside);
        inside.leader_sleeps = None;
        match inside.waiters.pop() {
            Some(next) => {
                inside.leader = Leader::Thread(Arc::clone(&next));
                post_unlock.next = Some(next);
            }
            None => {
                inside.leader = Leader::Nobody;
                post_unlock.call_helper = self.needs_helper(&mut inside);
            }
        }
        drop(inside);
        self.run(post_unlock);
    }

    /// The database's own thread: leads where nobody else does, and minds the engine's next wake-up. Returns when told to stop.
    pub(crate) fn serve(&self) {
        let _outside = self.outside();
        let waiter = self.helper.get_or_init(|| Arc::new(ThreadWaiter::new()));
        loop {
            waiter.reset();
            let mut inside = self.lock();
            let is_closed = |farewell: &Arc<TaskCompletion>| farewell.is_answered();
            if inside.stopping && inside.farewell.as_ref().is_none_or(is_closed) {
                return;
            }
            let now = self.now();
            if matches!(inside.leader, Leader::Nobody)
                && (inside.effects.in_flight > 0 || inside.wake_at.is_some_and(|at| at <= now))
            {
                inside.leader = Leader::Helper;
            }
            if matches!(inside.leader, Leader::Helper) {
                inside.alarm = None;
                self.lead(inside, None);
                continue;
            }
            // A leader calls the engine at its next wake-up. Soon there may be no leader: then a timer of this thread costs less than being
            // woken by each leader that leaves.
            inside.alarm = match (inside.wake_at, &inside.leader) {
                (wake_at, Leader::Nobody) => wake_at,
                (Some(at), _) if at > now => Some(at),
                _ => Some(now + LOOK_NS),
            };
            let alarm = inside.alarm;
            drop(inside);
            waiter.sleep(alarm.map(|at| Duration::from_nanos(at.saturating_sub(now))));
            self.lock().alarm = None;
        }
    }

    /// Closes, and makes `serve` return when that is done, without waiting for it: for the database's own thread, which has to do both.
    pub(crate) fn close_and_stop(&self) {
        let completion = Arc::new(TaskCompletion::default());
        let mut inside = self.lock();
        inside.stopping = true;
        inside.farewell = Some(Arc::clone(&completion));
        let receiver = Receiver::Task(completion);
        self.hand_in(&mut inside, Request::Close, &Beside::default(), receiver);
        self.leave(inside);
    }

    /// Makes `serve` return, once nothing is under way.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        if let Some(helper) = self.helper.get() {
            helper.tell(Call::Lead);
        }
        // It may lead although nothing is under way any more.
        self.driver.wake();
    }
}

/// Wakes a task. What a waker does is the caller's business: if it panics, others are woken all the same, and nobody else's thread ends.
pub(crate) fn wake(waker: Waker) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        tracing::error!(target: "kvsim_native", "the waker of a task panicked");
        // To drop it could panic once more.
        std::mem::forget(panic);
    }
}

fn is_among(told: &[Arc<ThreadWaiter>], waiter: &Arc<ThreadWaiter>) -> bool {
    told.iter().any(|other| Arc::ptr_eq(other, waiter))
}

fn is_sooner(wake_at: Option<Nanos>, than: Option<Nanos>) -> bool {
    match (wake_at, than) {
        (Some(wake_at), Some(than)) => wake_at < than,
        (Some(_), None) => true,
        (None, _) => false,
    }
}
