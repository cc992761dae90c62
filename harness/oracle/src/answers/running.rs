//! Requests while the guest runs: writes enter the history, reads are held against the exact state at their place in the order.
//!
//! A read sees every write handed in before it that did not fail. When the read is answered before such a write is, its answer
//! may hang on how that write ends; it is then *provisional* and judged again with each answer. A write that failed with a
//! device error may be seen or not until the guest is opened anew.

use super::limits::Shape;
use super::space::Room;
use crate::history::{Origin, Pos, WriteStatus};
use crate::keys::{Content, KeyId};
use crate::oracle::{Counts, Oracle};
use crate::property::Property;
use crate::recoveries::observation::Strange;
use crate::recoveries::verify::malformed;
use crate::state::outstanding::{Asked, Kind, Outstanding};
use crate::state::views::{Place, Provisional, ReadVerdict, Snapshot};
use crate::symptoms::{strange as strange_as, symptom_of};
use crate::truth::DeviceTruth;
use crate::violation::{Facts, Symptom, Violation};
use crate::words::{acknowledged, answer};
use kvsim_api::key::printable;
use kvsim_api::value::Reading;
use kvsim_sim::api::{
    Body, Direction, Durability, Mutation, Reply, Request, RequestId, Scan, SnapshotId, Status,
};
use kvsim_simdisk::Nanos;
use std::ops::Bound;
use std::sync::Arc;

impl Oracle {
    /// A request reaches the guest. Call in the order of arrival, which is the commit order. Gives its operation number.
    pub fn handed_in(&mut self, now: Nanos, client: u32, id: RequestId, request: &Request) -> u64 {
        if let Some(deferred) = &mut self.deferred {
            deferred.hand_in(now, client, id, request);
            return self.ops + deferred.handed_in;
        }
        self.ops += 1;
        let op = self.ops;
        let origin = Origin {
            op,
            client,
            handed_in_ns: now,
            acknowledged_ns: None,
            crashes: self.crashes,
        };
        let asked = Asked::of(request);
        let shape = self.shape_of(request);
        if let Shape::IllFormed(_) = shape {
            self.push_ill_formed(origin, request);
            let kind = Kind::IllFormed;
            let outstanding = Outstanding {
                op,
                asked,
                shape,
                faults_before: self.faults_seen,
                room: Room::More,
                kind,
            };
            self.outstanding.insert(id, outstanding);
            return op;
        }
        let last = self.history.last_pos();
        self.largest_entry_bytes = self.largest_entry_bytes.max(largest_entry(request));
        let kind = match request {
            Request::Put {
                key,
                value,
                durability,
            } => Kind::Write(self.history.push(
                origin,
                *durability,
                std::iter::once((&key[..], Content::of(value))),
            )),
            Request::Delete { key, durability } => Kind::Write(self.history.push(
                origin,
                *durability,
                std::iter::once((&key[..], Content::ABSENT)),
            )),
            Request::Batch {
                mutations,
                durability,
            } => {
                let contents = mutations.iter().map(|mutation| match mutation {
                    Mutation::Put { key, value } => (&key[..], Content::of(value)),
                    Mutation::Delete { key } => (&key[..], Content::ABSENT),
                });
                Kind::Write(self.history.push(origin, *durability, contents))
            }
            Request::Get { key, .. } if self.config.limits.is_no_key(key) => {
                Kind::GetOfNoKey(key.clone())
            }
            Request::Get { key, snapshot } => Kind::Get(
                self.history.intern(key),
                *snapshot,
                self.place_of(*snapshot),
            ),
            Request::Scan(scan) => Kind::Scan(scan.clone(), self.place_of(scan.snapshot)),
            Request::Snapshot => Kind::Snapshot(self.place_now(op)),
            Request::Release { snapshot } => Kind::Release(*snapshot),
            Request::Sync | Request::Close => Kind::Sync(last),
        };
        let room = match kind {
            Kind::Write(pos) => self.note_space(pos, request),
            _ => Room::More,
        };
        if asked == Asked::Close {
            self.closing.get_or_insert(op);
        }
        let outstanding = Outstanding {
            op,
            asked,
            shape,
            faults_before: self.faults_seen,
            room,
            kind,
        };
        self.outstanding.insert(id, outstanding);
        op
    }

    fn place_of(&self, snapshot: SnapshotId) -> Option<Place> {
        match snapshot {
            0 => Some(self.place_now(self.ops)),
            id => self.snapshots.get(&id).map(|snapshot| snapshot.place),
        }
    }

