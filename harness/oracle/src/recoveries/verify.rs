//! Reading back after a recovery: which requests to make, and what their answers say.
//!
//! The runner pumps: it takes requests from [`Verification::next_request`] while there are any, hands each answer to
//! [`Verification::reply`], and when [`Verification::is_done`] takes the [`Observation`]. Nothing else may write meanwhile.
//!
//! A small key space is read whole: a forward scan in pages, every so often the same in reverse, and a few keys one by one.
//! Of a large one, every key written since the last recovery is read, and a window that moves on with every recovery.
//! A key that a scan has not found is read by a get too, and of a large key space one that a get has not found by a scan.

use super::observation::{Observation, Problem, Report, Seen, Strange};
use crate::config::CheckConfig;
use crate::keys::{Content, KeyId, successor};
use crate::oracle::Oracle;
use kvsim_api::key::printable;
use kvsim_sim::api::{Body, Direction, Reply, Request, Scan, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// Names a request of one verification.
pub type Token = u32;

/// A read that met a device error is tried again so often.
const RETRIES: u32 = 2;

/// So many keys that a scan has not found are read one by one.
const MISSING_GETS: usize = 32;

/// So many requests are unanswered at most: what a guest keeps for each must fit its memory, however many keys there are.
const IN_FLIGHT_MAX: usize = 64;

/// One reading back, from the first request to the [`Observation`].
#[derive(Debug, Clone)]
pub struct Verification {
    page_entries: u32,
    page_bytes: u32,
    /// All keys are scanned, and not only a window.
    whole: bool,
    /// How many keys a window has.
    window_keys: usize,
    /// The window's first key; `None` for the whole key space and for a window that begins with it.
    window_start: Option<Vec<u8>>,
    /// The scan that comes next or is in flight, then the one after it.
    scans: VecDeque<ScanTask>,
    scan_in_flight: bool,
    gets: VecDeque<(KeyId, u32)>,
    in_flight: BTreeMap<Token, Asked>,
    next_token: Token,
    observation: Observation,
}

#[derive(Debug, Clone)]
struct ScanTask {
    direction: Direction,
    /// Inclusive and exclusive, shrinking as pages come in.
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    keys_left: u64,
    tries: u32,
    /// The page before said that there is more.
    promised: bool,
    /// It is about one key that a get did not find.
    is_of_one: bool,
}

impl ScanTask {
    fn whole(direction: Direction, start: Option<Vec<u8>>, keys_left: u64) -> ScanTask {
        ScanTask {
            direction,
            start,
            end: None,
            keys_left,
            tries: 0,
            promised: false,
            is_of_one: false,
        }
    }

    fn of_one(key: &[u8]) -> ScanTask {
        ScanTask {
            end: Some(successor(key)),
            is_of_one: true,
            ..ScanTask::whole(Direction::Forward, Some(key.to_vec()), 1)
        }
    }
}

#[derive(Debug, Clone)]
enum Asked {
    Page(Scan),
    Get(KeyId, u32),
}

impl Verification {
    /// Plans the reading back of the state that `oracle` knows.
    #[must_use]
    pub fn new(oracle: &Oracle, config: &CheckConfig) -> Self {
        let history = &oracle.history;
        let keys = history.key_count();
        let whole = keys as u64 <= config.scan_keys_max;
        let round = oracle.counts().recoveries;
        let start = if whole {
            None
        } else {
            oracle.next_window.clone()
        };
        let keys_left = if whole {
            u64::MAX
        } else {
            config.scan_keys_max
        };
        let offers = &oracle.config.offers;
        let mut scans = VecDeque::new();
        if offers.scan {
            let forward = ScanTask::whole(Direction::Forward, start.clone(), keys_left);
            scans.push_back(forward);
        }
        let reverse = offers.scan && offers.reverse_scan && config.reverse_scan_every > 0;
        if reverse && round.is_multiple_of(config.reverse_scan_every) {
            // Its bounds are those that the forward scan will have covered.
            scans.push_back(ScanTask::whole(Direction::Reverse, None, u64::MAX));
        }
        let mut gets: VecDeque<(KeyId, u32)> = if whole && offers.scan {
            VecDeque::new()
        } else if whole {
            (0..).take(keys).map(|key| (key, 0)).collect()
        } else {
            history.touched().iter().map(|&key| (key, 0)).collect()
        };
        let more = config.gets_max.min(keys as u64);
        gets.extend((0..more).map(|at| {
            (
                KeyId::try_from((round * more + at) % keys as u64).unwrap_or(0),
                0,
            )
        }));
        Verification {
            page_entries: config.page_entries,
            page_bytes: config.page_bytes,
            whole,
            window_keys: usize::try_from(config.scan_keys_max).unwrap_or(usize::MAX),
            window_start: start,
            scans,
            scan_in_flight: false,
            gets,
            in_flight: BTreeMap::new(),
            next_token: 0,
            observation: Observation::new(keys),
        }
    }

    /// The next request, if one can be made before another answer comes in.
    pub fn next_request(&mut self, oracle: &Oracle) -> Option<(Token, Request)> {
        let token = self.next_token;
        let (asked, request) = match self.scans.front() {
            Some(task) if !self.scan_in_flight => {
                let scan = Scan {
                    snapshot: 0,
                    direction: task.direction,
                    start: task.start.clone(),
                    end: task.end.clone(),
                    limit: u32::try_from(task.keys_left)
                        .unwrap_or(u32::MAX)
                        .clamp(1, self.page_entries),
                    max_bytes: self.page_bytes,
                };
                self.scan_in_flight = true;
                (Asked::Page(scan.clone()), Request::Scan(scan))
            }
            _ if self.in_flight.len() >= IN_FLIGHT_MAX => return None,
            _ => {
                let (key, tries) = self.gets.pop_front()?;
                let name = oracle.history.keys.name(key).to_vec();
                (
                    Asked::Get(key, tries),
                    Request::Get {
                        key: name,
                        snapshot: 0,
                    },
                )
            }
        };
        self.next_token += 1;
        self.in_flight.insert(token, asked);
        Some((token, request))
    }

    /// Takes in the answer to a request. An answer that was not asked for is ignored.
    pub fn reply(&mut self, oracle: &Oracle, token: Token, reply: &Reply) {
        match self.in_flight.remove(&token) {
            Some(Asked::Get(key, tries)) => self.take_get(oracle, key, tries, reply),
            Some(Asked::Page(scan)) => {
                self.scan_in_flight = false;
                self.take_page(oracle, &scan, reply);
            }
            None => {}
        }
    }

    /// Whether everything was asked and answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.scans.is_empty() && self.gets.is_empty() && self.in_flight.is_empty()
    }

    /// What was seen, also of a reading that was cut short.
    #[must_use]
    pub fn finish(self) -> Observation {
        self.observation
    }

    fn take_get(&mut self, oracle: &Oracle, key: KeyId, tries: u32, reply: &Reply) {
        let name = oracle.history.keys.name(key);
        match (reply.status, &reply.body) {
            (Status::Ok, Body::Value(value)) => {
                let seen = self.classify(oracle, Some(key), name, value);
                self.note(oracle, key, seen, "a get");
            }
            (Status::NotFound, _) => {
                let scanned = self.observation.seen(key) != Seen::Unasked;
                if !self.whole && !scanned && oracle.config.offers.scan {
                    self.scans.push_back(ScanTask::of_one(name));
                }
                self.note(oracle, key, Seen::Holds(Content::ABSENT), "a get");
            }
            (Status::IoError, _) if tries < RETRIES => self.gets.push_back((key, tries + 1)),
            (Status::Corruption | Status::IoError, _) => {
                self.report(reply, format!("the get of key {}", oracle.key_name(key)));
                if self.observation.seen(key) == Seen::Unasked {
                    self.observation.table[key as usize] = Seen::Reported;
                }
            }
            _ => self.wrong_reply(reply, &format!("the get of key {}", oracle.key_name(key))),
        }
    }

    fn take_page(&mut self, oracle: &Oracle, scan: &Scan, reply: &Reply) {
        let what = match scan.direction {
            _ if self.scans[0].is_of_one => "the scan of one key",
            Direction::Forward => "the forward scan",
            Direction::Reverse => "the reverse scan",
        };
        match (reply.status, &reply.body) {
            (Status::Ok, Body::Entries { entries, more }) => {
                let wrong_end = || {
                    let empty = self.scans[0].promised && entries.is_empty();
                    let nothing = "gave nothing, although the page before says that there is more";
                    let without_reason = || oracle.ends_without_reason(scan, entries);
                    let short = || more.then(without_reason).flatten();
                    empty.then(|| nothing.to_owned()).or_else(short)
                };
                match malformed(scan, entries, *more).or_else(wrong_end) {
                    Some(wrong) => {
                        self.problem(Problem::Malformed {
                            what: format!("{what} {wrong}"),
                        });
                        self.scans.clear();
                    }
                    None => self.take_entries(oracle, scan, entries, *more, what),
                }
            }
            (Status::IoError, _) if self.scans[0].tries < RETRIES => self.scans[0].tries += 1,
            (Status::Corruption | Status::IoError, _) => {
                self.report(reply, what.to_owned());
                self.read_the_rest_one_by_one(oracle);
            }
            _ => {
                self.wrong_reply(reply, what);
                self.scans.clear();
            }
        }
    }

    /// Merges a page with the keys that are known, so that absent ones are seen to be absent.
    fn take_entries(
        &mut self,
        oracle: &Oracle,
        scan: &Scan,
        entries: &[(Vec<u8>, Vec<u8>)],
        more: bool,
        what: &'static str,
    ) {
        let keys = &oracle.history.keys;
        let last = entries.last().map(|(key, _)| &key[..]).filter(|_| more);
        let low = scan
            .start
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included);
        let high = scan
            .end
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let mut covered = 0;
        if scan.direction == Direction::Forward {
            let known = keys.range(low, last.map_or(high, Bound::Included));
            covered += self.merge(oracle, known, entries, false, what);
        } else {
            let known = keys.range(last.map_or(low, Bound::Included), high).rev();
            covered += self.merge(oracle, known, entries, true, what);
        }
        let task = &mut self.scans[0];
        task.promised = more;
        task.keys_left = task.keys_left.saturating_sub(covered.max(1));
        match (last, scan.direction) {
            (Some(last), Direction::Forward) if task.keys_left > 0 => {
                task.start = Some(successor(last))
            }
            (Some(last), Direction::Reverse) => task.end = Some(last.to_vec()),
            _ => {
                let task = self.scans.pop_front();
                let is_done =
                    |task: &ScanTask| task.direction == Direction::Forward && !task.is_of_one;
                if task.as_ref().is_some_and(is_done) {
                    self.forward_done(oracle, last.map(successor));
                }
            }
        }
    }

    /// The forward scan is over, short of `end` if that is given: the reverse scan goes over the same range, and the next
    /// recovery's window begins there.
    ///
    /// Keys that the scan has not found are also read one by one, in turn if there are many.
    fn forward_done(&mut self, oracle: &Oracle, end: Option<Vec<u8>>) {
        let missing = |key: &KeyId| self.observation.content(*key) == Some(Content::ABSENT);
        let missing: Vec<KeyId> = (0..)
            .take(self.observation.table.len())
            .filter(missing)
            .collect();
        let round = usize::try_from(oracle.counts().recoveries).unwrap_or(0);
        let first = (round * MISSING_GETS)
            .checked_rem(missing.len())
            .unwrap_or(0);
        let in_turn = missing
            .iter()
            .cycle()
            .skip(first)
            .take(missing.len().min(MISSING_GETS));
        self.gets.extend(in_turn.map(|&key| (key, 0)));
        let reverse = |task: &&mut ScanTask| task.direction == Direction::Reverse;
        if let Some(reverse) = self.scans.front_mut().filter(reverse) {
            reverse.start.clone_from(&self.window_start);
            reverse.end.clone_from(&end);
        }
        self.observation.next_window = end;
    }

    fn merge<'a>(
        &mut self,
        oracle: &Oracle,
        known: impl Iterator<Item = (&'a [u8], KeyId)>,
        entries: &[(Vec<u8>, Vec<u8>)],
        reverse: bool,
        what: &'static str,
    ) -> u64 {
        let mut known = known.peekable();
        let mut covered = 0;
        for (key, value) in entries {
            while let Some((_, id)) = known.next_if(|(name, _)| {
                if reverse {
                    *name > &key[..]
                } else {
                    *name < &key[..]
                }
            }) {
                self.note(oracle, id, Seen::Holds(Content::ABSENT), what);
                covered += 1;
            }
            covered += 1;
            match known.next_if(|(name, _)| *name == &key[..]) {
                Some((_, id)) => {
                    let seen = self.classify(oracle, Some(id), key, value);
                    self.note(oracle, id, seen, what);
                }
                None => {
                    self.classify(oracle, None, key, value);
                }
            }
        }
        for (_, id) in known {
            self.note(oracle, id, Seen::Holds(Content::ABSENT), what);
            covered += 1;
        }
        covered
    }

    fn classify(&mut self, oracle: &Oracle, id: Option<KeyId>, key: &[u8], value: &[u8]) -> Seen {
        let content = Content::of(value);
        let state = id.map(|id| oracle.history.state(id));
        if state.is_some_and(|state| state.knows(content) || state.retired(content).is_some()) {
            return Seen::Holds(content);
        }
        let at = u32::try_from(self.observation.strange.len()).unwrap_or(u32::MAX);
        self.observation
            .strange
            .push(Strange::new(key, id.is_none(), value));
        Seen::Strange(at)
    }

    fn note(&mut self, oracle: &Oracle, key: KeyId, seen: Seen, how: &'static str) {
        self.observation.reads += 1;
        let before = self.observation.seen(key);
        match (
            self.observation.content_of(before),
            self.observation.content_of(seen),
        ) {
            (None, _) => self.observation.table[key as usize] = seen,
            (Some(first), Some(second)) if first != second => {
                let first = ("another read", oracle.describe(key, first));
                let second = (how, oracle.describe(key, second));
                let key = oracle.history.keys.name(key).to_vec();
                self.problem(Problem::Differ { key, first, second });
            }
            _ => {}
        }
    }

    /// A scan cannot go on: all keys that were not read yet are read one by one instead; of a key space that is scanned in windows, as
    /// many as a window has.
    fn read_the_rest_one_by_one(&mut self, oracle: &Oracle) {
        self.scans.clear();
        let start = self
            .window_start
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included);
        let first = oracle.history.keys.range(start, Bound::Unbounded);
        let rest = oracle
            .history
            .keys
            .range(Bound::Unbounded, Bound::Unbounded);
        let known = first.chain(rest).map(|(_, key)| key).filter(|&key| {
            (key as usize) < self.observation.table.len()
                && self.observation.seen(key) == Seen::Unasked
        });
        let many = if self.whole {
            usize::MAX
        } else {
            self.window_keys
        };
        let mut asked: BTreeSet<KeyId> = self.gets.iter().map(|(key, _)| *key).collect();
        let unread: Vec<KeyId> = known.filter(|&key| asked.insert(key)).take(many).collect();
        self.gets.extend(unread.into_iter().map(|key| (key, 0)));
    }

    fn report(&mut self, reply: &Reply, what: String) {
        let reply = reply.clone();
        self.observation.reports.push(Report { reply, what });
    }

    fn wrong_reply(&mut self, reply: &Reply, what: &str) {
        let answer = crate::words::answer(reply);
        self.problem(match reply.status {
            Status::Ok | Status::NotFound => Problem::WrongReply {
                what: format!("{what} after a recovery was answered {answer}"),
            },
            _ => Problem::Refused {
                what: format!(
                    "{what} after a recovery was answered {answer}, although it is well formed and the database is open"
                ),
            },
        });
    }

    fn problem(&mut self, problem: Problem) {
        self.observation.problem.get_or_insert(problem);
    }
}

