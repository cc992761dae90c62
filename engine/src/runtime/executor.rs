//! The smallest executor that runs the control plane. Recovery, checkpoint, garbage collection and closing are `async`
//! procedures that wait for disk operations and for conditions on the core.
//!
//! There are a handful of tasks at most, so every one is polled whenever the engine was called; wakers do nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

type Task = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
pub(crate) struct Executor {
    tasks: Vec<Task>,
}

impl Executor {
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// Polls every task once.
    pub(crate) fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        self.tasks
            .retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
    }
}
