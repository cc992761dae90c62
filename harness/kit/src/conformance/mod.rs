//! Whether a guest keeps the rules of the ABI, one after the other, before anything is crashed at random.
//!
//! - `module`: what is seen before anything runs: imports, exports, version, coverage points, policies
//! - `rule`: a rule as a value, and what can come of it
//! - `session`: one instance and one device, driven call by call, with completions in any order
//! - `requests`, `ill_formed`, `process_run`, `order`: the rules about a guest that runs
//! - [`text`], [`json`]: what came of them
//!
//! Invariant: a rule begins with a new device and a fresh instance, so none depends on another. All follows from the module, its options
//! and these files.

mod ill_formed;
pub mod json;
mod module;
mod order;
mod process_run;
mod requests;
mod rule;
mod session;
pub mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_sim::{GuestHash, Program};

pub use rule::{Breach, Checked, Conformance, Outcome, Rule};
use session::{Look, Subject};

/// Checks a module against every rule.
#[must_use]
pub fn check(name: &str, bytes: &[u8], options: &BTreeMap<String, String>) -> Conformance {
    let (mut rules, program) = module::check(name, bytes);
    let is_guest = program.is_some();
    match program {
        Some(program) => rules.extend(check_running(program, options)),
        None => {
            let broken = |it: &&Checked| matches!(it.outcome, Outcome::Broken(_));
            let first = rules
                .iter()
                .find(broken)
                .map_or("module", |it| it.rule.name);
            let left = running_rules().map(|(rule, _)| Checked {
                rule,
                outcome: Outcome::NotReached(first),
            });
            rules.extend(left);
        }
    }
    Conformance {
        guest: name.to_owned(),
        hash: GuestHash::of(bytes).to_string(),
        is_guest,
        rules,
    }
}

/// Checks a guest against the rules about one that runs.
#[must_use]
pub fn check_running(
    program: Arc<dyn Program>,
    options: &BTreeMap<String, String>,
) -> Vec<Checked> {
    let subject = Subject::new(program, options.clone());
    let mut missing = None;
    let checked = running_rules().map(|(rule, look)| {
        let outcome = match missing {
            None => look(&subject).unwrap_or_else(Outcome::Broken),
            Some(missing) => Outcome::NotReached(missing),
        };
        // Without an opening nothing else can be asked.
        if rule.name == "open_blank" && matches!(outcome, Outcome::Broken(_)) {
            missing = Some(rule.name);
        }
        Checked { rule, outcome }
    });
    checked.collect()
}

/// The names of all rules, in order.
#[must_use]
pub fn rules() -> Vec<Rule> {
    let running = running_rules().map(|(rule, _)| rule);
    module::RULES.into_iter().chain(running).collect()
}

fn running_rules() -> impl Iterator<Item = (Rule, Look)> {
    let opening = process_run::OPENING.into_iter();
    let requests = requests::RULES.into_iter().chain(ill_formed::RULES);
    opening
        .chain(requests)
        .chain(order::RULES)
        .chain(process_run::RULES)
}
