//! The engine: one request after the other, and one flush for each commit.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Waker};

use super::flaw::Flaw;
use super::manner::{Manner, Manners};
use super::port::{DiskError, Port, Status};
use super::record::{Body, HEADER_BYTES, Kind, entry_bytes, padded};
use super::recovery::{Area, Log, Map, Refusal, apply, recover};
use super::request::{Mutation, Opening, Request, Scan};

/// A piece of the image that a log begins with is written once it has so many bytes.
const IMAGE_BYTES: u64 = 64 << 10;
/// Blocks of each half that only switches, openings and deletes may take, so that a full device can be emptied.
const RESERVED_BLOCKS: u64 = 8;
/// Writes under one flush, for the defect that has more than one.
const GROUP_MAX: usize = 8;
const KEY_BYTES_MAX: usize = 1024;

/// The engine as the host sees it: it runs until it waits for something.
pub(crate) struct Naive(Pin<Box<dyn Future<Output = ()>>>);

impl Naive {
    /// An engine that will open and then serve what comes in at the port.
    pub(crate) fn new(opening: Opening, port: &Port) -> Naive {
        Naive(Box::pin(serve(opening, port.clone())))
    }

    /// Goes on as far as it can. Call after every request and completion.
    pub(crate) fn run(&mut self) {
        let waiting = self
            .0
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(waiting.is_pending(), "the engine serves for ever");
    }
}

async fn serve(opening: Opening, port: Port) {
    match Engine::open(opening, &port).await {
        Ok(mut engine) => {
            port.reply(0, Status::Ok, Vec::new());
            engine.work().await;
        }
        Err((status, message)) => port.reply(0, status, message.into_bytes()),
    }
    loop {
        let (id, _) = port.next_request().await;
        port.reply(id, Status::Closed, Vec::new());
    }
}

struct Engine {
    port: Port,
    area: Area,
    flaw: Option<Flaw>,
    manners: Manners,
    log: Log,
    map: Map,
    /// What the entries of the map take up in a body.
    live_bytes: u64,
    snapshots: BTreeMap<u64, Map>,
    next_snapshot: u64,
    /// The map with a write that failed; for the defect that shows it now and then.
    doubtful: Option<Map>,
    /// Reads so far.
    reads: u64,
    /// Keys of writes that no flush covers yet, or that are not even written: for the manners that have such.
    unflushed: BTreeSet<Vec<u8>>,
    /// Writes that are acknowledged and not written.
    unwritten: Vec<Vec<Mutation>>,
    /// What the opening found may be in the device's cache.
    found_unflushed: bool,
    /// Writes in the log that are not acknowledged.
    waiting: Vec<u64>,
    /// The device failed: what is on it is known only after the next opening.
    read_only: bool,
    /// Nothing was written since the recovery.
    is_fresh: bool,
}

impl Engine {
    async fn open(opening: Opening, port: &Port) -> Result<Engine, (Status, String)> {
        let Opening {
            abi_version,
            block_bytes,
            capacity_bytes,
            options,
        } = opening;
        if abi_version != 1 {
            return Err((
                Status::Invalid,
                format!("ABI version {abi_version} instead of 1"),
            ));
        }
        let mut flaw = None;
        let mut manners = Manners::default();
        for (name, value) in options {
            if name == "manner" {
                let names = Manner::ALL.map(|(name, _)| name).join(", ");
                let unknown = |name| format!("no manner `{name}`; there are {names}");
                manners =
                    Manners::from_names(&value).map_err(|name| (Status::Invalid, unknown(name)))?;
                continue;
            }
            if name != "break" {
                return Err((
                    Status::Invalid,
                    format!("no option `{name}`; there are `break` and `manner`"),
                ));
            }
            let unknown = || {
                format!(
                    "no defect `{value}`; there are {}",
                    Flaw::ALL.map(|(name, _)| name).join(", ")
                )
            };
            flaw = Some(Flaw::from_name(&value).ok_or_else(|| (Status::Invalid, unknown()))?);
        }
        let half_bytes = capacity_bytes / 2 / block_bytes * block_bytes;
        if half_bytes < 2 * RESERVED_BLOCKS * block_bytes {
            return Err((
                Status::Invalid,
                format!("a device of {capacity_bytes} bytes is too small"),
            ));
        }
        let area = Area {
            block_bytes,
            half_bytes,
        };
        match Engine::recovered(port, area, flaw, manners).await {
            Ok(engine) => Ok(engine),
            Err(Refusal::Io) => Err((
                Status::IoError,
                "the device failed during recovery".to_owned(),
            )),
            Err(Refusal::Invalid) => Err((Status::Invalid, "no such option".to_owned())),
            Err(Refusal::Damage(what)) => Err((Status::Corruption, what)),
        }
    }

