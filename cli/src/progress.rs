//! The line that moves while seeds run: on a terminal only, on standard error.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kvsim_harness::campaign::Campaign;
use kvsim_harness::control::Control;
use kvsim_harness::scenario::thousands;

/// How often the line is drawn anew.
const PERIOD: Duration = Duration::from_millis(200);

/// Draws the line until it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    task: tokio::task::JoinHandle<()>,
}

impl Progress {
    /// Begins to watch a campaign; nothing is shown if that is not wanted or nobody sees it.
    pub(crate) fn watch(campaign: &Campaign, control: &Arc<Control>, wanted: bool) -> Progress {
        let crashes = campaign
            .seeds
            .count()
            .saturating_mul(campaign.scenario.run.crashes);
        let (bar, template) = match campaign.duration {
            None => (
                ProgressBar::new(crashes),
                "{prefix} {bar:30} {human_pos}/{human_len} crashes, {msg}, {eta} left",
            ),
            Some(_) => (
                ProgressBar::new_spinner(),
                "{prefix} {spinner} {human_pos} crashes, {msg}, {elapsed}",
            ),
        };
        let shown = wanted && stderr().is_terminal();
        bar.set_draw_target(if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(campaign.scenario.name.clone());
        let task = tokio::spawn(redraw(bar.clone(), Arc::clone(control)));
        Progress { bar, task }
    }
}

async fn redraw(bar: ProgressBar, control: Arc<Control>) {
    let mut timer = tokio::time::interval(PERIOD);
    loop {
        timer.tick().await;
        bar.set_position(control.crashes());
        bar.set_message(format!(
            "{:.0}/s, {} writes checked",
            bar.per_sec(),
            thousands(control.writes_checked())
        ));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

/// The line of an exploration, whose end cannot be foreseen.
pub(crate) struct States {
    bar: ProgressBar,
    task: tokio::task::JoinHandle<()>,
}

impl States {
    /// Begins to watch; nothing is shown if that is not wanted or nobody sees it.
    pub(crate) fn watch(name: &str, control: &Arc<Control>, wanted: bool) -> States {
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(if wanted && stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let template = "{prefix} {spinner} {human_pos} states, {msg}, {elapsed}";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(name.to_owned());
        let (shown, control) = (bar.clone(), Arc::clone(control));
        let task = tokio::spawn(async move {
            let mut timer = tokio::time::interval(PERIOD);
            loop {
                timer.tick().await;
                shown.set_position(control.crashes());
                shown.set_message(format!("{:.0}/s", shown.per_sec()));
            }
        });
        States { bar, task }
    }
}

impl Drop for States {
    fn drop(&mut self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

/// A line that says what is going on, for what has no end that can be foreseen.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    /// Shown on a terminal, if that is wanted.
    pub(crate) fn new(wanted: bool) -> Spinner {
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(if wanted && stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        bar.enable_steady_tick(PERIOD);
        Spinner(bar)
    }

    /// Says it.
    pub(crate) fn say(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
