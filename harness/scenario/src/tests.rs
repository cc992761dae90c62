//! The format as a whole: what is shown for a mistake, and that an explained scenario is the same scenario.

use std::path::Path;

use super::*;
use crate::paths::known_fields;

fn scenario(text: &str, sets: &[&str]) -> Result<Scenario, String> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    parse("a.toml", "a", text.to_owned(), None, &sets).map_err(|error| error.to_string())
}

fn mistake(text: &str) -> String {
    scenario(text, &[]).expect_err("a mistake must be seen")
}

/// Goal: a person sees the place and the way out. Method: one mistake of each kind, against the whole text that is shown.
#[test]
fn mistakes_are_shown_with_line_caret_and_suggestion() {
    let cases = [
        (
            "[run]\ncrashs = 7\n",
            "error: unknown field `crashs`\n --> a.toml:2:1\n  |\n2 | crashs = 7\n  | ^^^^^^\n  = help: did you mean `crashes`?",
        ),
        (
            "clients = 4\n",
            "error: unknown field `clients`\n --> a.toml:1:1\n  |\n1 | clients = 4\n  | ^^^^^^^\n  = help: `clients` belongs in [workload]",
        ),
        (
            "[run]\ncrashes = \"many\"\n",
            "error: `run.crashes` cannot be string \"many\"\n --> a.toml:2:11\n  |\n2 | crashes = \"many\"\n  |           ^^^^^^\n  = help: it must be a whole number, 0 or more",
        ),
        (
            "[run]\ncrash_clock = \"uniforn\"\n",
            "error: `run.crash_clock` cannot be `uniforn`\n --> a.toml:2:15\n  |\n2 | crash_clock = \"uniforn\"\n  |               ^^^^^^^^^\n  = help: did you mean `uniform`? Possible are `uniform`, `geometric`, `fixed`",
        ),
        (
            "[run]\nseeds = \"9..1\"\n",
            "error: `9..1` holds no seed; the end is not included, so one seed N is N..N+1 or just N\n --> a.toml:2:9\n  |\n2 | seeds = \"9..1\"\n  |         ^^^^^^",
        ),
        (
            "[run]\ncrash_in_recovery = 1.5\n",
            "error: `run.crash_in_recovery` is 1.5\n --> a.toml:2:21\n  |\n2 | crash_in_recovery = 1.5\n  |                     ^^^\n  = help: a probability is from 0.0 to 1.0",
        ),
        (
            "[run]\ncrashes = 7\n[run]\n",
            "error: duplicate key\n --> a.toml:3:2\n  |\n3 | [run]\n  |  ^^^",
        ),
        (
            "profile = \"apple_m4_fullflush\"\n",
            "error: no such profile: apple_m4_fullflush\n --> a.toml:1:11\n  |\n1 | profile = \"apple_m4_fullflush\"\n  |           ^^^^^^^^^^^^^^^^^^^^\n  = looked at: the built-in profiles\n  = help: did you mean `apple_m4_full_flush`?",
        ),
        (
            "[device]\ncapacity_bytes = 1_048_576\n[workload]\nkind = \"ycsb_a\"\nkeys = 10_000\n",
            "error: 10,000 records to preload are 9.6 MiB, and the device holds 1 MiB\n --> a.toml:5:8\n  |\n5 | keys = 10_000\n  |        ^^^^^^\n  = help: give `device.capacity_bytes` or `device.max_capacity_bytes` more",
        ),
        (
            "profile = \"nvme_datacentre\"\n[faults]\nflush_lie = 0.1\n",
            "error: `faults.flush_lie` is asked of a device whose flush has nothing to do; it needs device.cache = \"volatile\"\n --> a.toml:3:13\n  |\n3 | flush_lie = 0.1\n  |             ^^^",
        ),
        (
            "expect = \"violates prefx\"\n",
            "error: a scenario cannot end so: `violates prefx`; did you mean `violates prefix`?\n --> a.toml:1:10\n  |\n1 | expect = \"violates prefx\"\n  |          ^^^^^^^^^^^^^^^^",
        ),
    ];
    for (text, shown) in cases {
        assert_eq!(mistake(text), shown, "\n{}\n", mistake(text));
    }
}

