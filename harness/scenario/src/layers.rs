//! Where each field of a scenario comes from: the profile, the scenario's file, `--set` on the command line.
//!
//! The layers are merged into one table, later ones winning, and that table is deserialised. An error is then known by
//! the path of its field. The path is looked up in the layers again, last one first, to point at the line that sets the
//! field.

use std::ops::Range;
use std::sync::Arc;

use kvsim_fs::FileConfig;
use kvsim_simdisk::DeviceConfig;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::error::{Diagnostic, Place, ScenarioError, nearest};
use crate::run_config::{GuestConfig, HostConfig};

/// Of a latency: what is drawn from, whatever else is said.
pub(crate) const MEASURED: &str = "means_ns";

/// One source text, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    /// What to call it in an error.
    pub(crate) source: String,
    /// The TOML; that of a whole file is shared by its parts.
    pub(crate) text: Arc<str>,
    /// The table of the scenario that this text's top level is: `device` for a profile. What stands in [`BESIDE`] is meant as it
    /// is there too.
    pub(crate) prefix: Option<&'static str>,
    /// Where in the text the table lies that this layer is; at its top level if empty.
    at: Vec<Step>,
    /// The text, or that part of it, as a table.
    pub(crate) table: Table,
}

/// Tables of the scenario that a profile may fill beside its device: the machine around it.
const BESIDE: &[&str] = &["guest", "host"];

/// One step of a path into a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A key of a table.
    Key(String),
    /// A place in an array.
    Index(usize),
}

impl Layer {
    /// Parses `text`; a mistake in its syntax is shown at its place.
    pub(crate) fn parse(
        source: String,
        text: String,
        prefix: Option<&'static str>,
    ) -> Result<Layer, ScenarioError> {
        match text.parse::<Table>() {
            Ok(table) => Ok(Layer {
                source,
                text: text.into(),
                prefix,
                at: Vec::new(),
                table,
            }),
            Err(error) => {
                let message = error.message().lines().collect::<Vec<_>>().join(", ");
                let place = error.span().map(|span| Place { source, text, span });
                Err(wrong(message, place, None, None))
            }
        }
    }

    /// A `path=value` of the command line. What is no TOML value is taken as a string, so `--set run.seeds=1..9` works.
    pub(crate) fn assignment(assignment: &str) -> Result<Layer, ScenarioError> {
        let Some((path, value)) = assignment.split_once('=') else {
            let help = Some("write --set path=value, such as --set run.crashes=100".to_owned());
            return Err(wrong(
                format!("--set {assignment}: no `=` in it"),
                None,
                None,
                help,
            ));
        };
        let (path, value) = (path.trim(), value.trim());
        let bare = format!("{path} = {value}");
        let text = if bare.parse::<Table>().is_ok() {
            bare
        } else {
            format!("{path} = {}", Value::from(value))
        };
        Layer::parse("--set".to_owned(), text, None)
    }

    /// The table that lies at `at` in this layer's text, as a layer of its own.
    pub(crate) fn part(&self, table: Table, at: Vec<Step>) -> Layer {
        Layer {
            at,
            table,
            ..self.clone()
        }
    }

    /// The span of the key and of the value at `path`, if this layer says it.
    fn find(&self, path: &[Step]) -> Option<(Range<usize>, Range<usize>)> {
        let path = match (self.prefix, path.split_first()) {
            (None, _) => path,
            (Some(_), Some((Step::Key(first), _))) if BESIDE.contains(&first.as_str()) => path,
            (Some(prefix), Some((Step::Key(first), rest))) if first == prefix => rest,
            _ => return None,
        };
        let path = [&self.at, path].concat();
        let (first, rest) = path.split_first()?;
        let root = DeTable::parse(&self.text).ok()?;
        let (mut key, mut value) = entry(root.get_ref(), first)?;
        for step in rest {
            match (value.get_ref(), step) {
                (DeValue::Table(table), step) => (key, value) = entry(table, step)?,
                (DeValue::Array(array), Step::Index(index)) => {
                    value = array.get(*index)?;
                    key = value.span();
                }
                _ => return None,
            }
        }
        Some((key, value.span()))
    }
}

fn entry<'t, 'i>(
    table: &'t DeTable<'i>,
    step: &Step,
) -> Option<(Range<usize>, &'t Spanned<DeValue<'i>>)> {
    let Step::Key(name) = step else { return None };
    table
        .iter()
        .find(|(key, _)| key.get_ref() == name)
        .map(|(key, value)| (key.span(), value))
}

/// All layers, the weakest first, above the default device.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    /// What even the weakest layer is laid over: a latency has no defaults of its own, for each has another.
    base: Table,
    /// The layers.
    pub(crate) layers: Vec<Layer>,
}

