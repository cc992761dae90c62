//! Scans whose keys are read first, as the library does where it has the values itself. The values are asked for in the same moment, so the engine has to return the same keys.
//!
//! Invariant: such a scan shows the moment when its keys were there, which may be later than its arrival.

use std::collections::BTreeMap;

use kvsim_engine::{OwnedRange, Port, Reply, Request, ScanRange};

use crate::call::Call;

/// The scans under way, by the number of their request.
#[derive(Default)]
pub(crate) struct KeysFirst {
    scans: BTreeMap<u64, Scan>,
}

enum Scan {
    /// Its keys are read.
    Knows(OwnedRange),
    /// Its entries are asked for, which have these keys, and whether there are more; `None` where the engine could not say at once.
    Asks(Option<Keys>),
}

#[derive(Debug, PartialEq, Eq)]
struct Keys {
    keys: Vec<Vec<u8>>,
    more: bool,
}

impl KeysFirst {
    pub(crate) fn is_idle(&self) -> bool {
        self.scans.is_empty()
    }

    pub(crate) fn begin(&mut self, id: u64, range: &ScanRange<'_>, call: &mut Call<'_>) {
        self.scans.insert(id, Scan::Knows(OwnedRange::new(range)));
        call.ask(id, Request::Know(*range));
    }

    /// The engine has answered what was asked for this scan.
    pub(crate) fn go_on(&mut self, id: u64, reply: Reply, call: &mut Call<'_>) {
        match self.scans.remove(&id).expect("it was asked for a scan") {
            Scan::Knows(range) => {
                let mut keys = Vec::new();
                let range = range.borrow();
                let more = call.engine.scan_keys(&range, |key| keys.push(key.to_vec()));
                let keys = more.map(|more| Keys { keys, more });
                self.scans.insert(id, Scan::Asks(keys));
                call.ask(id, Request::Scan(range));
            }
            Scan::Asks(keys) => {
                if let (Some(keys), Reply::Entries { entries, more }) = (keys, &reply) {
                    let entries = entries.iter().map(|entry| entry.key.to_vec());
                    let found = Keys {
                        keys: entries.collect(),
                        more: *more,
                    };
                    assert_eq!(keys, found, "a scan has the keys that were there first");
                }
                call.port.reply(id, reply);
            }
        }
    }
}