/// A mistake in a profile or in an assignment is shown there, not in the scenario.
#[test]
fn mistakes_are_shown_in_the_layer_that_makes_them() {
    let shown = scenario(
        "profile = \"hard_disk\"\n",
        &["device.timing.flush.p50_ns=1"],
    )
    .unwrap_err();
    assert!(shown.contains("--> --set:1:"), "{shown}");
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("profiles")).unwrap();
    let profile = directory.path().join("profiles/mine.toml");
    std::fs::write(&profile, "sector_bytes = 512\nqueue_deepth = 3\n").unwrap();
    let file = directory.path().join("s.toml");
    std::fs::write(&file, "profile = \"mine\"\n").unwrap();
    let shown = load(&file, &[]).unwrap_err().to_string();
    assert!(
        shown.contains(&format!("--> {}:2:1", profile.display())),
        "{shown}"
    );
    assert!(shown.contains("did you mean `queue_depth`?"), "{shown}");
}

/// Profile, file and assignment, the later winning field by field.
#[test]
fn a_scenario_is_laid_over_its_profile_and_assignments_over_both() {
    let text = "profile = \"hard_disk\"\n[device.timing.flush]\nmax_ns = 200_000_000\n[workload]\nclients = 3\n";
    let scenario = scenario(
        text,
        &[
            "workload.clients=5",
            "run.seeds=3..=4",
            "guest.options.group_wait=auto",
        ],
    )
    .unwrap();
    assert_eq!(scenario.device.timing.flush.max_ns, 200_000_000);
    assert_eq!(scenario.device.timing.flush.min_ns, 4_000_000);
    assert!(scenario.device.fua && !scenario.device.discard);
    assert_eq!(scenario.workload.clients, 5);
    assert_eq!(scenario.run.seeds, SeedRange { start: 3, end: 5 });
    assert_eq!(
        scenario.guest.options["group_wait"],
        OptionText("auto".to_owned())
    );
    assert_eq!(scenario.name, "a");
}

#[test]
fn a_scenario_that_is_not_there_is_looked_for_and_a_near_one_is_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("powercut.toml"), "").unwrap();
    let wanted = directory.path().join("powrcut");
    let shown = load(&wanted, &[]).unwrap_err().to_string();
    let (wanted, there) = (wanted.display(), directory.path().join("powercut.toml"));
    assert_eq!(
        shown,
        format!(
            "error: no such scenario: {wanted}\n  looked at: {wanted}\n  looked at: {wanted}.toml\n  looked at: the built-in scenarios (kvsim scenarios)\n  = help: did you mean `{}`?",
            there.display()
        )
    );
    let found = load(&directory.path().join("powercut"), &[]).unwrap();
    assert_eq!(found.name, "powercut");
}

fn shipped() -> Vec<std::path::PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files
}

/// Goal: what `explain` prints is the scenario. Method: every shipped scenario, printed and loaded again.
#[test]
fn an_explained_scenario_loads_again_to_the_same_scenario() {
    let files = shipped();
    assert!(
        files.len() >= 15,
        "only {} scenarios are shipped",
        files.len()
    );
    for file in files {
        let loaded = load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        for seed in 1..if loaded.varies() { 9 } else { 2 } {
            let scenario = loaded.of_seed(seed).unwrap();
            let text = explain(&scenario);
            let again = parse("explained", "", text.clone(), None, &[])
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(again, *scenario, "{}", file.display());
        }
    }
}

/// Goal: nobody has to guess what a field is for. Method: every field of the default scenario has its line, each line its
/// field, and the book's reference names every field.
#[test]
fn every_field_is_described_in_explain_and_in_the_book() {
    let page = include_str!("../../../book/src/scenarios.md");
    for field in known_fields() {
        assert!(
            explain::describe(&field).is_some(),
            "{field} has no comment"
        );
        let name = field.rsplit('.').next().unwrap();
        assert!(
            page.contains(&format!("`{name}`")) || page.contains(&format!("[{field}]")),
            "{field} is not in the book"
        );
    }
    let optional = [
        "guest.options.*",
        "guest.options_for.*",
        "guest.options_for.*.*",
        "guest.reopen_for.*",
        "guest.reopen_for.*.*",
        "guest.policies.*",
        "host.options.*",
        "check.relaxed_window_ns",
        "faults.left_out",
        "files.left_out",
        "files.stale_blocks",
        "files.left_out.place",
        "files.left_out.nth",
        "faults.script.op",
        "faults.script.kind",
    ];
    let known = known_fields();
    for (field, _) in FIELDS
        .iter()
        .filter(|(field, _)| !field.starts_with("*."))
        .filter(|(field, _)| !field.starts_with("failure") && !field.starts_with("case"))
    {
        assert!(
            known.iter().any(|known| known == field) || optional.contains(field),
            "{field} is described and is not there"
        );
    }
}

