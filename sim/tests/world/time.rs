//! Virtual time: what moves it, by how much, and that nothing else does.

use std::sync::Arc;

use kvsim_sim::api::{Body, Reply, Request, Status};
use kvsim_sim::{
    Call, CallEnd, Guest, GuestError, GuestHash, GuestLimits, OutItem, Outbox, Program, Step,
    TraceEvent, TraceMode, World,
};
use kvsim_simdisk::{LatencyConfig, Nanos, Op};

use crate::clerk::{ask, closed, config, get, opened, program, put, reopen, until_reply};

/// Goal: time moves to the next completion, arrival or wake-up, and by nothing else. Method: free work, so that each step's time is
/// that of the event before which it stands.
#[test]
fn time_moves_only_to_the_next_event() {
    let mut world = closed(1, 0, TraceMode::Full);
    assert_eq!((world.now(), world.step()), (0, Ok(Step::Quiet)));
    world.open().expect("it starts");
    assert_eq!(world.now(), 0, "opening takes no time by itself");
    world.step().expect("the read reaches the device");
    assert_eq!(world.now(), 0, "nor does a submission");
    let due = world.device().next_completion_at().expect("the read");
    assert!(due > 0);
    world.step().expect("the read ends");
    assert_eq!(world.now(), due);
    until_reply(&mut world, 0);
    assert_eq!(world.now(), due, "an answer is not waited for");

    let later = due + 5_000_000;
    let id = world.submit(later, get());
    assert_eq!(world.now(), due, "handing in is not arriving");
    until_reply(&mut world, id);
    assert_eq!(world.now(), later);
    assert_eq!(world.step(), Ok(Step::Quiet));
    assert_eq!(world.now(), later, "quiet is no event");

    assert_eq!(ask(&mut world, Request::Sync), Body::Empty);
    assert_eq!(
        world.now(),
        later + 1_000_000,
        "the wake-up, to the nanosecond"
    );
}

