//! The dotted paths of a scenario's fields.

use kvsim_fs::FileConfig;

use crate::explain::describe;
use crate::scenario::Scenario;

/// The paths that `--set` takes, and what each field means. The options of a guest are its own, so their paths end with a dot.
#[must_use]
pub fn set_paths() -> Vec<(String, &'static str)> {
    let known = known_fields();
    let is_table = |path: &str| {
        let inner = format!("{path}.");
        known.iter().any(|known| known.starts_with(&inner))
    };
    const OPEN: [&str; 5] = [
        "guest.options",
        "guest.options_for",
        "guest.reopen_for",
        "guest.policies",
        "host.options",
    ];
    let leaves = known.iter().filter(|path| !is_table(path));
    leaves
        .map(|path| {
            let meaning = describe(path).unwrap_or_default();
            let open = OPEN.contains(&path.as_str());
            (format!("{path}{}", if open { "." } else { "=" }), meaning)
        })
        .collect()
}

/// The dotted paths of all fields that a scenario with nothing in it has.
pub(crate) fn known_fields() -> Vec<String> {
    fn walk(prefix: &str, table: &toml::Table, fields: &mut Vec<String>) {
        for (key, value) in table {
            let path = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            if let toml::Value::Table(inner) = value {
                walk(&path, inner, fields);
            }
            fields.push(path);
        }
    }
    let mut fields = vec!["profile".to_owned()];
    let all = Scenario {
        files: Some(FileConfig::default()),
        ..Scenario::default()
    };
    if let Ok(table) = toml::Table::try_from(all) {
        walk("", &table, &mut fields);
    }
    fields
}