    async fn recovered(
        port: &Port,
        area: Area,
        flaw: Option<Flaw>,
        manners: Manners,
    ) -> Result<Engine, Refusal> {
        let leaves_holes = manners.leave_holes();
        let recovered = recover(port, &area, flaw, leaves_holes).await?;
        let is_new = recovered.is_none();
        let (log, map, last) = match recovered {
            Some(recovered) => (recovered.log, recovered.map, recovered.last),
            None => (Log::begin(&area, 1), Map::new(), None),
        };
        let mut engine = Engine {
            port: port.clone(),
            area,
            flaw,
            manners,
            log,
            live_bytes: map.iter().map(|(key, value)| entry_bytes(key, value)).sum(),
            map,
            snapshots: BTreeMap::new(),
            next_snapshot: 1,
            doubtful: None,
            reads: 0,
            unflushed: BTreeSet::new(),
            unwritten: Vec::new(),
            found_unflushed: false,
            waiting: Vec::new(),
            read_only: false,
            is_fresh: !is_new,
        };
        if flaw == Some(Flaw::RefusesReopening) && !is_new {
            return Err(Refusal::Invalid);
        }
        if engine.manners.has(Manner::LazyRecovery) && !is_new {
            engine.found_unflushed = true;
            return Ok(engine);
        }
        // What was found may still be in the cache of a machine that was not switched off.
        engine.port.flush().await?;
        match last {
            _ if is_new => engine.append(Kind::Switch, &Body::default()).await?,
            // Records behind a missing one must not come back.
            _ if leaves_holes => engine.compact().await?,
            Some((place, mutations)) if flaw == Some(Flaw::RecoveryIdempotent) => {
                engine.log.end = place;
                engine.log.sequence -= 1;
                engine.append(Kind::Commit, &Body::default()).await?;
                engine.port.flush().await?;
                engine.append(Kind::Commit, &Body::of(&mutations)).await?;
            }
            // An empty record seals what was found: should its last commit be damaged later, it is not taken for a torn one.
            _ => engine.append(Kind::Commit, &Body::default()).await?,
        }
        engine.port.flush().await?;
        Ok(engine)
    }

    async fn work(&mut self) {
        loop {
            let (id, request) = match self.manners.has(Manner::CommittedReads) {
                true => self.port.next_read_or_request().await,
                false => self.port.next_request().await,
            };
            self.reads += u64::from(matches!(request, Request::Get { .. } | Request::Scan(_)));
            let (status, body) = match request {
                Request::Write(mutations) | Request::Relaxed(mutations)
                    if self.manners.has(Manner::AnyOrder) =>
                {
                    self.write_in_reverse(id, mutations).await;
                    continue;
                }
                Request::Relaxed(mutations) if self.manners.leave_holes() => {
                    self.write_relaxed(id, mutations).await;
                    continue;
                }
                Request::Write(mutations) | Request::Relaxed(mutations) => {
                    self.write(id, &mutations).await;
                    continue;
                }
                Request::Get { .. } if self.flaw == Some(Flaw::RefusesReads) => {
                    (Status::ReadOnly, Vec::new())
                }
                Request::Get { snapshot, key } => {
                    match self.state(snapshot).map(|map| map.get(&key)) {
                        Some(Some(_)) if self.flaw == Some(Flaw::GetMisses) && is_missed(&key) => {
                            (Status::NotFound, Vec::new())
                        }
                        Some(Some(value)) => (Status::Ok, value.to_vec()),
                        Some(None) => (Status::NotFound, Vec::new()),
                        None => no_snapshot(snapshot),
                    }
                }
                Request::Scan(scan) => match self.state(scan.snapshot) {
                    Some(map) => (Status::Ok, entries(map, &scan, self.flaw)),
                    None => no_snapshot(scan.snapshot),
                },
                Request::Snapshot => {
                    let id = match self.flaw {
                        Some(Flaw::SnapshotReused) => self.snapshots.len() as u64 + 1,
                        _ => self.next_snapshot,
                    };
                    self.next_snapshot += 1;
                    self.snapshots.insert(id, self.map.clone());
                    (Status::Ok, id.to_le_bytes().to_vec())
                }
                Request::Release { snapshot } => match self.snapshots.remove(&snapshot) {
                    Some(_) => (Status::Ok, Vec::new()),
                    None => no_snapshot(snapshot),
                },
                // Whatever was acknowledged is durable already, but for some manners.
                Request::Sync => (self.flush_all().await, Vec::new()),
                Request::Close => {
                    let status = self.flush_all().await;
                    return self.port.reply(id, status, Vec::new());
                }
                Request::Malformed => (Status::Invalid, b"a malformed request".to_vec()),
            };
            self.port.reply(id, status, body);
        }
    }

