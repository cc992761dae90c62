//! One engine under measurement: its process, its databases, and what came of it.

use std::path::Path;

use kvsim_store::process::{Opened, Process};

use super::counters::space_bytes;
use super::load::{Pace, Script, now};
use super::rounds::{Load, Plan, Row, Watch};
use super::serve::start;
use super::store::{Durability, Engine, Settings, StoreError};
use super::stream::{Action, Operation};

/// An engine under measurement.
pub(crate) struct Contender<'a> {
    engine: &'a dyn Engine,
    row: Row,
    /// None is there after an error.
    process: Option<Process>,
    /// Why none is there.
    lost: Option<StoreError>,
    /// As what its database is open.
    durability: Durability,
    load: Option<Load>,
    directory: tempfile::TempDir,
}

impl<'a> Contender<'a> {
    /// Starts the process and lets it load, unless it can do none of these scripts. What it cannot do is in its rows.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub(crate) fn new(
        engine: &'a dyn Engine,
        plan: &Plan,
        scripts: &[Script],
        watch: &dyn Watch,
    ) -> Result<Contender<'a>, String> {
        let mut contender = Contender {
            engine,
            row: Row::empty(engine, &plan.settings(&scripts[0])),
            process: None,
            lost: None,
            durability: plan.durability,
            load: None,
            directory: place(&plan.directory, engine)?,
        };
        if scripts
            .iter()
            .all(|script| contender.cannot(script).is_some())
        {
            return Ok(contender);
        }
        if let Err(error) = contender.load(plan, &scripts[0], watch) {
            contender.lose(error);
        }
        Ok(contender)
    }

    /// Which.
    pub(crate) fn engine(&self) -> &'static str {
        self.row.engine
    }

    /// Whether there is something to be measured.
    pub(crate) fn is_there(&self) -> bool {
        self.process.is_some() && self.row.failed.is_none()
    }

    /// Why it cannot do what this script asks for, if it cannot.
    fn cannot(&self, script: &Script) -> Option<StoreError> {
        let mut operations = script.lists.iter().flatten();
        let scans = operations.any(|operation| operation.action == Action::Scan);
        (scans && !self.engine.is_ordered()).then(|| StoreError {
            engine: self.engine.name(),
            what: "it has no order, and so no scans".to_owned(),
        })
    }

    /// Lets a process load: without waiting for each record, whatever the durability that is measured.
    fn load(&mut self, plan: &Plan, script: &Script, watch: &dyn Watch) -> Result<(), StoreError> {
        let loads = script.preload > 0;
        self.durability = match loads {
            true => Durability::Relaxed,
            false => plan.durability,
        };
        let mut process = self.start(plan, script)?;
        let began = now();
        let told = |done| watch.loading(self.engine.name(), done, script.preload);
        let opened = process.load(&told)?;
        self.load = loads.then(|| Load {
            keys: script.preload,
            took_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        });
        self.process = Some(process);
        self.note(opened);
        match self.durability == plan.durability {
            true => Ok(()),
            false => self.open_elsewhere(plan, script),
        }
    }

    /// Starts a process that has nothing open.
    fn start(&self, plan: &Plan, script: &Script) -> Result<Process, StoreError> {
        let settings = Settings {
            durability: self.durability,
            ..plan.settings(script)
        };
        let mut process = start(&plan.program, self.engine, self.directory.path(), &settings)?;
        process.send_script(script)?;
        Ok(process)
    }

    /// Opens the database anew, with writes as durable as they were not before: in another process, so that what is said of its memory is not what the one before has left.
    fn open_elsewhere(&mut self, plan: &Plan, script: &Script) -> Result<(), StoreError> {
        if let Some(mut before) = self.process.take() {
            before.close()?;
        }
        self.durability = plan.durability;
        let mut process = self.start(plan, script)?;
        let opened = process.open(plan.durability)?;
        self.process = Some(process);
        self.note(opened);
        Ok(())
    }

    /// Begins with a workload: `again` where there was one before it, whose data it finds.
    pub(crate) fn begin(&mut self, plan: &Plan, script: &Script, again: bool) {
        if again {
            let device = self.row.device.take();
            self.row = Row {
                device,
                ..Row::empty(self.engine, &plan.settings(script))
            };
        }
        self.row.load = self.load;
        self.row.failed = self.lost.clone().or_else(|| self.cannot(script));
        if again
            && self.is_there()
            && let Err(error) = self.take_up(plan, script)
        {
            self.lose(error);
        }
    }

    /// Hands over the next script, to another process where writes are to be as durable as they were not before.
    fn take_up(&mut self, plan: &Plan, script: &Script) -> Result<(), StoreError> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let script = Script {
            next_key: process.next_key()?.max(script.next_key),
            ..script.clone()
        };
        match self.durability == plan.durability {
            true => process.send_script(&script),
            false => self.open_elsewhere(plan, &script),
        }
    }

    /// Keeps what an opening said.
    fn note(&mut self, opened: Opened) {
        self.row.device = opened.device;
        self.row.caveat = opened.caveat.or(self.row.caveat.take());
    }

    fn lose(&mut self, error: StoreError) {
        self.row.failed = Some(error.clone());
        self.lost = Some(error);
        self.process = None;
    }

    /// One round. After an error there is no further one.
    pub(crate) fn measure(&mut self, pace: &Pace) {
        let Some(process) = &mut self.process else {
            return;
        };
        match process.run(pace) {
            Ok(seen) => {
                self.row.rounds.push(seen);
                self.row.memory = process.memory();
            }
            Err(error) => self.lose(error),
        }
    }

    /// What came of a workload; after the last one the database is closed.
    pub(crate) fn finish(&mut self, plan: &Plan, script: &Script, is_last: bool) -> Row {
        let mut keys = script.next_key;
        if let Some(process) = &mut self.process {
            match process.next_key() {
                Ok(there) => keys = there,
                Err(error) => self.lose(error),
            }
        }
        self.row.live_bytes = live_bytes(script, &plan.settings(script), keys);
        self.row.space_bytes = space_bytes(self.directory.path());
        if is_last
            && let Some(mut process) = self.process.take()
            && let Err(error) = process.close()
        {
            self.row.failed = Some(error);
        }
        tracing::debug!(engine = self.row.engine, is_last, "measured");
        self.row.clone()
    }
}