impl Layers {
    /// These layers above the default latencies.
    pub(crate) fn new(layers: Vec<Layer>) -> Layers {
        let mut base = Table::new();
        if let Ok(device) = Table::try_from(DeviceConfig::default()) {
            base.insert("device".to_owned(), Value::Table(device));
        }
        let guest = GuestConfig::default();
        if let Ok(turn) = Table::try_from(guest.client_turn) {
            let table = Table::from_iter([("client_turn".to_owned(), Value::Table(turn))]);
            base.insert("guest".to_owned(), Value::Table(table));
        }
        let host = HostConfig::default();
        if let Ok(client) = Table::try_from(host.client) {
            let table = Table::from_iter([("client".to_owned(), Value::Table(client))]);
            base.insert("host".to_owned(), Value::Table(table));
        }
        Layers { base, layers }
    }

    /// The merged table.
    pub(crate) fn merged(&self) -> Table {
        let mut merged = self.base.clone();
        for layer in &self.layers {
            match layer.prefix {
                None => merge(&mut merged, &layer.table),
                Some(prefix) => {
                    let (beside, own): (Table, Table) = layer
                        .table
                        .clone()
                        .into_iter()
                        .partition(|(key, _)| BESIDE.contains(&key.as_str()));
                    let mut wrapped = beside;
                    wrapped.insert(prefix.to_owned(), Value::Table(own));
                    merge(&mut merged, &wrapped);
                }
            }
        }
        if let Some(own) = merged.remove("files") {
            merged.insert(
                "files".to_owned(),
                over_default_files(own, merged.get("device")),
            );
        }
        merged
    }

    /// Tables that describe a block device, in a scenario that has files: the first one that is said, if any is.
    pub(crate) fn device_beside_files(&self) -> Option<&'static str> {
        let says = |table: &str| {
            let mut own = self.layers.iter().filter(|layer| layer.prefix.is_none());
            own.any(|layer| layer.table.contains_key(table))
        };
        let of_device = ["device", "faults"];
        let found = of_device.into_iter().find(|table| says(table));
        found.filter(|_| says("files"))
    }

    /// The place that says the value at `path`, or its key.
    pub(crate) fn place(&self, path: &[Step], of_key: bool) -> Option<Place> {
        self.layers.iter().rev().find_map(|layer| {
            let (key, value) = layer.find(path)?;
            let span = if of_key { key } else { value };
            Some(Place {
                source: layer.source.clone(),
                text: layer.text.to_string(),
                span,
            })
        })
    }

    /// The place of the deepest part of `path` that any layer says.
    fn nearest_place(&self, path: &[Step]) -> Option<Place> {
        (1..=path.len())
            .rev()
            .find_map(|len| self.place(&path[..len], false))
    }

    /// Turns what serde said about `path` into something for a person.
    pub(crate) fn explain_serde(
        &self,
        path: &[Step],
        message: &str,
        known: &[String],
    ) -> ScenarioError {
        let message = message.trim();
        let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
        let candidates: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let subject = what.split('`').nth(1).unwrap_or_default();
        if what.starts_with("unknown field") || what.starts_with("missing field") {
            let mut full = path.to_vec();
            if full.last() != Some(&Step::Key(subject.to_owned())) {
                full.push(Step::Key(subject.to_owned()));
            }
            let place = self.place(&full, true).or_else(|| self.nearest_place(path));
            let help = (!what.starts_with("missing"))
                .then(|| field_help(&full, subject, &candidates, known))
                .flatten();
            return wrong(what.to_owned(), place, Some(dotted(&full)), help);
        }
        let place = self.nearest_place(path);
        let field = dotted(path);
        let mut text = what.to_owned();
        let mut help = None;
        if what.starts_with("unknown variant") {
            text = format!("`{field}` cannot be `{subject}`");
            help = Some(match nearest(subject, candidates.iter().copied()) {
                Some(near) => format!(
                    "did you mean `{near}`? Possible are {}",
                    listed(&candidates)
                ),
                None => format!("possible are {}", listed(&candidates)),
            });
        } else if what.starts_with("invalid type") || what.starts_with("invalid value") {
            let found = what.split_once(": ").map_or(what, |(_, found)| found);
            text = format!("`{field}` cannot be {found}");
            help = Some(format!("it must be {}", in_words(expected)));
        }
        wrong(text, place, Some(field), help)
    }

    /// An error about a field that is well formed and cannot be, at the first of `paths` that any layer says.
    pub(crate) fn problem(
        &self,
        paths: &[&str],
        message: String,
        help: Option<String>,
    ) -> ScenarioError {
        let place = paths
            .iter()
            .find_map(|path| self.place(&parse_path(path), false));
        let place = place.or_else(|| {
            paths
                .iter()
                .find_map(|path| self.nearest_place(&parse_path(path)))
        });
        wrong(
            message,
            place,
            paths.first().map(|path| (*path).to_owned()),
            help,
        )
    }
}

fn wrong(
    message: String,
    place: Option<Place>,
    field: Option<String>,
    help: Option<String>,
) -> ScenarioError {
    ScenarioError::Wrong(Box::new(Diagnostic {
        message,
        place,
        field,
        notes: Vec::new(),
        help,
    }))
}

