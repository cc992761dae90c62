//! `kvsim calibrate`: a disk and its machine as a profile.

use kvsim_harness::bench::calibrate::{FILE_BYTES, Plan, calibrate as measure, profile, turns};
use kvsim_harness::guest;

use crate::args::CalibrateArgs;
use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::output::progress::Spinner;
use crate::output::{complain, print};
use crate::runtime;

/// A machine that does more than this beside measures itself doing so.
const LOAD_PER_PROCESSOR_MAX: f64 = 0.5;

/// `kvsim calibrate`
pub(crate) fn calibrate(args: &CalibrateArgs) -> Exit {
    match run(args) {
        Ok(exit) => exit,
        Err(message) => {
            complain(&format!("error: {message}"));
            Exit::Usage
        }
    }
}

fn run(args: &CalibrateArgs) -> Result<Exit, String> {
    if args.path.is_dir() && crate::commands::bench::is_in_memory(&args.path) {
        return Err(format!(
            "{} is in memory, and not on a disk",
            args.path.display()
        ));
    }
    let plan = Plan {
        path: args.path.clone(),
        overwrite: args.write,
        cell: args.cell,
        passes: args.passes.get(),
        groups: turns::GROUPS,
        file_bytes: FILE_BYTES,
    };
    let runtime = match runtime::start(None) {
        Ok(runtime) => runtime,
        Err(exit) => return Ok(exit),
    };
    let interrupts = runtime.block_on(async { Interrupts::watch() });
    let program = guest::load(None)?;
    let spinner = Spinner::new(true);
    let told = |what: &str, done: u64, of: u64| {
        spinner.say(&match of {
            0 => what.to_owned(),
            of => format!("{what}: {} %", done * 100 / of),
        });
    };
    let measured = measure(&plan, &program, &told, &|| interrupts.came());
    drop(spinner);
    if interrupts.came() {
        return Ok(Exit::Inconclusive);
    }
    let calibration = measured?;
    warn_of_load(calibration.load);
    let text = profile::toml(&calibration);
    match &args.output {
        Some(path) => {
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            print(&format!(
                "{}\n{}\nwritten to {}\n",
                calibration.device,
                profile::table(&calibration),
                path.display()
            ));
        }
        None => print(&text),
    }
    Ok(Exit::Clean)
}

fn warn_of_load(load: Option<f64>) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    #[expect(clippy::cast_precision_loss, reason = "processors are few")]
    let most = processors as f64 * LOAD_PER_PROCESSOR_MAX;
    if let Some(load) = load.filter(|load| *load > most) {
        complain(&format!(
            "warning: the machine was busy (load {load:.2} on {processors} processors), so the measurement includes the work of other programs"
        ));
    }
}
