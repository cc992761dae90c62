//! One message in, one answer out.

use std::path::PathBuf;

use crate::payload::Payload;
use crate::{Change, Durability, Engine, Error, Offers, Options, Order, Page, Range, Read, Result, Status};

/// An engine and its snapshots, between messages.
pub struct Server<E> {
    directory: PathBuf,
    offers: Offers,
    engine: Option<E>,
    is_closed: bool,
    /// By number, which is the place in the list and one; a released one is `None`.
    snapshots: Vec<Option<Box<dyn Read>>>,
}

impl<E: Engine> Server<E> {
    /// For a database below `directory`; nothing is opened yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Server { directory: directory.into(), offers: E::offers(), engine: None, is_closed: false, snapshots: Vec::new() }
    }

    /// The answer to a message: `u32` status, then the body.
    ///
    /// # Panics
    /// The message is cut short, which the host never does.
    pub fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let mut payload = Payload(message);
        let answered = match payload.u32() {
            0 => Ok(self.describe().into_bytes()),
            1 => self.open(payload).map(|()| Vec::new()),
            2 => {
                payload.u64();
                self.request(payload)
            }
            3 => {
                self.engine.iter_mut().for_each(Engine::idle);
                Ok(Vec::new())
            }
            kind => Err(Error::invalid(format_args!("{kind} is no kind of message"))),
        };
        match answered {
            Ok(body) => [&0_u32.to_le_bytes()[..], &body].concat(),
            Err(error) => [&(error.status as u32).to_le_bytes()[..], error.message.as_bytes()].concat(),
        }
    }

    fn describe(&self) -> String {
        let it = &self.offers;
        let order = match it.order {
            Order::Prefix => "prefix",
            Order::Each => "each",
        };
        let mut lines = format!("abi=1\nengine={}\nsettings={}\n", it.engine, it.settings);
        for (name, is_offered) in [
            ("batch", it.batch),
            ("scan", it.scan),
            ("reverse_scan", it.reverse_scan),
            ("snapshot", it.snapshot),
            ("relaxed", it.relaxed),
            ("sync", it.sync),
        ] {
            lines += &format!("{name}={is_offered}\n");
        }
        lines += &format!("order={order}\nmax_key_bytes={}\nmax_value_bytes={}\n", it.max_key_bytes, it.max_value_bytes);
        for (name, value) in &it.policies {
            lines += &format!("{name}={value}\n");
        }
        lines
    }

    /// The payload: `u64` now, 16 bytes of identity, `u32` length and the options.
    fn open(&mut self, mut payload: Payload) -> Result<()> {
        if self.engine.is_some() {
            return Err(Error::invalid("the database is open"));
        }
        payload.u64();
        payload.bytes(16);
        let length = payload.length();
        let options = Options::parse(payload.bytes(length))?;
        self.engine = Some(E::open(&self.directory, &options)?);
        Ok(())
    }

    fn request(&mut self, mut payload: Payload) -> Result<Vec<u8>> {
        let operation = payload.u8();
        let durability = match payload.u8() {
            0 => Durability::Durable,
            _ => Durability::Relaxed,
        };
        payload.bytes(2);
        if self.is_closed {
            return Err(Error::new(Status::Closed, "the database is closed"));
        }
        if durability == Durability::Relaxed {
            offered(self.offers.relaxed, "relaxed")?;
        }
        let Some(engine) = &mut self.engine else {
            return Err(Error::invalid("the database is not open"));
        };
        match operation {
            1 => {
                let (key_length, value_length) = (payload.length(), payload.length());
                let (key, value) = (payload.bytes(key_length), payload.bytes(value_length));
                fits(&self.offers, key, Some(value))?;
                engine.put(key, value, durability).map(|()| Vec::new())
            }
            2 => {
                let length = payload.length();
                let key = payload.bytes(length);
                fits(&self.offers, key, None)?;
                engine.delete(key, durability).map(|()| Vec::new())
            }
            3 => {
                offered(self.offers.batch, "batch")?;
                let changes: Vec<Change> = (0..payload.u32()).map(|_| change(&mut payload)).collect();
                for (key, value) in changes.iter().map(Change::parts) {
                    fits(&self.offers, key, value)?;
                }
                engine.batch(&changes, durability).map(|()| Vec::new())
            }
            4 => {
                let (number, length) = (payload.u64(), payload.length());
                let key = payload.bytes(length);
                let state = state(engine, &self.snapshots, number)?;
                // No engine holds such a key.
                let found = if fits(&self.offers, key, None).is_ok() { state.get(key)? } else { None };
                found.ok_or_else(|| Error::new(Status::NotFound, ""))
            }
            5 => {
                offered(self.offers.scan, "scan")?;
                let number = payload.u64();
                let (is_reverse, bounds) = (payload.u8() == 1, payload.u8());
                payload.bytes(2);
                let mut page = Page::new(payload.u32(), payload.u32());
                let (start_length, end_length) = (payload.length(), payload.length());
                let (start, end) = (payload.bytes(start_length), payload.bytes(end_length));
                let range = Range { start: (bounds & 1 != 0).then_some(start), end: (bounds & 2 != 0).then_some(end), is_reverse };
                offered(!is_reverse || self.offers.reverse_scan, "reverse_scan")?;
                let state = state(engine, &self.snapshots, number)?;
                let is_empty = range.start.zip(range.end).is_some_and(|(start, end)| start >= end);
                if !is_empty {
                    state.scan(&range, &mut page)?;
                }
                Ok(page.body())
            }
            6 => {
                offered(self.offers.snapshot, "snapshot")?;
                self.snapshots.push(Some(engine.snapshot()?));
                Ok((self.snapshots.len() as u64).to_le_bytes().to_vec())
            }
            7 => {
                let number = payload.u64();
                let place = place(number).and_then(|place| self.snapshots.get_mut(place));
                let released = place.and_then(Option::take);
                released.map(|_| Vec::new()).ok_or_else(no_snapshot)
            }
            8 => {
                offered(self.offers.sync, "sync")?;
                engine.sync().map(|()| Vec::new())
            }
            9 => {
                self.snapshots.clear();
                self.is_closed = true;
                let engine = self.engine.take().expect("it is open");
                engine.close().map(|()| Vec::new())
            }
            other => Err(Error::invalid(format_args!("{other} is no request"))),
        }
    }
}

