//! The line that moves while seeds or benchmarks run: on a terminal only, on standard error.

use std::io::{IsTerminal, stderr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
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

#[expect(
    clippy::disallowed_methods,
    reason = "a person is told how long it will take"
)]
fn now() -> Instant {
    Instant::now()
}

/// A line that says what is going on, and how long it will take if that is known.
pub(crate) struct Spinner {
    bar: ProgressBar,
    end: Arc<Mutex<Option<Instant>>>,
}

impl Spinner {
    /// Shown on a terminal, if that is wanted.
    pub(crate) fn new(wanted: bool) -> Spinner {
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(if wanted && stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let end = Arc::new(Mutex::new(None));
        let told = Arc::clone(&end);
        let left = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
            let end: Option<Instant> = *told.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(end) = end {
                // A line that cannot be drawn is not worth an error.
                let _ = text.write_str(&left(end.saturating_duration_since(now())));
            }
        };
        let style = ProgressStyle::with_template("{spinner} {msg}{left}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style.with_key("left", left));
        bar.enable_steady_tick(PERIOD);
        Spinner { bar, end }
    }

    /// Says it.
    pub(crate) fn say(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Does what prints while the line is away.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Says when all will be over: in so long from now.
    pub(crate) fn ends_in(&self, left: Duration) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        *end = Some(now() + left);
    }
}

/// So long is left, as a person says it; nothing is said of what is overdue.
fn left(time: Duration) -> String {
    match time.as_secs() {
        0 => String::new(),
        seconds @ 1..60 => format!(", {seconds} s left"),
        seconds => format!(", {} min {} s left", seconds / 60, seconds % 60),
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The line of a minimisation.
pub(crate) struct Shrinking(ProgressBar);

impl Shrinking {
    /// Begins to show; nothing is shown if that is not wanted or nobody sees it.
    pub(crate) fn show(wanted: bool) -> Shrinking {
        let bar = ProgressBar::new_spinner();
        let shown = wanted && stderr().is_terminal();
        bar.set_draw_target(if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let style = ProgressStyle::with_template(
            "{spinner} {msg}, {elapsed}; Ctrl-C ends it with the smallest case so far",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(PERIOD);
        Shrinking(bar)
    }

    /// Says how far a minimisation has come.
    pub(crate) fn at(&self, now: kvsim_harness::minimise::Progress) {
        self.0.set_message(format!(
            "{} requests, {} crashes; {}",
            thousands(now.requests as u64),
            thousands(now.crashes),
            now.step
        ));
    }
}

impl Drop for Shrinking {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the time left is short and plain. Method: one of each form.
    #[test]
    fn the_time_left_is_said_plainly() {
        let said = [0, 7, 59, 60, 754].map(|seconds| left(Duration::from_secs(seconds)));
        assert_eq!(
            said,
            [
                "",
                ", 7 s left",
                ", 59 s left",
                ", 1 min 0 s left",
                ", 12 min 34 s left"
            ]
        );
    }
}