    /// The guest answers a request.
    ///
    /// # Errors
    /// The violation that the answer is or reveals.
    pub fn replied(
        &mut self,
        now: Nanos,
        reply: &Reply,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        if let Some(deferred) = &mut self.deferred {
            deferred.reply(now, reply, truth);
            return Ok(());
        }
        self.faults_seen = truth.this_run;
        let Some(outstanding) = self.outstanding.remove(&reply.id) else {
            return Err(self.wrong_reply(reply, "a request that waits for no answer"));
        };
        self.judge_refusal(reply, &outstanding, truth)?;
        let Outstanding {
            op,
            asked,
            shape,
            kind,
            ..
        } = outstanding;
        match kind {
            Kind::Write(pos) => self.write_replied(now, pos, op, reply, truth),
            Kind::Sync(pos) => {
                if reply.status == Status::Ok {
                    self.syncs.push((pos, now, op));
                    self.note_durable(pos);
                }
                Ok(())
            }
            Kind::IllFormed => self.ill_formed_replied(op, asked, shape, reply),
            Kind::Get(..) | Kind::Scan(..)
                if shape == Shape::Open && reply.status == Status::Invalid =>
            {
                Ok(())
            }
            Kind::GetOfNoKey(key) => self.no_key_replied(op, &key, reply, truth),
            Kind::Get(key, snapshot, place) => {
                self.get_replied(op, key, snapshot, place, reply, truth)
            }
            Kind::Scan(scan, place) => self.scan_replied(op, &scan, place, reply, truth),
            Kind::Snapshot(place) => {
                match (reply.status, &reply.body) {
                    (Status::Ok, Body::Snapshot(id)) if *id != 0 => {
                        if !self.snapshot_ids.insert(*id) {
                            return Err(self.snapshot_again(op, *id));
                        }
                        let until = self.ops;
                        self.snapshots
                            .insert(*id, Snapshot::new(Place { until, ..place }));
                    }
                    (Status::Ok, _) => {
                        return Err(self.wrong_reply(reply, &format!("the snapshot of op {op}")));
                    }
                    _ => {}
                }
                Ok(())
            }
            Kind::Release(snapshot) => {
                if reply.status == Status::Ok {
                    self.snapshots.remove(&snapshot);
                }
                Ok(())
            }
        }
    }

    /// Takes in how a write ended, and judges nothing.
    pub(crate) fn take_write(&mut self, now: Nanos, reply: &Reply, truth: &DeviceTruth) {
        let outstanding = self.outstanding.remove(&reply.id);
        if let Some(Kind::Write(pos)) = outstanding.map(|outstanding| outstanding.kind) {
            let flushed = truth.last_flush_completed_ns;
            self.history
                .resolve(pos, now, reply.status, flushed, self.ops);
        }
    }

    fn write_replied(
        &mut self,
        now: Nanos,
        pos: Pos,
        op: u64,
        reply: &Reply,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        if reply.status == Status::NotFound {
            return Err(self.wrong_reply(reply, &format!("the write of op {op}")));
        }
        self.history.resolve(
            pos,
            now,
            reply.status,
            truth.last_flush_completed_ns,
            self.ops,
        );
        let Some(write) = self.history.write(pos) else {
            return Ok(());
        };
        let Counts {
            acknowledged_durable,
            acknowledged_relaxed,
            failed,
            uncertain,
            ..
        } = &mut self.counts;
        let (status, durability) = (write.status, write.durability);
        match (status, durability) {
            (WriteStatus::Failed, _) => *failed += 1,
            (WriteStatus::Uncertain, _) => *uncertain += 1,
            (_, Durability::Durable) => *acknowledged_durable += 1,
            (_, Durability::Relaxed) => *acknowledged_relaxed += 1,
        }
        match (status, durability) {
            (WriteStatus::Failed, _) => {
                Arc::make_mut(&mut self.space).refused(pos, self.history.keys_of(pos));
            }
            (WriteStatus::Durable, _) => self.note_durable(pos),
            _ => {}
        }
        self.judge_provisional(pos)
    }

    fn judge_provisional(&mut self, pos: Pos) -> Result<(), Box<Violation>> {
        if self.provisional.is_empty() {
            return Ok(());
        }
        let keys = self.history.keys_of(pos);
        let (concerned, rest) = std::mem::take(&mut self.provisional)
            .into_iter()
            .partition(|read| keys.contains(&read.key));
        self.provisional = rest;
        let concerned: Vec<Provisional> = concerned;
        for read in concerned {
            match self.read_verdict(&read) {
                ReadVerdict::Right => {}
                ReadVerdict::Provisional => self.provisional.push(read),
                ReadVerdict::Wrong => return Err(self.wrong_read(&read, "the read")),
            }
        }
        Ok(())
    }

