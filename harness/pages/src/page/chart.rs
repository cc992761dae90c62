//! Bars and curves as inline SVG, with nothing that has to be run or fetched. The figures stand in a table beside them, so a chart says
//! in a title what it shows and nothing more.

use maud::{Markup, html};

/// How many colours the page's style has.
pub const COLOURS: usize = 8;

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 150.0;
const VALUE_WIDTH: f64 = 110.0;
const BAR_HEIGHT: f64 = 22.0;
const BAR_STEP: f64 = 32.0;

const CURVE_HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// A bar.
pub struct Bar {
    /// Whose.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// The least that was measured.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// What is written beside it.
    pub text: String,
}

/// Bars from the top down, each with a line from its least to its most.
pub fn bars(title: &str, bars: &[Bar]) -> Markup {
    let most = bars.iter().map(|bar| bar.most).fold(1.0, f64::max);
    let room = WIDTH - LABEL_WIDTH - VALUE_WIDTH;
    let x = |value: f64| LABEL_WIDTH + room * value / most;
    let height = BAR_STEP * number(bars.len()) + 4.0;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" {
            title { (title) }
            @for (index, bar) in bars.iter().enumerate() {
                @let y = BAR_STEP * number(index) + 4.0;
                @let middle = y + BAR_HEIGHT / 2.0;
                text x=(place(LABEL_WIDTH - 8.0)) y=(place(middle + 5.0)) text-anchor="end" { (bar.label) }
                rect class=(colour("fill", index)) x=(place(LABEL_WIDTH)) y=(place(y))
                    width=(place(x(bar.value) - LABEL_WIDTH)) height=(place(BAR_HEIGHT)) rx="2" {}
                line class="spread" x1=(place(x(bar.least))) x2=(place(x(bar.most))) y1=(place(middle)) y2=(place(middle)) {}
                text x=(place(x(bar.most) + 8.0)) y=(place(middle + 5.0)) { (bar.text) }
            }
        }
    }
}

/// A curve: latencies in nanoseconds by share of the operations.
pub struct Curve {
    /// Whose.
    pub label: String,
    /// Shares below 1, rising, and what they are below.
    pub points: Vec<(f64, f64)>,
}

/// Both axes are logarithmic: the one across in the share that is left above, so that each further nine takes as much room.
pub fn curves(title: &str, curves: &[Curve]) -> Markup {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let nines = |share: f64| -(1.0 - share).max(1e-9).log10();
    let x_max = all().map(|(share, _)| nines(*share)).fold(1.0, f64::max);
    let lowest = all().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    let highest = all().map(|(_, ns)| *ns).fold(1.0, f64::max);
    let y_min = lowest.clamp(1.0, highest).log10().floor();
    let y_max = highest.log10().ceil().max(y_min + 1.0);
    let x = |share: f64| LEFT + (WIDTH - LEFT - RIGHT) * nines(share) / x_max;
    let y = |ns: f64| {
        let part = (ns.max(1.0).log10() - y_min) / (y_max - y_min);
        CURVE_HEIGHT - BOTTOM - (CURVE_HEIGHT - TOP - BOTTOM) * part
    };
    let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let shares = shares.into_iter().filter(|share| nines(*share) <= x_max);
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {CURVE_HEIGHT}")) role="img" {
            title { (title) }
            @for decade in decades(y_min, y_max) {
                @let at = place(y(decade));
                line class="grid" x1=(place(LEFT)) x2=(place(WIDTH - RIGHT)) y1=(at) y2=(at) {}
                text x=(place(LEFT - 8.0)) y=(place(y(decade) + 5.0)) text-anchor="end" { (duration(decade)) }
            }
            @for share in shares {
                @let at = place(x(share));
                line class="grid" x1=(at) x2=(at) y1=(place(TOP)) y2=(place(CURVE_HEIGHT - BOTTOM)) {}
                text x=(at) y=(place(CURVE_HEIGHT - BOTTOM + 18.0)) text-anchor="middle" { (percent(share)) }
            }
            text x=(place(WIDTH - RIGHT)) y=(place(CURVE_HEIGHT - 4.0)) text-anchor="end" {
                "share of the operations that took no longer"
            }
            @for (index, curve) in curves.iter().enumerate() {
                @let points: Vec<String> = curve
                    .points
                    .iter()
                    .map(|(share, ns)| format!("{},{}", place(x(*share)), place(y(*ns))))
                    .collect();
                polyline class=(colour("stroke", index)) points=(points.join(" ")) { title { (curve.label) } }
            }
        }
    }
}

/// The class of the `index`-th colour.
pub fn colour(what: &str, index: usize) -> String {
    format!("{what}{}", index % COLOURS)
}

fn decades(from: f64, to: f64) -> Vec<f64> {
    let mut all = Vec::new();
    let mut at = from;
    while at <= to {
        all.push(10_f64.powf(at));
        at += 1.0;
    }
    all
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} s", ns / 1e9),
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// A tenth of a pixel is fine enough.
fn place(at: f64) -> String {
    format!("{at:.1}")
}

#[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
fn number(count: usize) -> f64 {
    count as f64
}