impl Row {
    /// Of an engine that has done nothing yet.
    fn empty(engine: &dyn Engine, settings: &Settings) -> Row {
        Row {
            engine: engine.name(),
            version: engine.version(),
            configuration: engine.configuration(settings),
            durable_as_asked: engine.keeps(settings.durability),
            device: None,
            caveat: caveat(engine, settings),
            load: None,
            rounds: Vec::new(),
            memory: None,
            space_bytes: 0,
            live_bytes: 0,
            failed: None,
        }
    }
}

/// A directory for the databases of an engine, which goes with what is in it.
pub(crate) fn place(directory: &Path, engine: &dyn Engine) -> Result<tempfile::TempDir, String> {
    tempfile::Builder::new()
        .prefix(&format!("kvsim-bench-{}-", engine.name()))
        .tempdir_in(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))
}

/// What is to be said of an engine that does not keep the durability that was asked for.
pub(crate) fn caveat(engine: &dyn Engine, settings: &Settings) -> Option<String> {
    let kept = engine.keeps(settings.durability);
    (!kept).then(|| "not as durable as the others, and compared with none of them".to_owned())
}

/// About how much there is in the end: what was loaded or put, and what was inserted.
fn live_bytes(script: &Script, settings: &Settings, next_key: u64) -> u64 {
    let puts = |one: &Operation| matches!(one.action, Action::Put | Action::ReadModifyWrite);
    let first = if script.lists.iter().flatten().any(puts) {
        script.next_key
    } else {
        script.preload
    };
    let per_key = settings.data_bytes / script.next_key.max(1);
    per_key * (first + next_key.saturating_sub(script.next_key))
}