/// Goal: a request that is handed in for the past arrives now. Method: one for time 0, late.
#[test]
fn time_never_goes_back() {
    let mut world = opened(1, 1000, TraceMode::Full);
    ask(&mut world, put());
    let now = world.now();
    let id = world.submit(0, put());
    until_reply(&mut world, id);
    assert!(world.now() > now);
    let times: Vec<u64> = world.trace().events().map(|record| record.at_ns).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// Goal: fuel is time, at the rate that was set and rounded up. Method: the same get at several rates; the answer comes exactly so
/// much after the arrival.
#[test]
fn fuel_takes_time_at_its_rate() {
    for fuel_ps in [0, 1, 250, 1000, 1_000_000] {
        let mut world = opened(1, fuel_ps, TraceMode::Full);
        let (fuel, at) = (world.fuel(), world.now() + 10_000_000);
        let id = world.submit(at, get());
        until_reply(&mut world, id);
        let burnt = world.fuel() - fuel;
        assert!(burnt > 0);
        let took_ns = (burnt * fuel_ps).div_ceil(1000);
        assert_eq!(world.now(), at + took_ns, "{burnt} units at {fuel_ps} ps");
    }
}

/// Goal: the guest has one processor: what comes while it works waits. Method: two gets at the same time, the second of which is
/// answered one call's time after the first.
#[test]
fn calls_wait_for_the_processor() {
    let mut world = opened(1, 1_000_000, TraceMode::Full);
    let at = world.now() + 10_000_000;
    let (first, second) = (world.submit(at, get()), world.submit(at, get()));
    until_reply(&mut world, first);
    let took_ns = world.now() - at;
    until_reply(&mut world, second);
    assert_eq!(world.now(), at + 2 * took_ns);
}

/// Goal: a client that sleeps while it waits for the processor takes its time to wake up, one that finds it free does not. Method:
/// two gets at the same time, both of clients that sleep.
#[test]
fn who_waits_for_the_processor_is_woken_first() {
    let mut world = opened(1, 1_000_000, TraceMode::Full);
    let at = world.now() + 10_000_000;
    let first = world.submit_in_turn(at, get(), 7_000);
    let second = world.submit_in_turn(at, get(), 7_000);
    until_reply(&mut world, first);
    let took_ns = world.now() - at;
    until_reply(&mut world, second);
    assert_eq!(world.now(), at + 2 * took_ns + 7_000);
}

/// Goal: requests arrive by time, and at equal times as they were handed in. Method: three, handed in against their times.
#[test]
fn requests_arrive_in_order_of_time() {
    let mut world = opened(1, 0, TraceMode::Full);
    let at = world.now() + 1000;
    let third = world.submit(at + 1, get());
    let first = world.submit(at, get());
    let second = world.submit(at, get());
    for id in [first, second, third] {
        until_reply(&mut world, id);
    }
}

/// Goal: no request arrives before the opening is answered. Method: hand one in before the opening is under way, and see where it
/// stands in the trace; a get that came early would show 0 on the device.
#[test]
fn requests_wait_for_the_opening() {
    let mut world = closed(1, 0, TraceMode::Full);
    world.open().expect("it starts");
    let id = world.submit(0, get());
    until_reply(&mut world, 0);
    until_reply(&mut world, id);
    let place = |wanted: &dyn Fn(&TraceEvent) -> bool| {
        let mut events = world.trace().events();
        events
            .position(|record| wanted(&record.event))
            .expect("it is there")
    };
    let opened = place(&|event| matches!(event, TraceEvent::Reply { id: 0, .. }));
    let arrived = place(&|event| matches!(event, TraceEvent::Request { .. }));
    assert!(opened < arrived, "{opened} {arrived}");
}

/// Goal: every event counts, and a step is one event. Method: count the steps of a put: arrival, write, its end, flush, its end,
/// answer.
#[test]
fn a_step_is_one_event() {
    let mut world = opened(1, 0, TraceMode::Full);
    let (before, outstanding) = (world.events(), world.outstanding());
    world.submit(world.now(), put());
    assert_eq!(world.outstanding(), outstanding + 1);
    let mut steps = 0;
    while world.step().expect("it behaves") != Step::Quiet {
        steps += 1;
        assert_eq!(world.events(), before + steps);
    }
    assert_eq!(steps, 6);
    assert_eq!(world.outstanding(), outstanding);
}

/// Goal: a guest that works on and on and answers nothing is told so, and one that answers in time is not. Method: a put of the clerk takes six events, the last of which lets the
/// answer out; a bound that just allows them, with pauses of many events without a request between, and one that does not.
#[test]
fn a_guest_has_to_answer_from_time_to_time() {
    let outcome = |events_per_answer: u64| {
        let mut config = config(1, 0, TraceMode::Off);
        config.limits.events_per_answer = events_per_answer;
        let mut world = World::new(program(), config).expect("a world");
        reopen(&mut world);
        let end = (0..20).try_for_each(|_| {
            world.submit(world.now() + 1_000_000, put());
            while world.step()? != Step::Quiet {}
            Ok(())
        });
        (end, world.outstanding())
    };
    assert_eq!(outcome(6), (Ok(()), 0));
    let endless = GuestError::Endless {
        events: 3,
        unanswered: 1,
    };
    assert_eq!(outcome(3), (Err(endless), 1));
}

/// Goal: a guest that answers some requests and leaves one waiting is told so. Method: a put, and meanwhile gets, each of which takes two events and is
/// answered at once; a bound that allows the put to wait that long, and one that does not.
#[test]
fn no_request_waits_while_others_are_answered() {
    let outcome = |events_per_answer: u64| {
        let mut config = config(1, 0, TraceMode::Off);
        config.limits.events_per_answer = events_per_answer;
        let mut world = World::new(program(), config).expect("a world");
        reopen(&mut world);
        world.submit(world.now(), put());
        for _ in 0..20 {
            world.submit(world.now(), get());
        }
        loop {
            match world.step() {
                Ok(Step::Quiet) => return Ok(world.outstanding()),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    };
    assert_eq!(outcome(6 + 40), Ok(0));
    let endless = GuestError::Endless {
        events: 20,
        unanswered: 1,
    };
    assert_eq!(outcome(20), Err(endless));
}

/// Starts copies of a guest.
struct Copies<G>(G);

impl<G: Guest + Copy + Send + Sync + 'static> Program for Copies<G> {
    fn name(&self) -> &str {
        "copies"
    }

    fn hash(&self) -> GuestHash {
        GuestHash::of(b"copies")
    }

    fn coverage_points(&self) -> &[String] {
        &[]
    }

    fn start(&self, _: &GuestLimits) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(self.0))
    }
}

/// A guest that answers all at once, and asks to be woken so long after each call, which takes it so long.
#[derive(Clone, Copy)]
struct Restless {
    wakes_after: Option<Nanos>,
    takes: Nanos,
}

