//! `kvsim explore` and `kvsim merge` as a user runs them.

use serde_json::Value;

use crate::ends;

const FEW: [&str; 3] = [
    "scenarios/explore_small.toml",
    "--set",
    "explore.operations=4",
];

fn explore(more: &[&str]) -> Vec<String> {
    let all = [&["explore"], &FEW[..], more].concat();
    all.into_iter().map(str::to_owned).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn arguments(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Goal: a person sees how many states there were, were new and were judged; nothing is violated. Method: a short recording.
#[test]
fn the_summary_says_what_was_explored() {
    let ended = ends(&arguments(&explore(&[])), 0, &[]);
    for label in ["crash points", "possible", "skipped", "distinct", "checked"] {
        assert!(ended.line(label).is_some(), "{label}: {ended:#?}");
    }
    assert_eq!(
        ended
            .line("distinct")
            .and_then(|line| line.split(' ').next()),
        ended
            .line("checked")
            .and_then(|line| line.split(' ').next()),
    );
}

/// Goal: parts from several machines make one result. Method: two shards as JSON in files, merged, against the whole.
#[test]
fn shards_are_merged_from_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut files = Vec::new();
    for shard in ["0/2", "1/2"] {
        let ended = ends(&arguments(&explore(&["--json", "--shard", shard])), 0, &[]);
        let file = directory.path().join(shard.replace('/', "-"));
        std::fs::write(&file, &ended.stdout).expect("it can be written");
        files.push(file.display().to_string());
    }
    let whole = json(&ends(&arguments(&explore(&["--json"])), 0, &[]).stdout);
    let merged = ends(&["merge", "--json", &files[1], &files[0]], 0, &[]);
    let merged = json(&merged.stdout);
    let of = |document: &Value, field: &str| document["explorations"][0][field].clone();
    for field in ["total", "points", "depths", "recorded", "verdict", "shard"] {
        assert_eq!(of(&merged, field), of(&whole, field), "{field}");
    }
    ends(&["merge", &files[0]], 2, &["shard 1/2 is missing"]);
    ends(&["merge", "README.md"], 2, &["kvsim.explore/2"]);
}

/// Goal: a shard that cannot be is a wrong usage. Method: one past the last, none at all, nonsense.
#[test]
fn impossible_shards_are_wrong_usage() {
    for (shard, what) in [
        ("2/2", "the last one is 1/2"),
        ("0/0", "is no shard"),
        ("one", "is no shard"),
    ] {
        ends(&arguments(&explore(&["--shard", shard])), 2, &[what]);
    }
}

/// Goal: bounds are held to their ranges, at their place. Method: a depth that there is not.
#[test]
fn a_bound_out_of_range_is_shown() {
    let ended = explore(&["--set", "explore.depth=4"]);
    ends(
        &arguments(&ended),
        2,
        &["`explore.depth` is 4", "from 1 to 3"],
    );
}

/// Goal: what the states never reached is listed, and is exit 3 for the strict unless the scenario says that it cannot be reached.
/// Method: a recording so short that nothing large is ever written.
#[test]
fn what_was_never_reached_is_said() {
    let ended = ends(&arguments(&explore(&["--json"])), 0, &[]);
    let coverage_points = json(&ended.stdout)["explorations"][0]["coverage_points"].clone();
    let of = |name: &str| {
        let coverage_points = coverage_points.as_array().expect("a list");
        let found = coverage_points
            .iter()
            .find(|coverage_point| coverage_point["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert!(of("recovery.epoch_made")["reached"].as_u64() > Some(0));
    assert_eq!(of("create.blank")["recorded"], 1);
    assert_eq!(of("recovery.tail_rewritten_extent")["reached"], 0);
    let missed = "recovery.tail_rewritten_extent";
    let unlisted = ["--set", "coverage.unreachable=[]"];
    let lax = explore(&unlisted);
    ends(&arguments(&lax), 0, &["coverage points", missed]);
    let strict = explore(&[&unlisted[..], &["--strict"]].concat());
    ends(
        &arguments(&strict),
        3,
        &["INCONCLUSIVE", "never reached: ", missed],
    );
    let never: Vec<String> = coverage_points
        .as_array()
        .expect("a list")
        .iter()
        .filter(|coverage_point| {
            coverage_point["reached"] == 0 && coverage_point["recorded"].is_null()
        })
        .map(|coverage_point| coverage_point["name"].to_string())
        .collect();
    let told = format!("coverage.unreachable=[{}]", never.join(","));
    ends(
        &arguments(&explore(&["--strict", "--set", &told])),
        0,
        &["PASS"],
    );
}

/// Goal: an exploration ends when its time is over, says how far it came and how deep it looked, and is no full one for the strict.
/// Method: far more states than a second is enough for, and a few that it is.
#[test]
fn an_exploration_ends_when_its_time_is_over() {
    let long = [
        "explore",
        "scenarios/explore_small.toml",
        "--set",
        "explore.depth=2",
        "--for",
        "1s",
    ];
    ends(
        &long,
        0,
        &["PASS", "2 crashes deep", "the time ended after"],
    );
    let strict = [&long[..], &["--strict"]].concat();
    ends(&strict, 3, &["INCONCLUSIVE", "the time ended after"]);
    let ended = ends(&arguments(&explore(&["--for", "1h"])), 0, &["1 crash deep"]);
    assert!(!ended.stdout.contains("the time ended"), "{ended:#?}");
}
