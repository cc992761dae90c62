//! The time line of a failure as a picture: a lane for each client, one each for the device's writes, flushes and reads, and the cut as a
//! line through all of them.
//!
//! Time runs from left to right and is not true to scale: a pause takes room as the square root of what it lasts, so that a flush of milliseconds leaves
//! some to the writes of microseconds beside it. What lies far before the cut is summed up in words, so the picture stays readable however long the
//! run was.

use std::collections::BTreeMap;

use kvsim_sim::api::{RequestId, Status};
use kvsim_simdisk::{Nanos, Sectors};
use maud::{Markup, html};

use super::story::Scene;
use kvsim_api::units::thousands;
use kvsim_drive::timeline::{Entry, Kind, Lane};

const WIDTH: f64 = 1_240.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 30.0;
const ROW: f64 = 20.0;
const BOTTOM: f64 = 26.0;
/// What was pending at a cut is drawn so wide at least.
const CAUGHT: f64 = 9.0;
/// Rows that one lane takes at most, where things overlap.
const ROWS_MAX: usize = 6;
/// Lanes of clients that are drawn.
const CLIENTS_MAX: usize = 32;
/// Labels of the axis.
const TICKS: usize = 9;

/// What a bar stands for.
struct Bar {
    lane: Lane,
    row: usize,
    from: Nanos,
    /// When it ended; nothing if it never did.
    to: Option<Nanos>,
    class: &'static str,
    fate: Option<&'static str>,
    /// The answer was good, or not.
    answer: Option<bool>,
    hot: bool,
    title: String,
}

/// Draws a scene.
pub(super) fn picture(scene: &Scene<'_>) -> Markup {
    let (bars, lanes) = bars(scene);
    let scale = Scale::new(scene);
    let mut rows: BTreeMap<Lane, usize> = BTreeMap::new();
    for bar in &bars {
        let most = rows.entry(bar.lane).or_default();
        *most = (*most).max(bar.row + 1);
    }
    let mut tops = BTreeMap::new();
    let mut y = TOP;
    for lane in &lanes {
        tops.insert(*lane, y);
        y += ROW * number(rows.get(lane).copied().unwrap_or(1));
    }
    let height = y + BOTTOM;
    html! {
        svg.lanes viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="What happened, on one time line" {
            title { "Requests, operations of the device, answers and cuts in virtual time" }
            @for (index, lane) in lanes.iter().enumerate() {
                @let top = tops[lane];
                @let tall = ROW * number(rows.get(lane).copied().unwrap_or(1));
                rect class=(if index % 2 == 0 { "lane" } else { "lane odd" }) x="0" y=(place(top)) width=(place(WIDTH)) height=(place(tall)) {}
                text x="4" y=(place(top + 14.0)) { (lane.to_string()) }
            }
            @for at in scale.ticks() {
                @let x = place(scale.x(at));
                line.grid x1=(x) x2=(x) y1=(place(TOP)) y2=(place(y)) {}
                text.small x=(x) y=(place(y + 14.0)) text-anchor="middle" { (moment(at)) }
            }
            @for bar in &bars { (draw(bar, tops[&bar.lane], &scale, scene.end_ns())) }
            @for (at, word) in &scene.cuts {
                @let x = place(scale.x(*at));
                line.cut x1=(x) x2=(x) y1=(place(TOP - 8.0)) y2=(place(y)) {}
                text.cut x=(x) y=(place(TOP - 12.0)) text-anchor="middle" { (word) }
            }
        }
    }
}

/// The patterns that say by form what colours say too, once for a page.
pub(super) fn patterns() -> Markup {
    html! {
        svg width="0" height="0" style="position: absolute; min-width: 0" aria-hidden="true" { defs {
            pattern id="lost" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                rect.lost width="5" height="5" {}
                line.hatch x1="0" x2="0" y1="0" y2="5" {}
            }
            pattern id="torn" width="6" height="6" patternUnits="userSpaceOnUse" {
                rect.kept width="6" height="6" {}
                rect.torn width="6" height="3" {}
            }
        } }
    }
}