    /// The state that a read sees.
    fn state(&self, snapshot: u64) -> Option<&Map> {
        match snapshot {
            0 if self.reads.is_multiple_of(2) => self.doubtful.as_ref().or(Some(&self.map)),
            0 => Some(&self.map),
            _ if self.flaw == Some(Flaw::ReadsAgree) => Some(&self.map),
            _ => self.snapshots.get(&snapshot),
        }
    }

    /// Writes what waits, the last one first.
    async fn write_in_reverse(&mut self, id: u64, mutations: Vec<Mutation>) {
        let mut all = vec![(id, mutations)];
        while self.port.write_is_next() {
            if let (id, Request::Write(mutations) | Request::Relaxed(mutations)) =
                self.port.next_request().await
            {
                all.push((id, mutations));
            }
        }
        for (id, mutations) in all.into_iter().rev() {
            self.write(id, &mutations).await;
        }
    }

    /// Acknowledges a write that no flush covers.
    async fn write_relaxed(&mut self, id: u64, mutations: Vec<Mutation>) {
        if let Some((status, message)) = self.refusal(&mutations) {
            return self.port.reply(id, status, message.into());
        }
        self.unflushed
            .extend(mutations.iter().map(|mutation| mutation.key.clone()));
        if self.manners.has(Manner::RelaxedInMemory) {
            self.take_in(&mutations);
            self.unwritten.push(mutations);
        } else if self.commit(&mutations).await.is_err() {
            self.read_only = true;
            return self.port.reply(id, Status::IoError, Vec::new());
        }
        self.port.reply(id, Status::Ok, Vec::new());
    }

    /// Whether a write changes nothing, and what made its keys absent is durable.
    fn is_empty(&self, mutations: &[Mutation]) -> bool {
        mutations.iter().all(|Mutation { key, value }| {
            value.is_none() && !self.map.contains_key(key) && !self.unflushed.contains(key)
        })
    }

    /// Writes what is acknowledged and not written.
    async fn write_out(&mut self) -> Result<(), DiskError> {
        for mutations in std::mem::take(&mut self.unwritten) {
            self.append(Kind::Commit, &Body::of(&mutations)).await?;
        }
        Ok(())
    }

    /// Makes everything durable that is not.
    async fn flush_all(&mut self) -> Status {
        let is_open = self.found_unflushed || !self.unflushed.is_empty();
        if is_open && !self.read_only {
            let written = self.write_out().await;
            self.read_only = written.is_err() || self.port.flush().await.is_err();
            self.unflushed.clear();
            self.found_unflushed = false;
        }
        if is_open && self.read_only {
            return Status::IoError;
        }
        Status::Ok
    }

    async fn write(&mut self, id: u64, mutations: &[Mutation]) {
        let is_fresh = std::mem::take(&mut self.is_fresh);
        if self.manners.has(Manner::EmptyAtOnce) && self.is_empty(mutations) && !self.read_only {
            return self.port.reply(id, Status::Ok, Vec::new());
        }
        match self.refusal(mutations) {
            _ if self.flaw == Some(Flaw::IoErrorAfterRecovery) && is_fresh => {
                self.port.reply(id, Status::IoError, Vec::new());
            }
            Some((Status::Invalid, _)) if self.flaw == Some(Flaw::TakesIllFormed) => {
                self.port.reply(id, Status::Ok, Vec::new());
            }
            Some((Status::Invalid, message)) if self.flaw == Some(Flaw::HalfABadBatch) => {
                let good = mutations.iter().filter(|mutation| !mutation.key.is_empty());
                let good: Vec<Mutation> = good.cloned().collect();
                self.read_only |= self.commit(&good).await.is_err();
                self.port.reply(id, Status::Invalid, message.into());
            }
            Some((status, message)) => self.port.reply(id, status, message.into()),
            None => {
                self.waiting.push(id);
                if self.write_out().await.is_err() || self.commit(mutations).await.is_err() {
                    self.read_only = true;
                    self.fail_wrongly(mutations);
                }
            }
        }
        let goes_on = self.port.write_is_next() && self.waiting.len() < GROUP_MAX;
        if !(self.flaw == Some(Flaw::Prefix) && goes_on) {
            self.acknowledge().await;
        }
    }