/// Every shipped profile makes a legal device and says where its figures are from.
#[test]
fn every_profile_is_legal_and_names_its_source() {
    for (name, text) in BUILTIN_PROFILES {
        scenario(&format!("profile = \"{name}\"\n"), &[]).unwrap_or_else(|error| panic!("{error}"));
        assert!(text.contains("# Source: "), "{name}");
    }
}

/// Goal: a profile may say what the machine around its device takes, and what a later layer says of a measured latency counts.
/// Method: a profile with both, and assignments on top.
#[test]
fn a_profile_brings_its_machine_and_later_layers_win() {
    let directory = tempfile::tempdir().unwrap();
    let means = vec!["500"; 18].join(", ");
    let latency = "min_ns = 1, p50_ns = 2, p90_ns = 3, p99_ns = 4, p999_ns = 5, max_ns = 900";
    let profile = format!(
        "queue_depth = 3\n[timing]\nread = {{ {latency}, means_ns = [{means}] }}\n[guest]\ncpu_ps_per_fuel = 77\nclient_turn = {{ {latency} }}\n"
    );
    let path = directory.path().join("mine.toml");
    std::fs::write(&path, profile).unwrap();
    let text = "profile = \"./mine.toml\"\n".to_owned();
    let load = |sets: &[String]| parse("s", "s", text.clone(), Some(directory.path()), sets);
    let scenario = load(&[]).unwrap();
    assert_eq!(scenario.device.queue_depth, 3);
    assert_eq!(scenario.guest.cpu_ps_per_fuel, 77);
    assert_eq!(scenario.guest.client_turn.p99_ns, 4);
    assert_eq!(scenario.device.timing.read.means_ns, Some([500; 18]));
    let changed = load(&[
        "guest.cpu_ps_per_fuel=78".to_owned(),
        "device.timing.read.p50_ns=3".to_owned(),
    ])
    .unwrap();
    assert_eq!(changed.guest.cpu_ps_per_fuel, 78);
    assert_eq!(changed.device.timing.read.means_ns, None);
    let wrong = load(&["guest.client_turn.p50_ns=901".to_owned()]).unwrap_err();
    assert!(wrong.to_string().contains("client_turn"), "{wrong}");
    std::fs::write(&path, "[guest]\ncpu_ps_per_fuell = 77\n").unwrap();
    let wrong = load(&[]).unwrap_err().to_string();
    assert!(
        wrong.contains("mine.toml:2") && wrong.contains("cpu_ps_per_fuel"),
        "{wrong}"
    );
}

/// Goal: a moment is read as it is printed, and nothing else is taken for one. Method: each unit, and near misses.
#[test]
fn moments_are_read_as_they_are_printed() {
    for (text, ns) in [
        ("12.345678ms", 12_345_678),
        ("12.345678 ms", 12_345_678),
        ("350us", 350_000),
        ("0.5µs", 500),
        ("2s", 2_000_000_000),
        ("80ns", 80),
    ] {
        assert_eq!(kvsim_api::units::parse_moment(text), Ok(ns), "{text}");
    }
    for text in [
        "",
        "12",
        "ms",
        ".5ms",
        "1.2ns",
        "1.2.3ms",
        "-1s",
        "1h",
        "99999999999999s",
    ] {
        assert!(kvsim_api::units::parse_moment(text).is_err(), "{text}");
    }
}

/// Goal: what is judged by one value for the whole run cannot change when a guest is opened anew, and other options can. Method: one of each, and what the world gets.
#[test]
fn what_is_judged_by_does_not_change_at_reopening() {
    let table = |option: &str| {
        format!("[guest.reopen_for]\nmine = [{{}}, {{ cache_bytes = 0 }}, {{ {option} }}]\n")
    };
    for option in ["max_value_bytes", "usable_percent", "relaxed_window_ns"] {
        let shown = mistake(&table(&format!("{option} = 1")));
        let expected = format!("`guest.reopen_for.mine` changes the option `{option}`");
        assert!(shown.contains(&expected), "{shown}");
    }
    let sound = scenario(&table("commit = \"flush\""), &[]).unwrap();
    assert_eq!(sound.guest.reopen_of("mine").count(), 3);
    assert_eq!(sound.guest.reopen_of("another").count(), 0);
    let last = sound.guest.reopen_of("mine").last().unwrap();
    assert_eq!(last["commit"], OptionText("flush".to_owned()));
}