/// Bytes of all keys and values.
pub(crate) fn entry_bytes(entries: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let bytes = entries.iter().map(|(key, value)| key.len() + value.len());
    bytes.sum()
}

/// What is wrong with a scan's answer whatever the state, if anything.
pub(crate) fn malformed(scan: &Scan, entries: &[(Vec<u8>, Vec<u8>)], more: bool) -> Option<String> {
    // A limit of 0 counts as 1.
    if entries.len() > scan.limit.max(1) as usize {
        return Some(format!(
            "gave {} entries although {} were asked for",
            entries.len(),
            scan.limit
        ));
    }
    let bytes = entry_bytes(entries);
    if bytes > scan.max_bytes as usize && entries.len() > 1 {
        return Some(format!(
            "gave {} entries of {bytes} bytes although {} bytes were asked for",
            entries.len(),
            scan.max_bytes
        ));
    }
    if more && entries.is_empty() {
        return Some("gave nothing and says that there is more".to_owned());
    }
    let outside = |key: &Vec<u8>| {
        scan.start.as_ref().is_some_and(|start| key < start)
            || scan.end.as_ref().is_some_and(|end| key >= end)
    };
    if let Some((key, _)) = entries.iter().find(|(key, _)| outside(key)) {
        return Some(format!(
            "gave key {}, which is outside its range",
            printable(key)
        ));
    }
    let in_order = |pair: &[(Vec<u8>, Vec<u8>)]| match scan.direction {
        Direction::Forward => pair[0].0 < pair[1].0,
        Direction::Reverse => pair[0].0 > pair[1].0,
    };
    let pair = entries.windows(2).find(|pair| !in_order(pair))?;
    let order = if pair[0].0 == pair[1].0 {
        "twice"
    } else {
        "out of order"
    };
    Some(format!("gave key {} {order}", printable(&pair[1].0)))
}
