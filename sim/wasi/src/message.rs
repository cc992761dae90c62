//! The messages between the host and a file engine, as bytes: what `notes/files` calls the protocol, and the book's page on file engines.
//!
//! A message is `u32` kind and a payload; an answer is `u32` status and a body. All numbers are little-endian.

use kvsim_crash::Nanos;
use kvsim_sim::api::{Body, Reply, Request, RequestId, Status};
use kvsim_sim::sandbox::{Expects, decode_body, decode_status, encode_request};
use kvsim_sim::{GuestPolicies, Offers, OpenConfig, Order};

const DESCRIBE: u32 = 0;
const OPEN: u32 = 1;
const REQUEST: u32 = 2;
const IDLE: u32 = 3;

/// The version of the protocol that this host speaks.
pub const PROTOCOL_VERSION: u32 = 1;

fn message(kind: u32) -> Vec<u8> {
    kind.to_le_bytes().to_vec()
}

/// Asks what the engine is.
pub(crate) fn describe() -> Vec<u8> {
    message(DESCRIBE)
}

/// Asks to open the database.
pub(crate) fn open(now: Nanos, config: &OpenConfig) -> Vec<u8> {
    let mut bytes = message(OPEN);
    bytes.extend_from_slice(&now.to_le_bytes());
    bytes.extend_from_slice(&config.db_id);
    let options = config.options.iter().map(|(name, value)| format!("{name}={value}\n"));
    let options: String = options.collect();
    let len = u32::try_from(options.len()).expect("options are far below 4 GiB");
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(options.as_bytes());
    bytes
}

/// Hands in a request.
pub(crate) fn request(id: RequestId, request: &Request) -> Vec<u8> {
    let mut bytes = message(REQUEST);
    bytes.extend_from_slice(&id.to_le_bytes());
    encode_request(request, &mut bytes);
    bytes
}

/// Lets background work run.
pub(crate) fn idle(now: Nanos) -> Vec<u8> {
    let mut bytes = message(IDLE);
    bytes.extend_from_slice(&now.to_le_bytes());
    bytes
}

/// Reads an answer to request `id`.
pub(crate) fn answer(id: RequestId, expects: Expects, bytes: &[u8]) -> Result<Reply, String> {
    let Some((head, body)) = bytes.split_first_chunk::<4>() else {
        return Err(format!("an answer of {} bytes; a status has 4", bytes.len()));
    };
    let status = decode_status(u32::from_le_bytes(*head))?;
    let body = decode_body(expects, status, body)?;
    Ok(Reply { id, status, body })
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name and version, such as `sqlite 3.50.4`.
    pub engine: String,
    /// Its settings, for people.
    pub settings: String,
    /// What it can be asked for.
    pub offers: Offers,
    /// What it promises.
    pub policies: GuestPolicies,
}

/// The names that a description may hold beside those of policies.
const NAMES: [&str; 10] = [
    "abi",
    "engine",
    "settings",
    "batch",
    "scan",
    "reverse_scan",
    "snapshot",
    "relaxed",
    "sync",
    "order",
];

/// The names that a description must hold.
const REQUIRED: [&str; 9] = [
    "abi",
    "engine",
    "batch",
    "scan",
    "reverse_scan",
    "snapshot",
    "relaxed",
    "sync",
    "order",
];

/// No description is longer.
const DESCRIPTION_BYTES_MAX: usize = 64 << 10;

/// Reads the answer to *describe*.
pub(crate) fn description(bytes: &[u8]) -> Result<Description, String> {
    let reply = answer(0, Expects::Value, bytes)?;
    let body = match (reply.status, reply.body) {
        (Status::Ok, Body::Value(body)) => body,
        (status, body) => return Err(format!("it answers {status:?} to describe: {body:?}")),
    };
    if body.len() > DESCRIPTION_BYTES_MAX {
        return Err(format!("a description of {} bytes", body.len()));
    }
    let text = String::from_utf8(body).map_err(|_| "the description is not UTF-8".to_owned())?;
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Description {
        engine: String::new(),
        settings: String::new(),
        offers: Offers::default(),
        policies: GuestPolicies::default(),
    };
    for line in text.lines().filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("`{line}` in the description is not of the form name=value"));
        };
        if seen.contains(&name) {
            return Err(format!("`{name}` stands twice in the description"));
        }
        seen.push(name);
        take(&mut found, name, value)?;
    }
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| !seen.contains(name)).collect();
    if missing.is_empty() {
        Ok(found)
    } else {
        Err(format!("the description lacks {}", missing.join(", ")))
    }
}

