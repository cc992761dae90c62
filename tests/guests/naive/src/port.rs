//! The way out: operations and replies wait here until the host takes them, requests and completions until the engine does.
//!
//! Invariant: the engine has one operation in flight at a time, except where a defect says otherwise.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use super::request::Request;

/// What the engine asks of the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Read {
        tag: u64,
        offset: u64,
        len: usize,
    },
    Write {
        tag: u64,
        offset: u64,
        data: Vec<u8>,
    },
    Flush {
        tag: u64,
    },
    Reply {
        id: u64,
        status: Status,
        body: Vec<u8>,
    },
}

/// How a request ended; the numbers are the ABI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    Ok = 0,
    NotFound = 1,
    Corruption = 2,
    IoError = 3,
    NoSpace = 4,
    ReadOnly = 5,
    Invalid = 6,
    Closed = 7,
}

/// The device failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskError;

type Completion = Result<Vec<u8>, DiskError>;

#[derive(Debug, Default)]
struct State {
    out: Vec<Out>,
    requests: VecDeque<(u64, Request)>,
    completions: BTreeMap<u64, Completion>,
    next_tag: u64,
}

/// Shared by the engine and by whoever drives it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Port(Rc<RefCell<State>>);

impl Port {
    pub(crate) fn take_out(&self) -> Vec<Out> {
        std::mem::take(&mut self.0.borrow_mut().out)
    }

    pub(crate) fn push_request(&self, id: u64, request: Request) {
        self.0.borrow_mut().requests.push_back((id, request));
    }

    pub(crate) fn push_completion(&self, tag: u64, completion: Completion) {
        self.0.borrow_mut().completions.insert(tag, completion);
    }

    pub(crate) fn reply(&self, id: u64, status: Status, body: Vec<u8>) {
        self.0
            .borrow_mut()
            .out
            .push(Out::Reply { id, status, body });
    }

    /// The request after those that were taken, as soon as there is one.
    pub(crate) async fn next_request(&self) -> (u64, Request) {
        poll_fn(|_| {
            self.0
                .borrow_mut()
                .requests
                .pop_front()
                .map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The first read of the latest state that waits, or else the first request.
    pub(crate) async fn next_read_or_request(&self) -> (u64, Request) {
        let is_read = |(_, request): &(u64, Request)| match request {
            Request::Get { snapshot, .. } => *snapshot == 0,
            Request::Scan(scan) => scan.snapshot == 0,
            _ => false,
        };
        let first = {
            let mut state = self.0.borrow_mut();
            let at = state.requests.iter().position(is_read);
            at.and_then(|at| state.requests.remove(at))
        };
        match first {
            Some(read) => read,
            None => self.next_request().await,
        }
    }

    /// Whether another write waits.
    pub(crate) fn write_is_next(&self) -> bool {
        matches!(
            self.0.borrow().requests.front(),
            Some((_, Request::Write(_) | Request::Relaxed(_)))
        )
    }

    pub(crate) async fn read(&self, offset: u64, len: usize) -> Completion {
        self.operation(|tag| Out::Read { tag, offset, len }).await
    }

    pub(crate) async fn write(&self, offset: u64, data: Vec<u8>) -> Result<(), DiskError> {
        self.operation(|tag| Out::Write { tag, offset, data })
            .await
            .map(drop)
    }

    pub(crate) async fn flush(&self) -> Result<(), DiskError> {
        self.operation(|tag| Out::Flush { tag }).await.map(drop)
    }

    fn operation(&self, out: impl FnOnce(u64) -> Out) -> impl Future<Output = Completion> {
        let mut state = self.0.borrow_mut();
        let tag = state.next_tag;
        state.next_tag += 1;
        state.out.push(out(tag));
        poll_fn(move |_| {
            self.0
                .borrow_mut()
                .completions
                .remove(&tag)
                .map_or(Poll::Pending, Poll::Ready)
        })
    }
}