    async fn commit(&mut self, mutations: &[Mutation]) -> Result<(), DiskError> {
        if self.flaw == Some(Flaw::AtomicWrites) {
            for mutation in mutations {
                self.append(Kind::Commit, &Body::of(std::slice::from_ref(mutation)))
                    .await?;
                self.port.flush().await?;
            }
        } else {
            self.append(Kind::Commit, &Body::of(mutations)).await?;
        }
        self.take_in(mutations);
        Ok(())
    }

    /// Applies a write to the state in memory.
    fn take_in(&mut self, mutations: &[Mutation]) {
        for mutation in mutations {
            self.live_bytes = self.live_bytes_after(std::slice::from_ref(mutation));
            apply(&mut self.map, std::slice::from_ref(mutation));
        }
    }

    /// What the defects do with a write that failed.
    fn fail_wrongly(&mut self, mutations: &[Mutation]) {
        match self.flaw {
            Some(Flaw::Flicker) => {
                let mut map = self.map.clone();
                apply(&mut map, mutations);
                self.doubtful = Some(map);
            }
            Some(Flaw::HalfBatch) => self.take_in(&mutations[..mutations.len() / 2]),
            _ => {}
        }
    }

    /// Makes what waits durable, and says so.
    async fn acknowledge(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if !self.read_only && self.flaw != Some(Flaw::AcknowledgedDurable) {
            self.read_only = self.port.flush().await.is_err();
            self.unflushed.clear();
        }
        let status = if self.read_only {
            Status::IoError
        } else {
            Status::Ok
        };
        for id in self.waiting.drain(..) {
            self.port.reply(id, status, Vec::new());
        }
    }

    /// Why a write cannot be; nothing of it is written then.
    fn refusal(&self, mutations: &[Mutation]) -> Option<(Status, &'static str)> {
        if let Some(status) = self.flaw.and_then(Flaw::refuses_writes) {
            return Some((status, "a defect"));
        }
        if self.read_only {
            return Some((Status::ReadOnly, "the device failed; open anew"));
        }
        if mutations
            .iter()
            .any(|mutation| mutation.key.is_empty() || mutation.key.len() > KEY_BYTES_MAX)
        {
            return Some((Status::Invalid, "a key has 1 to 1024 bytes"));
        }
        (!self.has_room(mutations)).then_some((Status::NoSpace, "the log is full of live data"))
    }

    /// Whether a record of these mutations fits, perhaps after a compaction, and the state that it leaves can be compacted.
    fn has_room(&self, mutations: &[Mutation]) -> bool {
        let block_bytes = self.area.block_bytes;
        let record_bytes = padded(Body::of(mutations).bytes.len(), block_bytes);
        let only_deletes = mutations.iter().all(|mutation| mutation.value.is_none());
        let reserved_bytes = if only_deletes {
            block_bytes
        } else {
            RESERVED_BLOCKS * block_bytes
        };
        let room_bytes = self.area.half_bytes - reserved_bytes;
        let fits_here =
            self.log.end + record_bytes + reserved_bytes <= self.area.half(self.log.generation).end;
        let fits_compacted = self.image_bytes_max(self.live_bytes) + record_bytes <= room_bytes;
        let leaves_room = self.image_bytes_max(self.live_bytes_after(mutations)) <= room_bytes;
        (fits_here || fits_compacted) && (only_deletes || leaves_room)
    }

