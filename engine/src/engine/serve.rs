//! Serving requests in the order in which they were handed in: while one waits, all that came after it wait behind it.

use crate::api::port::{Mutation, PROMISED, Reply, Request, RequestId, Status};
use crate::core::{Core, Phase};
use crate::mutant::{Mutant, mutant};
use crate::runtime::request::{OwnedMutation, OwnedRequest, Verdict};

impl Core {
    /// A request has arrived.
    pub(crate) fn arrive(&mut self, id: RequestId, request: &Request<'_>) {
        if self.phase != Phase::Running {
            return self.fail(id, Status::Closed, "the database is not open");
        }
        if !self.queue.is_empty() {
            self.look_ahead(request);
            return self.queue.push_back((id, OwnedRequest::new(request)));
        }
        match self.serve(id, request) {
            Verdict::Taken => {}
            Verdict::Refused(status, message) => self.fail(id, status, message),
            verdict @ (Verdict::Stall | Verdict::Awaits) => {
                self.stats.stalls += 1;
                self.stalled_since = self.now;
                if matches!(verdict, Verdict::Stall) {
                    self.tell_stall();
                }
                self.queue.push_back((id, OwnedRequest::new(request)));
            }
        }
    }

    /// A client that waits for the buffer goes before what garbage collection would fill it with.
    pub(crate) fn serve_first(&mut self) {
        if self.maintenance.buffer_awaited > 0 && self.phase == Phase::Running {
            self.serve_queue();
        }
    }

    /// Serves what waits, as far as there is room now.
    pub(crate) fn serve_queue(&mut self) {
        let awaited = std::mem::take(&mut self.maintenance.buffer_awaited);
        self.serve_waiting();
        // Garbage collection that gave way to it may go on.
        self.activity += u64::from(awaited > 0 && self.maintenance.buffer_awaited == 0);
    }

    fn serve_waiting(&mut self) {
        if self.queue.is_empty() {
            return self.maintenance.note_progress();
        }
        while let Some((id, request)) = self.queue.pop_front() {
            if self.phase != Phase::Running {
                self.forget_request();
                self.fail(id, Status::Closed, "the database is closed");
                continue;
            }
            let verdict = match &request {
                OwnedRequest::Write {
                    mutations,
                    durability,
                } => {
                    let borrowed: Vec<Mutation<'_>> =
                        mutations.iter().map(OwnedMutation::borrow).collect();
                    self.serve(
                        id,
                        &Request::Write {
                            mutations: &borrowed,
                            durability: *durability,
                        },
                    )
                }
                OwnedRequest::Get { snapshot, key } => self.serve(
                    id,
                    &Request::Get {
                        snapshot: *snapshot,
                        key,
                    },
                ),
                OwnedRequest::Scan(range) => self.serve(id, &Request::Scan(range.borrow())),
                OwnedRequest::Know(range) => self.serve(id, &Request::Know(range.borrow())),
                OwnedRequest::Snapshot => self.serve(id, &Request::Snapshot),
                OwnedRequest::Release { snapshot } => self.serve(
                    id,
                    &Request::Release {
                        snapshot: *snapshot,
                    },
                ),
                OwnedRequest::Sync => self.serve(id, &Request::Sync),
                OwnedRequest::Close => self.serve(id, &Request::Close),
            };
            match verdict {
                Verdict::Taken => self.maintenance.note_progress(),
                Verdict::Refused(status, message) => self.fail(id, status, message),
                Verdict::Stall
                    if self.maintenance.reclaim_exhausted()
                        && self.segments.draining_count() == 0
                        && (id != PROMISED || self.may_break_promise()) =>
                {
                    let mut message = "no space could be reclaimed".to_owned();
                    if let Some((_, why)) = &self.maintenance.unread {
                        message = format!("{message}: {why}");
                    }
                    self.maintenance.note_progress();
                    self.forget_request();
                    match id {
                        // Served once more, it takes effect in memory.
                        PROMISED => {
                            self.break_promise(&message);
                            self.queue.push_front((id, request));
                        }
                        _ => self.fail(id, Status::NoSpace, message),
                    }
                }
                verdict @ (Verdict::Stall | Verdict::Awaits) => {
                    if matches!(verdict, Verdict::Stall) {
                        self.tell_stall();
                    }
                    return self.queue.push_front((id, request));
                }
            }
        }
        self.stats.stalled_ns += self.now - self.stalled_since;
        self.tell_stall_end();
        self.maintenance.note_progress();
    }

    fn serve(&mut self, id: RequestId, request: &Request<'_>) -> Verdict {
        match request {
            Request::Write {
                mutations,
                durability,
            } => return self.write(id, mutations, *durability),
            Request::Get { snapshot, key } => return self.get(id, *snapshot, key),
            Request::Scan(scan) => return self.scan(id, scan),
            Request::Know(range) => return self.know(id, range),
            Request::Snapshot => {
                let at = self.log.next_sequence - 1;
                self.index.hold(at);
                let snapshot = self.next_snapshot;
                self.next_snapshot += 1;
                self.snapshots.insert(snapshot, at);
                self.reply(id, Reply::Snapshot(snapshot));
            }
            Request::Release { snapshot } => match self.snapshots.remove(snapshot) {
                Some(at) => {
                    let mut dropped = Vec::new();
                    self.index.let_go(at, &mut dropped);
                    let leaks = mutant(Mutant::ReleasedVersionsStayLive);
                    for (key, version) in dropped.into_iter().filter(|_| !leaks) {
                        self.remove_live(&key, &version.place);
                    }
                    self.maintenance.note_let_go();
                    self.reply(id, Reply::Done);
                }
                None => {
                    return Verdict::Refused(
                        Status::Invalid,
                        format!("there is no snapshot {snapshot}"),
                    );
                }
            },
            Request::Sync => self.sync(id),
            Request::Close => self.begin_close(id),
        }
        Verdict::Taken
    }
}