fn draw(bar: &Bar, top: f64, scale: &Scale, end_ns: Nanos) -> Markup {
    let (from, to) = (scale.x(bar.from), scale.x(bar.to.unwrap_or(end_ns)));
    let y = top + ROW * number(bar.row) + 3.0;
    let height = ROW - 6.0;
    // What a cut caught is what matters, be it ever so short.
    let least = if bar.fate.is_some() { CAUGHT } else { 2.0 };
    let width = (to - from).max(least);
    let from = if bar.fate.is_some() { to - width } else { from };
    let mut class = format!("span {}", bar.class);
    if bar.to.is_none() {
        class.push_str(" open");
    }
    if bar.hot {
        class.push_str(" hot");
    }
    let fill = bar.fate.and_then(|fate| match fate {
        "lost" => Some("fill: url(#lost)"),
        "torn" => Some("fill: url(#torn)"),
        _ => None,
    });
    let class = match bar.fate {
        Some("kept") => format!("{class} kept"),
        Some("pending") => format!("{class} pending"),
        _ => class,
    };
    html! {
        rect class=(class) style=[fill] x=(place(from)) y=(place(y)) width=(place(width)) height=(place(height)) {
            title { (bar.title) }
        }
        @if let Some(good) = bar.answer {
            @if good {
                circle.ack cx=(place(to)) cy=(place(y + height / 2.0)) r="3" { title { "answered: ok" } }
            } @else {
                rect.nack x=(place(to - 3.0)) y=(place(y + height / 2.0 - 3.0)) width="6" height="6" { title { "answered, and not with ok" } }
            }
        }
    }
}

/// Pairs what began with what ended, and finds a row for each.
fn bars(scene: &Scene<'_>) -> (Vec<Bar>, Vec<Lane>) {
    let mut bars: Vec<Bar> = Vec::new();
    let mut requests: BTreeMap<RequestId, usize> = BTreeMap::new();
    let mut operations: BTreeMap<u64, usize> = BTreeMap::new();
    for entry in scene.entries {
        match entry.kind {
            Kind::Request(id) => {
                requests.insert(id, bars.len());
                bars.push(bar(entry, scene, class_of(entry)));
            }
            Kind::Submit(op) => {
                operations.insert(op, bars.len());
                let class = if entry.lane == Lane::Flushes {
                    "flush"
                } else {
                    "io"
                };
                let mut bar = bar(entry, scene, class);
                bar.fate = fate(scene, op);
                bars.push(bar);
            }
            Kind::Step => {
                let class = if entry.lane == Lane::Flushes {
                    "flush"
                } else {
                    "io"
                };
                let mut bar = bar(entry, scene, class);
                bar.to = Some(entry.at_ns);
                bars.push(bar);
            }
            Kind::Reply(id, status) => {
                if let Some(bar) = requests.remove(&id).and_then(|at| bars.get_mut(at)) {
                    bar.to = Some(entry.at_ns);
                    bar.answer = Some(matches!(status, Status::Ok | Status::NotFound));
                    bar.title.push('\n');
                    bar.title.push_str(&entry.what);
                }
            }
            Kind::Complete(op, _) => {
                if let Some(bar) = operations.remove(&op).and_then(|at| bars.get_mut(at)) {
                    bar.to = Some(entry.at_ns);
                    bar.title.push('\n');
                    bar.title.push_str(&entry.what);
                }
            }
            Kind::Cut(_) => {
                // Nothing under way goes on beyond a cut.
                for at in requests.values().chain(operations.values()) {
                    bars[*at].title.push_str("\ncut off");
                    bars[*at].to.get_or_insert(entry.at_ns);
                }
                requests.clear();
                operations.clear();
            }
            Kind::Open | Kind::Strike(_) | Kind::Fate | Kind::Log | Kind::Mark | Kind::Fault => {}
        }
    }
    let mut lanes: Vec<Lane> = bars.iter().map(|bar| bar.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let mut clients = 0;
    lanes.retain(|lane| {
        clients += usize::from(matches!(lane, Lane::Client(_)));
        !matches!(lane, Lane::Client(_)) || clients <= CLIENTS_MAX
    });
    bars.retain(|bar| lanes.contains(&bar.lane));
    stack(&mut bars);
    (bars, lanes)
}

fn bar(entry: &Entry, scene: &Scene<'_>, class: &'static str) -> Bar {
    Bar {
        lane: entry.lane,
        row: 0,
        from: entry.at_ns,
        to: None,
        class,
        fate: None,
        answer: None,
        hot: scene.is_hot(entry),
        title: entry.what.clone(),
    }
}

/// What only looks is told from what changes.
fn class_of(entry: &Entry) -> &'static str {
    let words = entry
        .what
        .split_once(": ")
        .map_or(&*entry.what, |(_, words)| words);
    let looks = ["get ", "scan ", "snapshot", "release"];
    if entry.lane == Lane::Checker || looks.iter().any(|look| words.starts_with(look)) {
        "look"
    } else {
        "ask"
    }
}

