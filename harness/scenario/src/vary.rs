//! `[vary]`: a scenario that is another one for each seed.
//!
//! `[vary]` names dimensions. Each dimension is a list of alternatives, and each alternative is a part of a scenario. A
//! seed takes one alternative of each dimension and lays them over the file. This is swarm testing (A. Groce, C. Zhang,
//! E. Eide, Y. Chen, J. Regehr, ISSTA 2012). Many settings that each lack most features find more than one setting with
//! all features, since a feature that is always on hides failures that need its absence.
//!
//! Invariants: what a seed takes follows from three things: the seed, the dimension's name, and how often a draw
//! contradicted itself. So a new dimension without contradictions changes nothing of what the others give. No two
//! dimensions set one field, so their order means nothing.

use toml::{Table, Value};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::error::ScenarioError;
use super::layers::{Layer, Layers, MEASURED, Step};

/// What is the same for all seeds.
const FIXED: &[&str] = &[
    "name",
    "description",
    "expect",
    "host",
    "explore",
    "coverage",
    "vary",
    "failure",
    "case",
];

/// One thing that differs from seed to seed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dimension {
    name: String,
    pub(crate) alternatives: Vec<Layer>,
}

impl Dimension {
    /// Which alternative a seed takes the `attempt`-th time it is asked.
    pub(crate) fn taken(&self, seed: u64, attempt: u64) -> (&Layer, String) {
        let mut text = self.name.clone().into_bytes();
        text.extend(attempt.to_le_bytes());
        let drawn = u128::from(xxh3_64_with_seed(&text, seed));
        let count = self.alternatives.len() as u128;
        let at = usize::try_from((drawn * count) >> 64).unwrap_or(0);
        (&self.alternatives[at], format!("{}[{at}]", self.name))
    }
}

/// Takes `[vary]` out of a scenario's file.
///
/// # Errors
/// It is not of this form, an alternative says what cannot differ, or two dimensions say the same.
pub(crate) fn take(file: &mut Layer) -> Result<Vec<Dimension>, ScenarioError> {
    let Some(value) = file.table.remove("vary") else {
        return Ok(Vec::new());
    };
    let layers = Layers::new(vec![file.clone()]);
    let wrong = |path: &str, message: String, help: &str| {
        Err(layers.problem(&[path], message, Some(help.to_owned())))
    };
    let Value::Table(table) = value else {
        return wrong("vary", "`vary` is no table".to_owned(), FORM);
    };
    let mut dimensions = Vec::new();
    for (name, value) in table {
        let path = format!("vary.{name}");
        let Value::Array(array) = value else {
            return wrong(&path, format!("`{path}` is no list"), FORM);
        };
        if array.is_empty() {
            return wrong(&path, format!("`{path}` has nothing to choose from"), FORM);
        }
        let mut alternatives = Vec::new();
        for (at, value) in array.into_iter().enumerate() {
            let path = format!("{path}[{at}]");
            let Value::Table(table) = value else {
                return wrong(&path, format!("`{path}` is no table"), FORM);
            };
            if let Some(field) = fixed(&table) {
                let message = format!("`{field}` cannot differ from seed to seed");
                let help = "these can: profile, run, workload, guest, device, faults and check";
                return wrong(&format!("{path}.{field}"), message, help);
            }
            alternatives.push(file.part(
                table,
                vec![
                    Step::Key("vary".to_owned()),
                    Step::Key(name.clone()),
                    Step::Index(at),
                ],
            ));
        }
        dimensions.push(Dimension { name, alternatives });
    }
    match twice(&dimensions) {
        Some((field, first, second)) => wrong(
            &format!("vary.{second}"),
            format!("`{field}` is set by `vary.{second}`, and by `vary.{first}` too"),
            "make one dimension of the two, whose alternatives set both",
        ),
        None => Ok(dimensions),
    }
}

const FORM: &str = "a dimension is a list of parts of a scenario, such as cache = [{ device.cache = \"volatile\" }, { device.cache = \"write_through\" }]";

/// A field that is the same for all seeds, if the alternative sets one.
fn fixed(alternative: &Table) -> Option<String> {
    let seeds = alternative.get("run").and_then(|run| run.get("seeds"));
    let name = alternative
        .keys()
        .find(|name| FIXED.contains(&name.as_str()));
    name.cloned()
        .or_else(|| seeds.map(|_| "run.seeds".to_owned()))
}