fn change<'a>(payload: &mut Payload<'a>) -> Change<'a> {
    let is_put = payload.u8() == 0;
    let (key_length, value_length) = (payload.length(), payload.length());
    let (key, value) = (payload.bytes(key_length), payload.bytes(value_length));
    if is_put {
        Change::Put { key, value }
    } else {
        Change::Delete { key }
    }
}

fn offered(is_offered: bool, operation: &str) -> Result<()> {
    if is_offered {
        Ok(())
    } else {
        Err(Error::not_offered(operation))
    }
}

fn fits(offers: &Offers, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let (key_max, value_max) = (offers.max_key_bytes, offers.max_value_bytes);
    if key.is_empty() || key.len() > key_max || value.is_some_and(|value| value.len() > value_max) {
        let message = format_args!("a key has 1 to {key_max} bytes, a value at most {value_max}");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Where the snapshot of this number is in the list.
fn place(number: u64) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

fn no_snapshot() -> Error {
    Error::invalid("no such snapshot")
}

/// The newest state for number 0, else a snapshot.
fn state<'a, E: Engine>(engine: &'a E, snapshots: &'a [Option<Box<dyn Read>>], number: u64) -> Result<&'a dyn Read> {
    if number == 0 {
        return Ok(engine);
    }
    let snapshot = place(number).and_then(|place| snapshots.get(place)?.as_deref());
    snapshot.ok_or_else(no_snapshot)
}
