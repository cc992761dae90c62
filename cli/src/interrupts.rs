//! Ctrl-C: the first one ends what is under way with what is known, the second one the program at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kvsim_harness::control::{Control, Stop};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::output::complain;

/// Whether a person asked for the end.
pub(crate) struct Interrupts(Arc<Mutex<Arc<Control>>>);

impl Interrupts {
    /// Catches them from now on; to be called where a runtime runs.
    pub(crate) fn watch() -> Interrupts {
        let current = Arc::new(Mutex::new(Arc::new(Control::default())));
        let watched = Arc::clone(&current);
        match signal(SignalKind::interrupt()) {
            Ok(mut signals) => {
                tokio::spawn(async move {
                    while signals.recv().await.is_some() {
                        let control = Arc::clone(&lock(&watched));
                        if control.stopped() == Some(Stop::Interrupted) {
                            std::process::exit(i32::from(Exit::Inconclusive as u8));
                        }
                        control.stop(Stop::Interrupted);
                    }
                });
            }
            Err(error) => complain(&format!("warning: Ctrl-C will end this at once: {error}")),
        }
        Interrupts(current)
    }

    pub(crate) fn came(&self) -> bool {
        lock(&self.0).stopped() == Some(Stop::Interrupted)
    }

    /// A control for the next campaign, stopped already if one came.
    pub(crate) fn next(&self) -> Arc<Control> {
        let control = Arc::new(Control::default());
        let mut current = lock(&self.0);
        if current.stopped() == Some(Stop::Interrupted) {
            control.stop(Stop::Interrupted);
        }
        *current = Arc::clone(&control);
        control
    }
}

fn lock(mutex: &Mutex<Arc<Control>>) -> MutexGuard<'_, Arc<Control>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