/// What is said of files, laid over the defaults with the timing of the device.
fn over_default_files(own: Value, device: Option<&Value>) -> Value {
    let Value::Table(own) = own else { return own };
    let Ok(mut base) = Table::try_from(FileConfig::default()) else {
        return Value::Table(own);
    };
    if let Some(timing) = device.and_then(|device| device.get("timing")) {
        base.insert("timing".to_owned(), timing.clone());
    }
    // A profile is a name or a table of rules, and not something between two of them.
    if let Some(profile) = own.get("profile") {
        base.insert("profile".to_owned(), profile.clone());
    }
    merge(&mut base, &own);
    Value::Table(base)
}

/// Later fields win; tables are merged, except where they are of different kinds and so have different fields. A latency that
/// was measured in groups below is not, once anything else is said of it.
fn merge(base: &mut Table, overlay: &Table) {
    if !overlay.contains_key(MEASURED) {
        base.remove(MEASURED);
    }
    for (key, value) in overlay {
        match (base.get_mut(key), value) {
            (Some(Value::Table(under)), Value::Table(over)) if !changes_kind(under, over) => {
                merge(under, over)
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

fn changes_kind(under: &Table, over: &Table) -> bool {
    over.get("kind")
        .is_some_and(|kind| under.get("kind") != Some(kind))
}

fn field_help(
    path: &[Step],
    subject: &str,
    candidates: &[&str],
    known: &[String],
) -> Option<String> {
    if let Some(near) = nearest(subject, candidates.iter().copied()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let here = dotted(path);
    let elsewhere = known
        .iter()
        .find(|known| **known != here && known.rsplit('.').next() == Some(subject));
    if let Some((table, field)) = elsewhere.and_then(|path| path.rsplit_once('.')) {
        return Some(format!("`{field}` belongs in [{table}]"));
    }
    (!candidates.is_empty()).then(|| format!("the fields here are {}", listed(candidates)))
}

fn listed(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A type or an expectation of serde's in words.
fn in_words(expected: &str) -> String {
    let whole = |max: u64| format!("a whole number from 0 to {max}");
    match expected {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i64" | "i32" => "a whole number".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "" => "something else".to_owned(),
        other if other.starts_with("struct ") || other == "a map" => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// The path as it is written in TOML and in `--set`.
pub(crate) fn dotted(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// The opposite of [`dotted`].
pub(crate) fn parse_path(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in path.split(['.', '[']) {
        match part.strip_suffix(']').map(str::parse) {
            Some(Ok(index)) => steps.push(Step::Index(index)),
            _ => steps.push(Step::Key(part.to_owned())),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(texts: &[&str]) -> Layers {
        let layers = texts
            .iter()
            .map(|text| Layer::parse("x.toml".to_owned(), (*text).to_owned(), None).unwrap());
        Layers {
            base: Table::new(),
            layers: layers.collect(),
        }
    }

    #[test]
    fn later_layers_win_field_by_field() {
        let merged = layers(&["[a]\nx = 1\ny = 2", "[a]\ny = 3\n[b]\nz = 4"]).merged();
        assert_eq!(
            merged,
            "[a]\nx = 1\ny = 3\n[b]\nz = 4".parse::<Table>().unwrap()
        );
    }

    /// A table that names another kind replaces the one below it, whose fields mean nothing to it.
    #[test]
    fn a_table_of_another_kind_replaces_the_one_below() {
        let merged = layers(&[
            "a = { kind = \"fixed\", ns = 1 }",
            "a = { kind = \"uniform\", max_ns = 2 }",
        ])
        .merged();
        assert_eq!(
            merged,
            "a = { kind = \"uniform\", max_ns = 2 }"
                .parse::<Table>()
                .unwrap()
        );
    }

    #[test]
    fn what_is_no_toml_is_set_as_a_string() {
        for (assignment, expected) in [
            ("run.seeds=1..9", "run.seeds = \"1..9\""),
            ("run.crashes = 7", "run.crashes = 7"),
            ("profile=hard_disk", "profile = \"hard_disk\""),
            ("a.b=say \"hi\"", "a.b = 'say \"hi\"'"),
        ] {
            assert_eq!(
                Layer::assignment(assignment).unwrap().table,
                expected.parse::<Table>().unwrap()
            );
        }
        assert!(
            Layer::assignment("run.crashes")
                .unwrap_err()
                .to_string()
                .contains("path=value")
        );
    }

    #[test]
    fn paths_are_found_in_the_last_layer_that_says_them() {
        let layers = layers(&["[a]\nx = 1\nl = [1, { y = 2 }]", "a.x = 3"]);
        assert_eq!(layers.place(&parse_path("a.x"), false).unwrap().span, 6..7);
        assert_eq!(
            layers
                .place(&parse_path("a.l[1].y"), true)
                .unwrap()
                .line_column(),
            (3, 11)
        );
        assert_eq!(dotted(&parse_path("a.l[1].y")), "a.l[1].y");
        assert!(layers.place(&parse_path("a.z"), false).is_none());
    }
}