fn take(found: &mut Description, name: &str, value: &str) -> Result<(), String> {
    let is = || match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{name}` in the description is `{value}`; it is `true` or `false`")),
    };
    match name {
        "abi" if value == PROTOCOL_VERSION.to_string() => {}
        "abi" => {
            return Err(format!(
                "it speaks version {value} of the protocol; this kvsim speaks version {PROTOCOL_VERSION}"
            ));
        }
        "engine" if value.is_empty() => return Err("`engine` in the description is empty".to_owned()),
        "engine" => value.clone_into(&mut found.engine),
        "settings" => value.clone_into(&mut found.settings),
        "batch" => found.offers.batch = is()?,
        "scan" => found.offers.scan = is()?,
        "reverse_scan" => found.offers.reverse_scan = is()?,
        "snapshot" => found.offers.snapshot = is()?,
        "relaxed" => found.offers.relaxed = is()?,
        "sync" => found.offers.sync = is()?,
        "order" => {
            found.offers.order = match value {
                "prefix" => Order::Prefix,
                "each" => Order::Each,
                _ => return Err(format!("`order` in the description is `{value}`; it is `prefix` or `each`")),
            }
        }
        _ if GuestPolicies::NAMES.contains(&name) => found.policies.set(name, value)?,
        _ => {
            return Err(format!(
                "`{name}` in the description is unknown; there are {}, and the policies {}",
                NAMES.join(", "),
                GuestPolicies::NAMES.join(", ")
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "abi=1\nengine=naive 1.0\nsettings=none\nbatch=true\nscan=true\nreverse_scan=false\nsnapshot=false\n\
                         relaxed=true\nsync=true\norder=each\nmax_key_bytes=100\n";

    fn described(text: &str) -> Result<Description, String> {
        let mut bytes = 0_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        description(&bytes)
    }

    /// Goal: every name counts. Method: a description with values that are not the defaults.
    #[test]
    fn a_description_is_read() {
        let found = described(WHOLE).expect("it is whole");
        assert_eq!(found.engine, "naive 1.0");
        let expected = Offers {
            reverse_scan: false,
            snapshot: false,
            order: Order::Each,
            ..Offers::default()
        };
        assert_eq!(found.offers, expected);
        assert_eq!(found.policies.stated(), ["max_key_bytes=100"]);
    }

    /// Goal: what is wrong is named. Method: one mistake at a time.
    #[test]
    fn what_is_wrong_with_a_description_is_named() {
        for (from, to, what) in [
            ("abi=1", "abi=2", "version 2 of the protocol"),
            ("order=each", "order=any", "it is `prefix` or `each`"),
            ("scan=true", "scan=yes", "it is `true` or `false`"),
            ("sync=true\n", "", "lacks sync"),
            ("batch=true", "bulk=true", "`bulk` in the description is unknown; there are abi, engine"),
            ("settings=none", "settings", "not of the form name=value"),
            ("settings=none", "abi=1", "`abi` stands twice"),
            ("max_key_bytes=100", "max_key_bytes=x", "max_key_bytes"),
        ] {
            let error = described(&WHOLE.replacen(from, to, 1)).expect_err(to);
            assert!(error.contains(what), "{to}: {error}");
        }
        let refused = [6, 0, 0, 0, b'n', b'o'];
        assert!(description(&refused).expect_err("Invalid").contains("no"));
        assert!(description(&[0]).expect_err("short").contains("a status has 4"));
    }
}