    fn get_replied(
        &mut self,
        op: u64,
        key: KeyId,
        snapshot: SnapshotId,
        place: Option<Place>,
        reply: &Reply,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        let found = match (reply.status, &reply.body) {
            (Status::Ok, Body::Value(value)) => Some(&value[..]),
            (Status::NotFound, _) => None,
            (Status::Ok, _) => return Err(self.wrong_reply(reply, &format!("the get of op {op}"))),
            (Status::Invalid, _) => return self.refused_read(op, place),
            _ => return Ok(()),
        };
        let Some(place) = place else { return Ok(()) };
        self.counts.reads_judged += 1;
        let content = self.judge_read(op, key, place, found, "the get", truth)?;
        self.take_shown(op, snapshot, place, &[(key, content)], "the get")
    }

    /// A get of a key that no guest takes: nothing can be there, and to refuse the key is right too.
    fn no_key_replied(
        &mut self,
        op: u64,
        key: &[u8],
        reply: &Reply,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        match (reply.status, &reply.body) {
            (Status::Ok, Body::Value(value)) => {
                let strange = Strange::new(key, true, value);
                Err(self.strange_read(op, &strange, "the get", truth))
            }
            (Status::Ok, _) => Err(self.wrong_reply(reply, &format!("the get of op {op}"))),
            _ => {
                self.counts.reads_judged += 1;
                Ok(())
            }
        }
    }

