//! A rule of the ABI page as a value, and what can come of it.

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
    pub(super) fn new(expected: impl Into<String>, came: impl Into<String>) -> Breach {
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

/// What a rule's look at a guest gives: what came of it, or how the guest broke it.
pub(super) type Result<T> = std::result::Result<T, Breach>;

pub(super) fn holds(what: impl Into<String>) -> Result<Outcome> {
    Ok(Outcome::Holds(what.into()))
}