    /// At most so many bytes live after these mutations.
    fn live_bytes_after(&self, mutations: &[Mutation]) -> u64 {
        let keys: BTreeSet<&[u8]> = mutations.iter().map(|mutation| &mutation.key[..]).collect();
        let new = mutations
            .iter()
            .filter_map(|Mutation { key, value }| Some(entry_bytes(key, value.as_ref()?)));
        let old = keys
            .into_iter()
            .filter_map(|key| Some(entry_bytes(key, self.map.get(key)?)));
        let freed = match self.flaw {
            Some(Flaw::SpaceReturns) => 0,
            _ => old.sum::<u64>(),
        };
        self.live_bytes + new.sum::<u64>() - freed
    }

    /// No image of so many bytes takes more.
    fn image_bytes_max(&self, live_bytes: u64) -> u64 {
        live_bytes + (live_bytes / IMAGE_BYTES + 1) * (HEADER_BYTES as u64 + self.area.block_bytes)
    }

    /// Writes a record behind the others; into a new log if there is no room.
    async fn append(&mut self, kind: Kind, body: &Body) -> Result<(), DiskError> {
        if std::mem::take(&mut self.found_unflushed) {
            self.port.flush().await?;
        }
        let end = self.log.end + padded(body.bytes.len(), self.area.block_bytes);
        if end > self.area.half(self.log.generation).end {
            self.compact().await?;
        }
        self.log.append(&self.port, &self.area, kind, body).await
    }

    /// Begins a new log in the other half: all that is live, a flush, the switch, a flush.
    async fn compact(&mut self) -> Result<(), DiskError> {
        let (port, area) = (&self.port, &self.area);
        let mut log = Log::begin(area, self.log.generation + 1);
        let mut body = Body::default();
        for (key, value) in &self.map {
            body.push(key, Some(value));
            if body.bytes.len() as u64 >= IMAGE_BYTES {
                log.append(port, area, Kind::Image, &std::mem::take(&mut body))
                    .await?;
            }
        }
        if !body.bytes.is_empty() {
            log.append(port, area, Kind::Image, &body).await?;
        }
        port.flush().await?;
        log.append(port, area, Kind::Switch, &Body::default())
            .await?;
        port.flush().await?;
        self.log = log;
        Ok(())
    }
}

fn no_snapshot(snapshot: u64) -> (Status, Vec<u8>) {
    (
        Status::Invalid,
        format!("no snapshot {snapshot}").into_bytes(),
    )
}

/// Whether the defects miss this key.
fn is_missed(key: &[u8]) -> bool {
    key.last().is_some_and(|last| last.is_multiple_of(8))
}

/// The body of a scan's reply.
fn entries(map: &Map, scan: &Scan, flaw: Option<Flaw>) -> Vec<u8> {
    let low = scan
        .start
        .as_ref()
        .map_or(Bound::Unbounded, Bound::Included);
    let high = scan.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let is_empty = matches!((&scan.start, &scan.end), (Some(start), Some(end)) if start >= end);
    let range = (!is_empty)
        .then(|| map.range::<Vec<u8>, _>((low, high)))
        .into_iter()
        .flatten()
        .filter(|(key, _)| !(flaw == Some(Flaw::ScanMisses) && is_missed(key)));
    if scan.reverse {
        encode_entries(range.rev(), scan, flaw)
    } else {
        encode_entries(range, scan, flaw)
    }
}

fn encode_entries<'a>(
    range: impl Iterator<Item = (&'a Vec<u8>, &'a std::rc::Rc<[u8]>)>,
    scan: &Scan,
    flaw: Option<Flaw>,
) -> Vec<u8> {
    let limit = match flaw {
        Some(Flaw::ScanShort) => scan.limit.div_ceil(2),
        _ => scan.limit,
    };
    let max_bytes = match flaw {
        Some(Flaw::ScanBytes) => usize::MAX,
        _ => scan.max_bytes,
    };
    let (mut body, mut count, mut bytes) = (vec![0; 8], 0_u32, 0);
    for (key, value) in range {
        bytes += key.len() + value.len();
        if count > 0 && (count as usize >= limit || bytes > max_bytes) {
            body[4] = 1;
            break;
        }
        count += 1;
        body.extend_from_slice(&(key.len() as u32).to_le_bytes());
        body.extend_from_slice(&(value.len() as u32).to_le_bytes());
        body.extend_from_slice(key);
        body.extend_from_slice(value);
    }
    body[..4].copy_from_slice(&count.to_le_bytes());
    match flaw {
        Some(Flaw::MoreAlways) => body[4] = u8::from(count > 0),
        Some(Flaw::MoreNever) => body[4] = 0,
        _ => {}
    }
    body
}
