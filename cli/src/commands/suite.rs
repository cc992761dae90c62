//! `kvsim suite`: the rules of the ABI and four scenarios, one after the other, in one table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kvsim_harness::guest::{self, Instances};
use kvsim_harness::suite::{self, Crashes, Ended, Part, Terms, text};

use crate::args::SuiteArgs;
use crate::commands::check_guest;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::{colour, complain, print, print_json};
use crate::runtime;
use crate::runtime::all_cores;

/// Runs the suite.
pub(crate) fn suite(args: &SuiteArgs) -> Exit {
    let began = now();
    let options: BTreeMap<String, String> = args.option.iter().cloned().collect();
    let report = match check_guest::check(&args.guest, &options) {
        Ok(report) => report,
        Err(exit) => return exit,
    };
    let again = format!("kvsim check-guest {}", args.guest.display());
    let told = args
        .option
        .iter()
        .map(|(name, value)| format!(" --option {name}={value}"));
    let again = told.fold(again, |line, option| line + &option);
    let rules = Part::of_rules(&report, began.elapsed(), again);
    let exit = check_guest::exit_of(&report);
    let hash = report.hash.get(..12).unwrap_or(&report.hash);
    say(
        args,
        &format!(
            "{}  module {hash}\n{}",
            report.guest,
            text::line(&rules, colour())
        ),
    );
    let mut run = Run {
        args,
        began,
        exit,
        parts: vec![rules],
    };
    if report.is_guest {
        if let Err(exit) = run.crash_all(options) {
            return exit;
        }
    } else {
        run.leave_out(&Crashes::ALL, "the module is no guest");
    }
    if args.json {
        let guest = (report.guest.as_str(), report.hash.as_str());
        let document = suite::document(guest, &run.parts, run.exit as u8);
        return print_json(&document, run.exit);
    }
    print(&text::ending(&run.parts));
    run.exit
}

struct Run<'a> {
    args: &'a SuiteArgs,
    began: Instant,
    exit: Exit,
    parts: Vec<Part>,
}

impl Run<'_> {
    fn crash_all(&mut self, options: BTreeMap<String, String>) -> Result<(), Exit> {
        let file = Some(self.args.guest.as_path());
        let load = |instances| {
            guest::load_for(&[], file, instances).map_err(|error| {
                complain(&format!("error: {error}"));
                Exit::Usage
            })
        };
        let terms = Terms {
            program: load(Instances::Fresh)?,
            reused: load(Instances::Reused)?,
            options,
            jobs: self.args.jobs.unwrap_or_else(all_cores),
            failures: self.args.failures.clone(),
        };
        let runtime = runtime::start(Some(terms.jobs.get() + 1))?;
        runtime.block_on(async {
            let interrupts = Interrupts::watch();
            for (at, crashes) in Crashes::ALL.into_iter().enumerate() {
                let left = self.args.duration.saturating_sub(self.began.elapsed());
                if interrupts.came() || left.is_zero() {
                    let why = match interrupts.came() {
                        true => "interrupted",
                        false => "the time was over",
                    };
                    self.leave_out(&Crashes::ALL[at..], why);
                    self.exit = self.exit.and(Exit::Inconclusive);
                    break;
                }
                let parts = u32::try_from(Crashes::ALL.len() - at).unwrap_or(1);
                self.crash(&terms, crashes, &interrupts, left / parts).await;
            }
        });
        runtime.shutdown_background();
        Ok(())
    }

    /// Runs one scenario within its share of the time.
    async fn crash(
        &mut self,
        terms: &Terms,
        crashes: Crashes,
        interrupts: &Interrupts,
        share: Duration,
    ) {
        let control = interrupts.next();
        control.end_after(share);
        match suite::crash(terms, crashes, &control).await {
            Ok(part) => {
                if let Some(error) = &part.unsaved {
                    complain(&format!("error: {error}"));
                    self.exit = self.exit.and(Exit::Internal);
                }
                self.take(part);
            }
            Err(error) => {
                complain(&error.to_string());
                self.exit = self.exit.and(Exit::from(&error));
                self.take(Part::left_out(crashes.name(), "it could not be run"));
            }
        }
    }

    fn take(&mut self, part: Part) {
        let exit = match part.ended {
            Ended::Pass if part.left_out.is_some() => Exit::Inconclusive,
            Ended::Pass | Ended::LeftOut => Exit::Clean,
            Ended::Failed => Exit::Violation,
            Ended::Inconclusive => Exit::Inconclusive,
        };
        self.exit = self.exit.and(exit);
        say(self.args, &text::line(&part, colour()));
        self.parts.push(part);
    }

    fn leave_out(&mut self, all: &[Crashes], why: &str) {
        for crashes in all {
            self.take(Part::left_out(crashes.name(), why));
        }
    }
}

fn say(args: &SuiteArgs, text: &str) {
    if !args.json {
        print(text);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time that a person grants; it decides only how much of a part is done"
)]
fn now() -> Instant {
    Instant::now()
}