/// A field that two dimensions set, and their names.
fn twice(dimensions: &[Dimension]) -> Option<(String, &str, &str)> {
    let fields: Vec<Vec<String>> = dimensions
        .iter()
        .map(|dimension| {
            let mut fields = Vec::new();
            for alternative in &dimension.alternatives {
                leaves("", &alternative.table, &mut fields);
            }
            fields
        })
        .collect();
    for (second, own) in fields.iter().enumerate() {
        for (first, others) in fields[..second].iter().enumerate() {
            let both = own
                .iter()
                .find(|field| others.iter().any(|other| overlap(field, other)));
            if let Some(field) = both {
                let field = field.trim_end_matches('.').to_owned();
                return Some((field, &dimensions[first].name, &dimensions[second].name));
            }
        }
    }
    None
}

/// The fields of a table, each with a dot at its end. A kind, and a latency as it was measured, stand for their whole table, since they set all of it.
fn leaves(prefix: &str, table: &Table, fields: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            _ if key == "kind" || key == MEASURED => fields.push(prefix.to_owned()),
            Value::Table(inner) => leaves(&format!("{prefix}{key}."), inner, fields),
            _ => fields.push(format!("{prefix}{key}.")),
        }
    }
}

fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::explain;
    use crate::load::parse;
    use crate::scenario::Scenario;

    const TWO: &str = "description = \"What it is.\"\n[vary]\n\
        clients = [{ workload.clients = 1 }, { workload.clients = 2 }, { workload.clients = 3 }]\n\
        cache = [{}, { device = { cache = \"write_through\", fua = false } }]\n";

    fn load(text: &str, sets: &[&str]) -> Result<Scenario, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        parse("a.toml", "a", text.to_owned(), None, &sets).map_err(|error| error.to_string())
    }

    fn drawn(text: &str, sets: &[&str], seed: u64) -> Scenario {
        let scenario = load(text, sets).unwrap();
        scenario.of_seed(seed).unwrap().into_owned()
    }

    /// Goal: seeds take everything there is, in every combination, and the same seed always the same.
    #[test]
    fn each_seed_takes_its_own_and_always_the_same() {
        let taken = |seed| {
            let scenario = drawn(TWO, &[], seed);
            assert_eq!(scenario, drawn(TWO, &[], seed));
            assert!(!scenario.varies());
            assert_eq!(
                (scenario.run.seeds.start, scenario.run.seeds.count()),
                (seed, 1)
            );
            (
                scenario.workload.clients,
                format!("{:?}", scenario.device.cache),
            )
        };
        let all: BTreeSet<_> = (0..60).map(taken).collect();
        assert_eq!(all.len(), 6, "{all:?}");
    }

    /// Goal: a person can tell what a seed took, and the scenario that is printed for it is that scenario.
    #[test]
    fn what_was_taken_is_said_and_loads_again() {
        for seed in 0..10 {
            let scenario = drawn(TWO, &[], seed);
            let at = scenario.workload.clients - 1;
            let said = format!("What it is. Seed {seed} took cache[");
            assert!(
                scenario.description.starts_with(&said),
                "{}",
                scenario.description
            );
            assert!(scenario.description.ends_with(&format!("clients[{at}].")));
            assert_eq!(load(&explain(&scenario), &[]).unwrap(), scenario);
        }
    }

    /// Goal: a dimension more changes nothing of what seeds took of the others, so that known seeds stay known.
    #[test]
    fn a_further_dimension_changes_no_other() {
        let more = format!("{TWO}a = [{{ run.crashes = 1 }}, {{ run.crashes = 2 }}]\n");
        for seed in 0..20 {
            let (few, many) = (drawn(TWO, &[], seed), drawn(&more, &[], seed));
            assert_eq!(few.workload, many.workload);
            assert_eq!(few.device, many.device);
        }
    }

    /// Goal: the command line is the strongest layer, above what a seed takes.
    #[test]
    fn the_command_line_wins() {
        for seed in 0..10 {
            assert_eq!(
                drawn(TWO, &["workload.clients=7"], seed).workload.clients,
                7
            );
        }
    }

    /// Goal: an alternative may name a profile, and what the file says of the device stays above it.
    #[test]
    fn a_profile_may_differ() {
        let text = "[device]\nqueue_depth = 3\n[vary]\nprofile = [{ profile = \"hard_disk\" }, { profile = \"nvme_datacentre\" }]\n";
        let caches: BTreeSet<String> = (0..20)
            .map(|seed| drawn(text, &[], seed).device)
            .map(|device| {
                assert_eq!(device.queue_depth, 3);
                format!("{:?} {:?}", device.cache, device.timing.flush)
            })
            .collect();
        assert_eq!(caches.len(), 2, "{caches:?}");
        let wrong = load("[vary]\np = [{}, { profile = \"hard_dis\" }]\n", &[]).unwrap_err();
        assert!(
            wrong.contains("a.toml:2:22") && wrong.contains("did you mean `hard_disk`?"),
            "{wrong}"
        );
    }

    /// Goal: what does not fit together is drawn again, and if nothing does, the seed, what it took and the field are named.
    #[test]
    fn what_contradicts_itself_is_drawn_again() {
        let text = "[vary]\n\
            cache = [{ device.cache = \"write_through\" }, { device.cache = \"volatile\" }]\n\
            lies = [{}, { faults.flush_lie = 0.5 }]\n";
        let taken = |seed| {
            let scenario = drawn(text, &[], seed);
            (
                format!("{:?}", scenario.device.cache),
                scenario.faults.flush_lie > 0.0,
            )
        };
        let all: BTreeSet<_> = (0..60).map(taken).collect();
        assert_eq!(
            all.len(),
            3,
            "all but a flush that lies and has nothing to do: {all:?}"
        );

        let ruled_out = ["device.cache=write_through", "faults.flush_lie=0.5"];
        let never = load(text, &ruled_out)
            .unwrap()
            .of_seed(9)
            .unwrap_err()
            .to_string();
        for part in [
            "`faults.flush_lie` is asked of a device",
            "seed 9 drew 100 times from [vary]",
        ] {
            assert!(never.contains(part), "{never}");
        }
        let text = text.replace(", { device.cache = \"volatile\" }", "");
        let never = load(&text, &[]).unwrap_err();
        for part in [
            "a.toml:3:34",
            "it contradicts every combination of the other dimensions of [vary]",
        ] {
            assert!(never.contains(part), "{never}");
        }
    }

    /// Goal: the file need not be right without what every seed adds to it.
    #[test]
    fn the_file_by_itself_need_not_fit_together() {
        let text = "device.cache = \"write_through\"\nfaults.flush_lie = 0.5\n\
            [vary]\nc = [{ device.cache = \"volatile\" }, { device.cache = \"volatile\", device.fua = true }]\n";
        assert!(drawn(text, &[], 1).faults.flush_lie > 0.0);
    }

    /// Goal: an option that mutants are switched on with is seen wherever it is set.
    #[test]
    fn options_of_alternatives_are_known() {
        let text = "[vary]\nm = [{}, { guest.options.mutant = \"x\" }]\n";
        let scenario = load(text, &[]).unwrap();
        assert!(scenario.may_set_option("mutant") && !scenario.may_set_option("other"));
    }

    /// Goal: each mistake is seen when the file is loaded, at its place. Method: one of each kind, in an alternative that few seeds take.
    #[test]
    fn mistakes_are_shown_at_their_place() {
        for (text, place, message) in [
            ("vary = 3\n", "1:8", "`vary` is no table"),
            (
                "[vary]\na = { run.crashes = 1 }\n",
                "2:5",
                "`vary.a` is no list",
            ),
            (
                "[vary]\na = []\n",
                "2:5",
                "`vary.a` has nothing to choose from",
            ),
            ("[vary]\na = [{}, 3]\n", "2:10", "`vary.a[1]` is no table"),
            (
                "[vary]\na = [{}, { run.crashs = 3 }]\n",
                "2:16",
                "unknown field `crashs`",
            ),
            (
                "[vary]\na = [{}, { run.crashes = \"x\" }]\n",
                "2:26",
                "`run.crashes` cannot be string \"x\"",
            ),
            (
                "[vary]\na = [{}, { run.seeds = 3 }]\n",
                "2:24",
                "`run.seeds` cannot differ from seed to seed",
            ),
            (
                "[vary]\na = [{}, { run.crash_in_recovery = 2.0 }]\n",
                "2:36",
                "`run.crash_in_recovery` is 2",
            ),
            (
                "[vary]\na = [{}, { devise.fua = true }]\n",
                "2:12",
                "unknown field `devise`",
            ),
            (
                "[vary]\na = [{ expect = \"pass\" }]\n",
                "2:17",
                "`expect` cannot differ from seed to seed",
            ),
            (
                "[vary]\na = [{ device.fua = true }]\nb = [{}, { device.fua = false }]\n",
                "3:5",
                "`device.fua` is set by `vary.b`, and by `vary.a` too",
            ),
            (
                "[vary]\na = [{ workload.kind = \"batch\" }]\nb = [{ workload.keys = 7 }]\n",
                "3:5",
                "`workload.keys` is set by `vary.b`, and by `vary.a` too",
            ),
        ] {
            let wrong = load(text, &[]).unwrap_err();
            let place = format!("--> a.toml:{place}\n");
            assert!(wrong.contains(&place) && wrong.contains(message), "{wrong}");
        }
    }
}
