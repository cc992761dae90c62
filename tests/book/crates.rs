//! The picture of the workspace's crates and their arrows, drawn from `cargo metadata`.
//!
//! A crate stands one row below the lowest of those that use it. An arrow that follows from two others is left out. Dependencies of
//! tests and of build scripts are not drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

use kvsim_tests::root;
use serde_json::Value;

/// Who uses whom, by the names of the crates without `kvsim-`.
type Uses = BTreeMap<String, BTreeSet<String>>;

const ROW: usize = 92;
const BOX: [usize; 2] = [126, 40];
const GAP: usize = 18;

fn short(name: &str) -> String {
    name.strip_prefix("kvsim-").unwrap_or(name).to_owned()
}

/// The crates of the workspace and their ordinary dependencies on each other.
fn uses() -> Uses {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let own: BTreeSet<String> = packages.iter().map(name).collect();
    let of = |package: &Value| {
        let needed = package["dependencies"].as_array().expect("dependencies");
        let ordinary = needed.iter().filter(|needed| needed["kind"].is_null());
        let inner = ordinary.map(name).filter(|name| own.contains(name));
        inner.map(|name| short(&name)).collect()
    };
    packages
        .iter()
        .filter(|package| name(package) != "kvsim-tests")
        .map(|package| (short(&name(package)), of(package)))
        .collect()
}

/// All that a crate uses, itself aside.
fn reach<'a>(uses: &'a Uses, from: &str, seen: &mut BTreeSet<&'a str>) {
    for next in &uses[from] {
        if seen.insert(next) {
            reach(uses, next, seen);
        }
    }
}

/// The arrows that no two others make needless.
fn arrows(uses: &Uses) -> Vec<(&str, &str)> {
    let mut arrows = Vec::new();
    for (from, all) in uses {
        for to in all {
            let by_another = all.iter().filter(|other| *other != to).any(|other| {
                let mut seen = BTreeSet::new();
                reach(uses, other, &mut seen);
                seen.contains(to.as_str())
            });
            if !by_another {
                arrows.push((from.as_str(), to.as_str()));
            }
        }
    }
    arrows
}

/// The row of each crate, from 0 for those that nobody uses.
fn rows(uses: &Uses) -> BTreeMap<&str, usize> {
    let mut rows: BTreeMap<&str, usize> = uses.keys().map(|name| (name.as_str(), 0)).collect();
    for _ in 0..uses.len() {
        for (from, all) in uses {
            for to in all {
                let below = rows[from.as_str()] + 1;
                let row = rows.get_mut(to.as_str()).expect("it is a crate");
                *row = below.max(*row);
            }
        }
    }
    rows
}

/// The picture as SVG.
pub(crate) fn picture() -> String {
    let uses = uses();
    let rows = rows(&uses);
    let arrows = arrows(&uses);
    let depth = rows.values().max().copied().unwrap_or(0) + 1;
    let mut lines: Vec<Vec<&str>> = vec![Vec::new(); depth];
    for (name, row) in &rows {
        lines[*row].push(name);
    }
    let widest = lines.iter().map(Vec::len).max().unwrap_or(1);
    let width = widest * (BOX[0] + GAP) + GAP;
    let mut place: BTreeMap<&str, f64> = BTreeMap::new();
    // Each row in the order of the mean place of those that use it, so that few arrows cross.
    for line in &mut lines {
        let wanted = |name: &str| {
            let users: Vec<f64> = arrows
                .iter()
                .filter(|(_, to)| *to == name)
                .filter_map(|(from, _)| place.get(from).copied())
                .collect();
            match users.len() {
                0 => 0.0,
                count => users.iter().sum::<f64>() / count as f64,
            }
        };
        line.sort_by(|one, other| wanted(one).total_cmp(&wanted(other)).then(one.cmp(other)));
        let step = width as f64 / line.len() as f64;
        for (at, name) in line.iter().enumerate() {
            place.insert(name, step * (at as f64 + 0.5));
        }
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" role=\"img\" aria-label=\"The crates of kvsim and who uses whom\">\n\
         <style>text{{font:14px sans-serif;fill:#1a1a1a}}.box{{fill:#eef3fa;stroke:#3b6ea8;stroke-width:1.5}}.line{{stroke:#666;stroke-width:1.2;fill:none}}</style>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"#666\"/></marker></defs>\n\
         <rect width=\"{width}\" height=\"{}\" fill=\"#ffffff\"/>\n",
        depth * ROW,
        depth * ROW,
    );
    let top = |name: &str| rows[name] * ROW + (ROW - BOX[1]) / 2;
    for (from, to) in &arrows {
        let (y1, y2) = (top(from) + BOX[1], top(to));
        let (x1, x2) = (place[from], place[to]);
        let bend = (y1 + y2) / 2;
        writeln!(
            svg,
            "<path class=\"line\" d=\"M{x1:.0} {y1} C{x1:.0} {bend} {x2:.0} {bend} {x2:.0} {y2}\" marker-end=\"url(#a)\"/>"
        )
        .expect("it is a string");
    }
    for name in rows.keys() {
        let (x, y) = (place[name], top(name));
        let left = x - BOX[0] as f64 / 2.0;
        writeln!(
            svg,
            "<rect class=\"box\" x=\"{left:.0}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"/><text x=\"{x:.0}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            BOX[0],
            BOX[1],
            y + 25,
        )
        .expect("it is a string");
    }
    svg.push_str("</svg>\n");
    svg
}