/// What the cut made of an operation, in a word.
fn fate(scene: &Scene<'_>, op: u64) -> Option<&'static str> {
    let (cut, killed) = scene.cut?;
    let pending = cut.pending.iter().find(|pending| pending.op == op)?;
    Some(match &pending.survived {
        _ if killed => "pending",
        None => "lost",
        Some(Sectors::All) => "kept",
        Some(Sectors::Torn { .. }) => "torn",
    })
}

/// Puts what overlaps in one lane into rows below each other; what finds none shares the last.
fn stack(bars: &mut [Bar]) {
    let mut free_at: BTreeMap<Lane, Vec<Nanos>> = BTreeMap::new();
    for bar in bars {
        let rows = free_at.entry(bar.lane).or_default();
        let end = bar.to.unwrap_or(Nanos::MAX);
        let row = rows.iter().position(|free| *free <= bar.from);
        bar.row = match row {
            Some(row) => row,
            None if rows.len() < ROWS_MAX => {
                rows.push(0);
                rows.len() - 1
            }
            None => ROWS_MAX - 1,
        };
        rows[bar.row] = end;
    }
}

/// Where a moment lies.
struct Scale {
    /// Moments, ascending, and how far to the right each is, from 0 to 1.
    stops: Vec<(Nanos, f64)>,
}

impl Scale {
    fn new(scene: &Scene<'_>) -> Scale {
        let mut moments: Vec<Nanos> = scene.entries.iter().map(|entry| entry.at_ns).collect();
        moments.sort_unstable();
        moments.dedup();
        let gaps: Vec<Nanos> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let lengths: Vec<f64> = gaps.iter().map(|gap| float(*gap).sqrt()).collect();
        let whole: f64 = lengths.iter().sum::<f64>().max(1.0);
        let mut at = 0.0;
        let mut stops = Vec::new();
        for (index, moment) in moments.iter().enumerate() {
            stops.push((*moment, at / whole));
            at += lengths.get(index).copied().unwrap_or(0.0);
        }
        Scale { stops }
    }

    fn x(&self, moment: Nanos) -> f64 {
        let at = self.stops.partition_point(|(stop, _)| *stop < moment);
        let share = self
            .stops
            .get(at)
            .or(self.stops.last())
            .map_or(0.0, |(_, share)| *share);
        LEFT + (WIDTH - LEFT - RIGHT - 30.0) * share
    }

    /// Moments that are far enough apart to be labelled.
    fn ticks(&self) -> Vec<Nanos> {
        let step = 1.0 / number(TICKS);
        let mut ticks = Vec::new();
        let mut next = 0.0;
        for (moment, share) in &self.stops {
            if *share >= next {
                ticks.push(*moment);
                next = share + step;
            }
        }
        ticks
    }
}

/// A moment as the time line in text has it, to the microsecond.
fn moment(ns: Nanos) -> String {
    format!("{}.{:03} ms", thousands(ns / 1_000_000), ns / 1_000 % 1_000)
}

fn place(at: f64) -> String {
    format!("{at:.1}")
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn number(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn float(ns: Nanos) -> f64 {
    ns as f64
}
