//! Whether a guest keeps the rules of the ABI, one after the other, before anything is crashed at random.
//!
//! - `module`: what is seen before anything runs: imports, exports, version, coverage points, policies
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
mod session;
pub mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_sim::{GuestHash, GuestPolicies, Program};

use session::Subject;

/// A rule of the ABI page.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name, for scripts.
    pub name: &'static str,
    /// What has to hold.
    pub about: &'static str,
    /// What to do about a guest that breaks it.
    pub help: &'static str,
}

/// How a guest broke a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// What the ABI page asks for.
    pub expected: String,
    /// What came.
    pub came: String,
}

impl Breach {
    fn new(expected: impl Into<String>, came: impl Into<String>) -> Breach {
        Breach {
            expected: expected.into(),
            came: came.into(),
        }
    }
}

/// What came of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds; what was seen.
    Holds(String),
    /// It is broken.
    Broken(Breach),
    /// It does not apply to this guest; why.
    NotAsked(String),
    /// A rule that it needs is broken: this one.
    NotReached(&'static str),
}

/// A rule and what came of it.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The rule.
    pub rule: Rule,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of all rules.
#[derive(Debug, Clone)]
pub struct Conformance {
    /// The guest's name.
    pub guest: String,
    /// The hash of its module.
    pub hash: String,
    /// Whether the module may be run at all.
    pub is_guest: bool,
    /// The rules, in the order of the ABI page.
    pub rules: Vec<Checked>,
}

impl Conformance {
    /// How many rules are broken.
    #[must_use]
    pub fn broken(&self) -> usize {
        let broken = |checked: &&Checked| matches!(checked.outcome, Outcome::Broken(_));
        self.rules.iter().filter(broken).count()
    }

    /// How many rules hold.
    #[must_use]
    pub fn hold(&self) -> usize {
        let holds = |checked: &&Checked| matches!(checked.outcome, Outcome::Holds(_));
        self.rules.iter().filter(holds).count()
    }
}

type Result<T> = std::result::Result<T, Breach>;
/// Looks at a guest; what it saw, or that it does not apply.
type Look = fn(&Subject) -> Result<Outcome>;

fn holds(what: impl Into<String>) -> Result<Outcome> {
    Ok(Outcome::Holds(what.into()))
}

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

/// What the guest states, for the rules that depend on it.
fn policies(subject: &Subject) -> GuestPolicies {
    subject.program.policies()
}
