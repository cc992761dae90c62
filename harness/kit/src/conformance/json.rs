//! What came of the rules as JSON.

use serde_json::{Value, json};

use super::rule::{Checked, Conformance, Outcome};

/// The name and version of the form.
pub const SCHEMA: &str = "kvsim.conformance/1";

/// The report, and the exit code that goes with it.
#[must_use]
pub fn document(report: &Conformance, exit_code: u8) -> Value {
    json!({
        "schema": SCHEMA,
        "kvsim": env!("CARGO_PKG_VERSION"),
        "exit_code": exit_code,
        "guest": { "name": report.guest, "hash": report.hash },
        "hold": report.hold(),
        "failed": report.broken(),
        "rules": report.rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(checked: &Checked) -> Value {
    let mut value = json!({ "name": checked.rule.name, "about": checked.rule.about });
    let more = match &checked.outcome {
        Outcome::Holds(seen) => json!({ "outcome": "ok", "seen": seen }),
        Outcome::Broken(breach) => json!({
            "outcome": "failed",
            "expected": breach.expected,
            "came": breach.came,
            "to_do": checked.rule.help,
        }),
        Outcome::NotAsked(why) => json!({ "outcome": "not_asked", "why": why }),
        Outcome::NotReached(rule) => json!({ "outcome": "not_reached", "needs": rule }),
    };
    if let (Some(value), Some(more)) = (value.as_object_mut(), more.as_object()) {
        value.extend(more.clone());
    }
    value
}