impl Guest for Restless {
    fn call(
        &mut self,
        now: Nanos,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<CallEnd, GuestError> {
        let id = match call {
            Call::Open(_) => Some(0),
            Call::Request { id, .. } => Some(id),
            Call::Complete { .. } | Call::Tick => None,
        };
        out.extend(id.map(|id| {
            OutItem::Reply(Reply {
                id,
                status: Status::Ok,
                body: Body::Empty,
            })
        }));
        Ok(CallEnd {
            fuel: 0,
            elapsed_ns: self.takes,
            wake_at: Some(self.wakes_after.map_or(0, |after| now + after)),
        })
    }

    fn reached(&self) -> &[u32] {
        &[]
    }
}

/// Goal: a guest that asks again and again to be woken in the past, or now, keeps requests from coming to it, and is told so; one that has many timers before the next
/// request is due is not. Method: a request in a while, and so many timers at most; each way.
#[test]
fn timers_keep_no_request_away_for_ever() {
    let outcome = |wakes_after: Option<Nanos>, takes: Nanos| {
        let mut config = config(1, 0, TraceMode::Off);
        config.limits.events_per_answer = 100;
        let program = Arc::new(Copies(Restless { wakes_after, takes }));
        let mut world = World::new(program, config).expect("a world");
        world.open().expect("it starts");
        let id = world.submit(world.now() + 1_000_000, put());
        loop {
            match world.step() {
                Ok(Step::Reply(reply)) if reply.id == id => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    };
    let endless = |unanswered| {
        Err(GuestError::Endless {
            events: 100,
            unanswered,
        })
    };
    assert_eq!(outcome(None, 5), endless(1), "in the past");
    assert_eq!(
        outcome(Some(0), 0),
        endless(0),
        "now, and time stands still"
    );
    assert_eq!(outcome(Some(1_000), 0), Ok(()), "a thousand timers first");
}

/// A guest that answers a request at the first wake-up after it, and asks for that in so long a time; with each request it reads, or not.
#[derive(Clone, Copy)]
struct Sleeper {
    sleeps: Nanos,
    reads: bool,
    asked: Option<u64>,
}

impl Guest for Sleeper {
    fn call(
        &mut self,
        now: Nanos,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<CallEnd, GuestError> {
        let answer = match call {
            Call::Open(_) => Some(0),
            Call::Request { id, .. } => {
                self.asked = Some(id);
                None
            }
            Call::Complete { .. } => None,
            Call::Tick => self.asked.take(),
        };
        if self.reads && self.asked.is_some() {
            let op = Op::Read {
                offset: 0,
                len_bytes: 4096,
            };
            out.push(OutItem::Submit { tag: 0, op });
        }
        out.extend(answer.map(|id| {
            OutItem::Reply(Reply {
                id,
                status: Status::Ok,
                body: Body::Empty,
            })
        }));
        Ok(CallEnd {
            fuel: 0,
            elapsed_ns: 5,
            wake_at: self.asked.map(|_| now + self.sleeps),
        })
    }

    fn reached(&self) -> &[u32] {
        &[]
    }
}

/// Goal: a guest that sleeps while a request waits is told so, and one that wakes in time is not; it does not count as sleep that the disk works, that no request waits, or that each
/// of many waits for a little. Method: requests with pauses between; sleeps shorter and longer than the bound, with and without reads that take as long.
#[test]
fn no_request_waits_for_a_guest_that_sleeps() {
    const BOUND: Nanos = 1_000_000;
    let outcome = |sleeps: Nanos, reads: bool| {
        let mut config = config(1, 0, TraceMode::Off);
        config.limits.idle_ns_per_answer = BOUND;
        config.device.timing.read = LatencyConfig::fixed(sleeps);
        let program = Arc::new(Copies(Sleeper {
            sleeps,
            reads,
            asked: None,
        }));
        let mut world = World::new(program, config).expect("a world");
        world.open().expect("it starts");
        while world.step()? != Step::Quiet {}
        for _ in 0..5 {
            world.submit(world.now() + 10 * BOUND, put());
            while world.step()? != Step::Quiet {}
        }
        Ok(world.outstanding())
    };
    let idle = GuestError::Idle {
        ns: BOUND,
        unanswered: 1,
    };
    assert_eq!(outcome(BOUND / 2, false), Ok(0));
    assert_eq!(outcome(BOUND + 100, false), Err(idle));
    assert_eq!(outcome(BOUND + 100, true), Ok(0), "the disk works");
}