    fn scan_replied(
        &mut self,
        op: u64,
        scan: &Scan,
        place: Option<Place>,
        reply: &Reply,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        let (entries, more) = match (reply.status, &reply.body) {
            (Status::Ok, Body::Entries { entries, more }) => (entries, *more),
            (Status::Ok | Status::NotFound, _) => {
                return Err(self.wrong_reply(reply, &format!("the scan of op {op}")));
            }
            (Status::Invalid, _) => return self.refused_read(op, place),
            _ => return Ok(()),
        };
        let wrong_end = || match place {
            Some(place) if more => self.wrong_end(scan, place, entries),
            _ => None,
        };
        if let Some(wrong) = malformed(scan, entries, more).or_else(wrong_end) {
            let facts = Facts {
                read_op: Some(op),
                ..self.facts()
            };
            let sentence = format!("the scan of op {op} {wrong}");
            return Err(Violation::new(
                Property::ReadsAgree,
                Symptom::MalformedScan,
                sentence,
                facts,
            ));
        }
        let Some(place) = place else { return Ok(()) };
        self.counts.reads_judged += 1;
        let last = entries.last().map(|(key, _)| &key[..]).filter(|_| more);
        let low = scan
            .start
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included);
        let high = scan
            .end
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let known: Vec<(Vec<u8>, KeyId)> = match scan.direction {
            Direction::Forward => owned(
                self.history
                    .keys
                    .range(low, last.map_or(high, Bound::Included)),
            ),
            Direction::Reverse => owned(
                self.history
                    .keys
                    .range(last.map_or(low, Bound::Included), high)
                    .rev(),
            ),
        };
        let reverse = scan.direction == Direction::Reverse;
        let mut known = known.into_iter().peekable();
        let mut page = Vec::with_capacity(entries.len());
        let what = "the scan";
        for (key, value) in entries {
            while let Some((_, id)) =
                known.next_if(|(name, _)| if reverse { name > key } else { name < key })
            {
                page.push((id, self.judge_read(op, id, place, None, what, truth)?));
            }
            match known.next_if(|(name, _)| name == key) {
                Some((_, id)) => {
                    let content = self.judge_read(op, id, place, Some(value), what, truth)?;
                    page.push((id, content));
                }
                None => {
                    let strange = Strange::new(key, true, value);
                    return Err(self.strange_read(op, &strange, what, truth));
                }
            }
        }
        for (_, id) in known {
            page.push((id, self.judge_read(op, id, place, None, what, truth)?));
        }
        self.take_shown(op, scan.snapshot, place, &page, what)
    }

    fn judge_read(
        &mut self,
        op: u64,
        key: KeyId,
        place: Place,
        found: Option<&[u8]>,
        what: &str,
        truth: &DeviceTruth,
    ) -> Result<Content, Box<Violation>> {
        let place = Place {
            until: place.until.min(self.ops),
            ..place
        };
        let read = Provisional {
            op,
            key,
            place,
            content: found.map_or(Content::ABSENT, Content::of),
        };
        match self.read_verdict(&read) {
            ReadVerdict::Right => return Ok(read.content),
            ReadVerdict::Provisional => {
                let content = read.content;
                self.provisional.push(read);
                return Ok(content);
            }
            ReadVerdict::Wrong => {}
        }
        let state = self.history.state(key);
        if let Some(found) =
            found.filter(|_| !state.knows(read.content) && state.retired(read.content).is_none())
        {
            let strange = Strange::new(self.history.keys.name(key), false, found);
            return Err(self.strange_read(op, &strange, what, truth));
        }
        let mut violation = self.wrong_read(&read, what);
        if truth.damage() > 0 {
            violation.property = Property::DamageReported;
        }
        Err(violation)
    }

    /// A read that shows something that was once written, but is not the state at its place.
    pub(crate) fn wrong_read(&self, read: &Provisional, what: &str) -> Box<Violation> {
        let state = self.history.state(read.key);
        let expected = state.certain_at(read.place.pos);
        let newest = self.history.origin_of(read.key, expected);
        let untouched = state
            .versions()
            .last()
            .is_none_or(|version| version.pos <= self.history.base_pos);
        let dead = state
            .retired(read.content)
            .filter(|_| !state.knows(read.content));
        let surprise = self.crashes > 0
            && untouched
            && !self
                .verified
                .get(read.key as usize)
                .copied()
                .unwrap_or(false);
        // A key that no recovery has read yet: what is wrong with it is wrong since the crash.
        let (property, symptom) = match dead {
            Some(retired) => (Property::NoResurrection, symptom_of(retired.fate)),
            None if surprise && read.content.is_absent() => {
                (Property::AcknowledgedDurable, Symptom::LostWrite)
            }
            _ => (Property::ReadsAgree, Symptom::WrongRead),
        };
        let facts = Facts {
            expected: Some(self.describe(read.key, expected)),
            found: Some(self.describe(read.key, read.content)),
            read_op: Some(read.op),
            ..self.facts_of(read.key, newest)
        };
        let why = match newest {
            Some(origin) if expected.is_absent() => {
                format!("it was deleted before ({})", acknowledged(&origin))
            }
            Some(origin) => format!("its last write before was {}", acknowledged(&origin)),
            None => "nothing was written to it before".to_owned(),
        };
        let key = self.key_name(read.key);
        let shown = self.describe(read.key, read.content);
        let sentence = format!(
            "{what} of op {} shows {shown} for key {key} where {} is due: {why}",
            read.op,
            self.describe(read.key, expected)
        );
        Violation::new(property, symptom, sentence, facts)
    }

    /// A read that shows bytes never written to the key.
    fn strange_read(
        &self,
        op: u64,
        strange: &Strange,
        what: &str,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        let (property, symptom) = strange_as(strange, truth, Property::ReadsAgree);
        let key = printable(&strange.key);
        let found = self.describe_strange(strange);
        let sentence = if strange.unknown_key {
            format!("{what} of op {op} shows key {key}, which no client ever wrote, with {found}")
        } else {
            format!("{what} of op {op} shows, for key {key}, {found}")
        };
        let facts = Facts {
            key: Some(key),
            found: Some(found),
            read_op: Some(op),
            ..self.facts()
        };
        Violation::new(property, symptom, sentence, facts)
    }

    /// A read refused as invalid is one only if its snapshot should be there.
    fn refused_read(&self, op: u64, place: Option<Place>) -> Result<(), Box<Violation>> {
        if place.is_none() {
            return Ok(());
        }
        let facts = Facts {
            read_op: Some(op),
            ..self.facts()
        };
        let sentence = format!(
            "the read of op {op} is refused as invalid, although its snapshot was never released"
        );
        Err(Violation::new(
            Property::ReadsAgree,
            Symptom::SnapshotGone,
            sentence,
            facts,
        ))
    }

    pub(crate) fn wrong_reply(&self, reply: &Reply, what: &str) -> Box<Violation> {
        let sentence = format!("the guest answers {what} with {}", answer(reply));
        Violation::new(
            Property::GuestBehaves,
            Symptom::WrongReply,
            sentence,
            self.facts(),
        )
    }
}

/// Bytes of the longest key and value of a request.
fn largest_entry(request: &Request) -> usize {
    match request {
        Request::Put { key, value, .. } => key.len() + value.len(),
        Request::Batch { mutations, .. } => {
            let bytes = mutations.iter().map(|mutation| match mutation {
                Mutation::Put { key, value } => key.len() + value.len(),
                Mutation::Delete { .. } => 0,
            });
            bytes.max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn owned<'a>(keys: impl Iterator<Item = (&'a [u8], KeyId)>) -> Vec<(Vec<u8>, KeyId)> {
    keys.map(|(name, id)| (name.to_vec(), id)).collect()
}

impl Strange {
    /// Whether its bytes are not those of any write.
    pub(crate) fn is_damaged(&self) -> bool {
        matches!(self.reading, Reading::Damaged(_) | Reading::Foreign)
    }
}
