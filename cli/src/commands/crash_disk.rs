//! `kvsim crash-disk`: the native engine on a real disk, recorded, and the recording crashed at every point.

use kvsim_harness::recorded::{DriverChoice, Plan, Watch, prove, report};

use crate::args::{CrashDiskArgs, DriverArg};
use crate::commands::bench::directory;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::progress::Spinner;
use crate::output::{complain, print};
use crate::runtime;

/// `kvsim crash-disk`
pub(crate) fn crash_disk(args: &CrashDiskArgs) -> Exit {
    match run(args) {
        Ok(exit) => exit,
        Err(message) => {
            complain(&format!("error: {message}"));
            Exit::Usage
        }
    }
}

fn run(args: &CrashDiskArgs) -> Result<Exit, String> {
    let directory = directory(args.dir.as_deref())?;
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return Ok(exit),
    };
    let mut plan = Plan::usual(&directory, args.seed);
    plan.judge(args.states);
    plan.taken_out = args.take_out;
    plan.workload.clients = args.clients;
    if let Some(jobs) = args.jobs {
        plan.workers = jobs;
    }
    if !args.drivers.is_empty() {
        let driver = |driver: &DriverArg| match driver {
            DriverArg::IoUring => DriverChoice::Uring,
            DriverArg::Threads => DriverChoice::Threads,
        };
        plan.drivers = args.drivers.iter().map(driver).collect();
    }
    let watch = Line {
        spinner: Spinner::new(!args.json),
        interrupts: runtime.block_on(async { Interrupts::watch() }),
    };
    let proof = prove(&plan, &watch)?;
    drop(watch);
    if args.json {
        let document = serde_json::to_string_pretty(&report::document(&proof));
        let document = document.map_err(|error| error.to_string())?;
        print(&format!("{document}\n"));
    } else {
        print(&proof.text());
    }
    if let Some(found) = &proof.found {
        complain(&match found.save(&args.failures) {
            Ok(path) => format!("the disk as the crash left it: {}", path.display()),
            Err(error) => format!(
                "warning: {}: the disk as the crash left it cannot be saved: {error}",
                args.failures.display()
            ),
        });
    }
    Ok(if proof.found.is_some() {
        Exit::Violation
    } else if proof.is_complete() {
        Exit::Clean
    } else {
        Exit::Inconclusive
    })
}

struct Line {
    spinner: Spinner,
    interrupts: Interrupts,
}

impl Watch for Line {
    fn recording(&self, session: u64) {
        self.spinner
            .say(&format!("session {session}: at work on the disk"));
    }

    fn judged(&self, states: u64, of: u64) {
        self.spinner.say(&format!("{states} of {of} states judged"));
    }

    fn taking_out(&self, number: u64, of: u64) {
        self.spinner
            .say(&format!("left out a call, {number} of {of}"));
    }

    fn stopped(&self) -> bool {
        self.interrupts.came()
    }
}
