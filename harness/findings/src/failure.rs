//! A failing case: a whole scenario, pinned to the seed that failed, that fails again in the same way.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use kvsim_sim::Program;

use crate::blame::Blame;
use crate::story::Story;
use crate::summary::{FailureReport, Reproduction};
use kvsim_api::units::SeedRange;
use kvsim_drive::run::{SeedEnd, SeedResult};
use kvsim_oracle::{Property, Violation};
use kvsim_scenario::{FailureRecord, Scenario, explain};

/// Reports the violation of `failed` and saves its case under `directory`, unless the scenario is itself a saved case. That it
/// cannot be saved is part of the report: a finding must not be lost with its file.
pub fn report(
    scenario: &Scenario,
    program: &dyn Program,
    failed: &SeedResult,
    directory: Option<&Path>,
) -> (FailureReport, Property) {
    report_blamed(scenario, program, failed, directory, None)
}

/// The same with what is to blame.
pub fn report_blamed(
    scenario: &Scenario,
    program: &dyn Program,
    failed: &SeedResult,
    directory: Option<&Path>,
    blame: Option<Blame>,
) -> (FailureReport, Property) {
    let SeedEnd::Violation(violation) = &failed.end else {
        unreachable!("only failing seeds are reported")
    };
    let mut report = FailureReport {
        seed: failed.seed,
        property: violation.property.name().to_owned(),
        sentence: violation.sentence.clone(),
        facts: violation.facts.clone(),
        crash: failed.tally.crashes(),
        trace_hash: failed.trace_hash.clone(),
        file: None,
        unsaved: None,
        replay: None,
        reproduced: scenario
            .failure
            .as_ref()
            .map(|saved| reproduction(saved, program, violation, &failed.trace_hash)),
        story: None,
        blame,
    };
    let mut case = match &scenario.failure {
        Some(_) => scenario.clone(),
        None => case(scenario, program, failed, violation),
    };
    if let (Some(record), Some(blame)) = (&mut case.failure, &report.blame) {
        record.blame = blame.to_string();
    }
    report.story = failed.recording.clone().map(|recording| Story {
        recording: Arc::new(recording),
        facts: violation.facts.clone(),
        scenario: explain(&case),
    });
    if let (Some(directory), None) = (directory, &scenario.failure) {
        match save(&case, directory, failed.seed, violation.property) {
            Ok(path) => {
                report.replay = Some(format!("kvsim replay {}", quoted(&path)));
                report.file = Some(path);
            }
            Err(error) => report.unsaved = Some(error),
        }
    }
    (report, violation.property)
}

fn save(
    case: &Scenario,
    directory: &Path,
    seed: u64,
    property: Property,
) -> Result<PathBuf, String> {
    let cannot = |path: &Path, error: &std::io::Error| {
        format!("cannot save the failing case {}: {error}", path.display())
    };
    std::fs::create_dir_all(directory).map_err(|error| cannot(directory, &error))?;
    let path = directory.join(file_name(case, seed, property));
    let mut case = case.clone();
    if let Some(failure) = &mut case.failure
        && let Some(file) = from_folder(directory, Path::new(&failure.guest_file))
    {
        failure.guest_file = file.display().to_string();
    }
    std::fs::write(&path, text(&case)).map_err(|error| cannot(&path, &error))?;
    Ok(path)
}

