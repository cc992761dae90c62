//! A command: a program with a `main`, which reads messages from standard input and writes answers to standard output.
//!
//! Its `main` runs on a fiber. A read of standard input with no message there leaves the fiber; the next message goes on where it left. So a
//! process run of a command begins with its `_start` each time: no image can be kept of a program that has functions on its stack.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kvsim_fs::FileSystem;
use kvsim_sim::{GuestError, Stack, TracedCall};
use wasmtime::{Caller, Error, InstancePre, Store};

use crate::clock::Told;
use crate::exchange::{Ended, Line, When};
use crate::host::{Ending, Host};
use crate::verdict::verdict;

/// The export of a command.
pub(crate) const START: &str = "_start";

/// Says what there is to know between two messages.
fn report(line: &Line, host: &Host) {
    let traced = host.trace.traced.clone();
    line.with(|it| {
        it.told = host.told;
        it.traced = traced;
        it.files = Some(host.files.clone());
    });
}

/// Called on the fiber when it needs input that is not there: ends the call, waits, and begins the next.
pub(crate) async fn wait(line: &Line, caller: &mut Caller<'_, Host>) -> Result<(), Error> {
    let left = caller.get_fuel()?;
    let host = caller.data_mut();
    let ended = host.finish(left, Ok(Vec::new()));
    report(line, host);
    line.with(|it| it.ended = Some(ended));
    poll_fn(|_| {
        if line.mailbox.is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    let when = line.with(|it| it.when);
    let host = caller.data_mut();
    host.begin_call();
    host.clock.begin_call(when.now, when.is_idle);
    let fuel = host.limits.fuel_per_call;
    caller.set_fuel(fuel)
}

type Run = Pin<Box<dyn Future<Output = (Result<(), Error>, Box<Store<Host>>)> + Send>>;

/// A command on its fiber.
pub(crate) struct Command {
    line: Line,
    /// Nothing before the first message, and after the end.
    run: Option<Run>,
    waiting: Option<(Box<Store<Host>>, InstancePre<Host>)>,
    traced: BTreeMap<u64, TracedCall>,
    /// As they are after the last message; nothing before the first.
    files: Option<FileSystem>,
}

impl Command {
    pub(crate) fn new(line: Line, store: Store<Host>, program: InstancePre<Host>) -> Command {
        Command {
            line,
            run: None,
            waiting: Some((Box::new(store), program)),
            traced: BTreeMap::new(),
            files: None,
        }
    }

    pub(crate) fn files(&self) -> Option<&FileSystem> {
        self.files.as_ref()
    }

    pub(crate) fn told(&self) -> Told {
        self.line.with(|it| it.told)
    }

    pub(crate) fn traced(&self) -> &BTreeMap<u64, TracedCall> {
        &self.traced
    }

    pub(crate) fn exchange(&mut self, when: When, message: &[u8]) -> Ended {
        self.line.with(|it| it.when = when);
        self.line.mailbox.send(message);
        if let Some((store, program)) = self.waiting.take() {
            self.run = Some(Box::pin(start(store, program, when)));
        }
        let Some(run) = &mut self.run else {
            return nothing(GuestError::Abi(
                "it has ended, and cannot be called again".to_owned(),
            ));
        };
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut ended = match polled {
            Poll::Pending => {
                let ended = self.line.with(|it| it.ended.take());
                let Some(mut ended) = ended else {
                    return nothing(GuestError::Host(
                        "a command waits for something unknown".to_owned(),
                    ));
                };
                ended.answer = match self.line.mailbox.take_answer() {
                    Ok(Some(answer)) => Ok(answer),
                    Ok(None) => Err(GuestError::Abi(
                        "it waits for the next message and has not answered this one".to_owned(),
                    )),
                    Err(what) => Err(GuestError::Abi(what)),
                };
                ended
            }
            Poll::Ready((result, mut store)) => {
                self.run = None;
                let answer = Err(after_end(&result, store.data()));
                let left = store.get_fuel().unwrap_or(0);
                let ended = store.data_mut().finish(left, answer);
                report(&self.line, store.data());
                ended
            }
        };
        (self.traced, self.files) = self.line.with(|it| (it.traced.clone(), it.files.clone()));
        if ended.answer.is_err() {
            self.run = None;
        }
        ended.fuel = ended.fuel.max(1);
        ended
    }
}

fn nothing(error: GuestError) -> Ended {
    Ended {
        answer: Err(error),
        out: Vec::new(),
        fuel: 0,
        elapsed_ns: 0,
    }
}

/// A command ends when its input ends, and not before.
fn after_end(result: &Result<(), Error>, host: &Host) -> GuestError {
    match result {
        Err(error) => verdict(error, host),
        Ok(()) => host.verdict_of(&Ending::Exit(0), Stack::default()),
    }
}

async fn start(
    mut store: Box<Store<Host>>,
    program: InstancePre<Host>,
    when: When,
) -> (Result<(), Error>, Box<Store<Host>>) {
    let result = run(&mut store, &program, when).await;
    (result, store)
}

async fn run(
    store: &mut Store<Host>,
    program: &InstancePre<Host>,
    when: When,
) -> Result<(), Error> {
    let host = store.data_mut();
    host.begin_call();
    host.clock.begin_call(when.now, when.is_idle);
    let fuel = host.limits.fuel_per_call;
    store.set_fuel(fuel)?;
    let instance = program.instantiate_async(&mut *store).await?;
    store.data_mut().memory = instance.get_memory(&mut *store, "memory");
    let start = instance.get_typed_func::<(), ()>(&mut *store, START)?;
    start.call_async(&mut *store, ()).await
}