/// The way to a file from a folder, so that both can be moved together; nothing where there is none (no file, another drive).
fn from_folder(folder: &Path, file: &Path) -> Option<PathBuf> {
    if file.as_os_str().is_empty() {
        return None;
    }
    let (folder, file) = (folder.canonicalize().ok()?, file.canonicalize().ok()?);
    let (from, to): (Vec<_>, Vec<_>) = (folder.components().collect(), file.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return None;
    }
    let up = std::iter::repeat_n(Component::ParentDir, from.len() - common);
    Some(up.chain(to[common..].iter().copied()).collect())
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let mut text = path.display().to_string();
    if text.starts_with('-') {
        // Else it would be taken for an option.
        text.insert_str(0, "./");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn reproduction(
    saved: &FailureRecord,
    program: &dyn Program,
    violation: &Violation,
    trace_hash: &str,
) -> Reproduction {
    if saved.property != violation.property {
        Reproduction::OtherProperty {
            saved: saved.property.name().to_owned(),
        }
    } else if saved.trace_hash == trace_hash {
        Reproduction::Exact
    } else {
        let changed = if !saved.is_of(program) {
            "the guest has changed"
        } else if saved.kvsim != env!("CARGO_PKG_VERSION") {
            "kvsim has changed"
        } else {
            "the case has changed, by --set or in its file, or kvsim has"
        };
        Reproduction::SameProperty { changed }
    }
}

/// The scenario that fails again: this seed only, and no more crashes than it takes.
fn case(
    scenario: &Scenario,
    program: &dyn Program,
    failed: &SeedResult,
    violation: &Violation,
) -> Scenario {
    let mut case = scenario.clone();
    case.run.seeds = SeedRange::one(failed.seed);
    // The violation may have been seen at work after the last crash, so the run must not end with that one.
    case.run.crashes = scenario.run.crashes.min(failed.tally.crashes() + 1);
    case.failure = Some(FailureRecord {
        property: violation.property,
        sentence: violation.sentence.clone(),
        blame: String::new(),
        trace_hash: failed.trace_hash.clone(),
        crash: failed.tally.crashes(),
        // All of the profile is in the case, so that it can be moved away from the profile's file.
        profile: case.profile.take().unwrap_or_default(),
        guest: program.name().to_owned(),
        guest_hash: program.hash().to_string(),
        guest_file: program
            .file()
            .map_or_else(String::new, |file| file.display().to_string()),
        kvsim: env!("CARGO_PKG_VERSION").to_owned(),
    });
    case
}

fn text(case: &Scenario) -> String {
    let mut text = format!(
        "# A failing case of the scenario {}, complete in itself. Run it with: kvsim replay <this file>\n",
        case.name
    );
    if let Some(failure) = &case.failure {
        for line in failure.sentence.lines() {
            text.push_str(&format!("# {}: {line}\n", failure.property));
        }
        if !failure.blame.is_empty() {
            text.push_str(&format!("# Blame: {}\n", failure.blame));
        }
    }
    text.push('\n');
    text.push_str(&explain(case));
    text
}

/// `<scenario>-<seed>-<property>.toml`, with nothing in it that a file system could take amiss.
fn file_name(case: &Scenario, seed: u64, property: Property) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            c
        } else {
            '_'
        }
    };
    let name: String = case.name.chars().map(plain).collect();
    format!("{name}-{seed}-{property}.toml")
}

#[cfg(test)]
mod tests {
    use super::from_folder;
    use std::path::Path;

    /// Goal: a case names its guest by the way from its own folder. Method: a guest beside the folder, one in it, and none.
    #[test]
    fn a_guest_is_named_from_the_folder_of_its_case() {
        let root = tempfile::tempdir().expect("a folder");
        let (cases, guests) = (root.path().join("cases"), root.path().join("guests"));
        for folder in [&cases, &guests] {
            std::fs::create_dir(folder).expect("a folder");
            std::fs::write(folder.join("it.wasm"), "").expect("a file");
        }
        let way = |file: &Path| from_folder(&cases, file);
        assert_eq!(
            way(&guests.join("it.wasm")).as_deref(),
            Some(Path::new("../guests/it.wasm"))
        );
        assert_eq!(
            way(&cases.join("it.wasm")).as_deref(),
            Some(Path::new("it.wasm"))
        );
        assert_eq!(way(Path::new("")), None);
        assert_eq!(way(&root.path().join("gone.wasm")), None);
    }
}
