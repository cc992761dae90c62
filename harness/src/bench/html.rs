//! All tables of one call as one page: it needs no network, no script and no other file, and says all that the tables of the terminal
//! say. What comes from elsewhere (names, device models, errors) is escaped by the template.

use hdrhistogram::Histogram;
use kvsim_store::seen::histogram;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{Bar, Curve, bars, colour, curves};
use super::load::Seen;
use super::report::{MARK, as_f64, caveats, ratios, setting, share, whole};
use super::rounds::{Row, Spread, Table};
use crate::scenario::{bytes, nanoseconds, thousands};

/// Points of a curve for each nine.
const POINTS_PER_NINE: u32 = 20;
/// Curves end at 99.999 %.
const NINES_MAX: u32 = 5;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --soft: #666d76; --line: #d9dce1; --box: #f5f6f8 }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --paper: #16181c; --soft: #9aa2ad; --line: #363b43; --box: #1f2329 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem } h3 { font-size: 1rem; margin-bottom: .3rem }
p.setting, figcaption, td.how { color: var(--soft) } pre { background: var(--box); padding: .7rem 1rem; overflow-x: auto; border-radius: 4px }
figure { margin: 1rem 0 } svg { width: 100%; height: auto; font-size: 13px } svg text { fill: currentColor }
.grid { stroke: var(--line) } .spread { stroke: currentColor; stroke-width: 2 } polyline { fill: none; stroke-width: 2.2 }
div.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100% }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap } th:first-child, td:first-child, td.how { text-align: left } td.how { white-space: normal }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em } p.caveat, td.failed { color: #b3261e } @media (prefers-color-scheme: dark) { p.caveat, td.failed { color: #f2b8b5 } }
.fill0 { fill: #3366cc; background: #3366cc } .fill1 { fill: #e07b39; background: #e07b39 } .fill2 { fill: #2a9d6f; background: #2a9d6f } .fill3 { fill: #a05195; background: #a05195 }
.fill4 { fill: #c4a000; background: #c4a000 } .fill5 { fill: #4aa3c7; background: #4aa3c7 } .fill6 { fill: #d1495b; background: #d1495b } .fill7 { fill: #7a7f87; background: #7a7f87 }
.stroke0 { stroke: #3366cc } .stroke1 { stroke: #e07b39 } .stroke2 { stroke: #2a9d6f } .stroke3 { stroke: #a05195 } .stroke4 { stroke: #c4a000 } .stroke5 { stroke: #4aa3c7 } .stroke6 { stroke: #d1495b } .stroke7 { stroke: #7a7f87 }
";

/// The page.
#[must_use]
pub fn page(tables: &[Table]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "kvsim bench" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "kvsim bench" }
                p.setting {
                    "kvsim " (env!("CARGO_PKG_VERSION")) " · medians of the rounds, with the least and the most. "
                    "Compare ratios of one table, not figures of two."
                }
                @for table in tables { (section(table)) }
            }
        }
    };
    page.into_string()
}

fn section(table: &Table) -> Markup {
    let plan = &table.plan;
    let measured: Vec<&Row> = table
        .rows
        .iter()
        .filter(|row| rate(row).is_some())
        .collect();
    html! {
        h2 { (plan.scenario.name) }
        @if !plan.scenario.description.is_empty() { p { (plan.scenario.description) } }
        p.setting { (setting(table)) }
        @if let Some(device) = table.rows.iter().find_map(|row| row.device.as_deref()) { pre { (device) } }
        @if !measured.is_empty() {
            figure {
                figcaption { "Operations a second" }
                (bars("Operations a second by engine", &rates(&measured)))
            }
            figure {
                figcaption {
                    "Latency, all rounds together: "
                    @for (index, row) in measured.iter().enumerate() {
                        span class=(format!("key {}", colour("fill", index))) {} (row.engine) (mark(row)) " "
                    }
                }
                (curves("Latency by share of the operations", &latencies(&measured)))
            }
        }
        (figures(table))
        @for caveat in caveats(table) { p.caveat { (MARK) " " (caveat) } }
        @for (ours, best, ratio) in ratios(table) {
            p { (ours) " ÷ " (best) ", the best of the others: " strong { (format!("{ratio:.2}")) } }
        }
        h3 { "How each was set up, and what was counted" }
        (setups(table))
    }
}

fn rate(row: &Row) -> Option<Spread> {
    row.spread(Seen::rate)
}

fn mark(row: &Row) -> String {
    row.caveat.map_or_else(String::new, |_| MARK.to_string())
}

fn rates(rows: &[&Row]) -> Vec<Bar> {
    let bar = |row: &&Row| {
        let rate = rate(row)?;
        Some(Bar {
            label: format!("{}{}", row.engine, mark(row)),
            value: rate.median,
            least: rate.least,
            most: rate.most,
            text: thousands(whole(rate.median)),
        })
    };
    rows.iter().filter_map(bar).collect()
}

/// The latencies of all rounds in one histogram.
fn together(row: &Row) -> Histogram<u64> {
    let mut all = histogram();
    for round in &row.rounds {
        all.add(round.all_latencies())
            .expect("they have the same bounds");
    }
    all
}

fn latencies(rows: &[&Row]) -> Vec<Curve> {
    let curve = |row: &&Row| {
        let all = together(row);
        let shares = (0..=POINTS_PER_NINE * NINES_MAX).map(|step| {
            let nines = f64::from(step) / f64::from(POINTS_PER_NINE);
            1.0 - 10_f64.powf(-nines)
        });
        // Beyond one operation there is no tail to speak of.
        let count = as_f64(all.len());
        let points = shares
            .filter(|share| (1.0 - share) * count >= 1.0)
            .map(|share| (share, as_f64(all.value_at_quantile(share))));
        Curve {
            label: row.engine.to_owned(),
            points: points.collect(),
        }
    };
    rows.iter().map(curve).collect()
}

fn figures(table: &Table) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th { "engine" } th { "ops/s" } th { "least – most" } th { "p50" } th { "p99" } th { "p99.9" } th { "max" }
                th { "flushes/commit" } th { "written ÷ user" } th { "space ÷ live" } th { "CPU/op" }
            } }
            tbody {
                @for row in &table.rows { (figures_of(row)) }
                @if let Some(prediction) = &table.prediction {
                    tr {
                        td { "predicted" }
                        td { (thousands(whole(prediction.operations_per_second))) }
                        td {}
                        td { (nanoseconds(prediction.p50_ns)) }
                        td { (nanoseconds(prediction.p99_ns)) }
                        td { (nanoseconds(prediction.p999_ns)) }
                        td.how colspan="5" { "by the profile " (prediction.profile) }
                    }
                }
            }
        } }
    }
}

fn figures_of(row: &Row) -> Markup {
    let why = row.failed.as_ref().map(|error| error.what.as_str());
    let Some(rate) = rate(row) else {
        return html! {
            tr { td { (row.engine) } td.how.failed colspan="10" { (why.unwrap_or("was not measured")) } }
        };
    };
    let latency = |quantile: f64| {
        let spread = row.spread(|seen| as_f64(seen.all_latencies().value_at_quantile(quantile)));
        spread.map_or_else(String::new, |spread| nanoseconds(whole(spread.median)))
    };
    let ratio = |figure: &dyn Fn(&Seen) -> Option<f64>| {
        let all = row.spread(|seen| figure(seen).unwrap_or(f64::NAN));
        all.filter(|spread| spread.median.is_finite())
            .map_or_else(|| "–".to_owned(), |spread| format!("{:.2}", spread.median))
    };
    let cpu = row
        .spread(|seen| share(seen.counters.cpu_ms * 1_000_000, seen.operations()).unwrap_or(0.0));
    html! {
        tr {
            td { (row.engine) (mark(row)) }
            td { (thousands(whole(rate.median))) }
            td { (thousands(whole(rate.least))) " – " (thousands(whole(rate.most))) }
            @for quantile in [0.5, 0.99, 0.999, 1.0] { td { (latency(quantile)) } }
            td { (ratio(&|seen| share(seen.counters.device_flushes, seen.commits))) }
            td { (ratio(&|seen| share(seen.counters.device_written_bytes, seen.user_bytes))) }
            td { (share(row.space_bytes, row.live_bytes).map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"))) }
            td { (cpu.map_or_else(String::new, |spread| nanoseconds(whole(spread.median)))) }
        }
        @if let Some(why) = why { tr { td {} td.how.failed colspan="10" { "stopped: " (why) } } }
    }
}

fn setups(table: &Table) -> Markup {
    let sum =
        |row: &Row, figure: &dyn Fn(&Seen) -> u64| -> u64 { row.rounds.iter().map(figure).sum() };
    html! {
        div.wide { table {
            thead { tr {
                th { "engine" } th { "version" } th { "operations" } th { "commits" } th { "written by clients" }
                th { "written to the device" } th { "flushes" } th { "set up" }
            } }
            tbody { @for row in &table.rows {
                tr {
                    td { (row.engine) }
                    td { (row.version) }
                    td { (thousands(sum(row, &Seen::operations))) }
                    td { (thousands(sum(row, &|seen| seen.commits))) }
                    td { (bytes(sum(row, &|seen| seen.user_bytes))) }
                    td { (bytes(sum(row, &|seen| seen.counters.device_written_bytes))) }
                    td { (thousands(sum(row, &|seen| seen.counters.device_flushes))) }
                    td.how {
                        @for (index, (name, value)) in row.configuration.iter().enumerate() {
                            @if index > 0 { " · " } (name) " " (value)
                        }
                    }
                }
            } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use kvsim_store::script::Action;
    use quick_xml::events::Event;

    use super::super::counters::Counters;
    use super::super::load::Pace;
    use super::super::rounds::Plan;
    use super::super::store::{Durability, StoreError};
    use super::*;
    use crate::scenario::Scenario;

    fn seen(operations: u64, latency_ns: u64) -> Seen {
        let mut all = histogram();
        for nth in 0..operations {
            all.record(latency_ns + nth).expect("within the bounds");
        }
        Seen {
            elapsed: Duration::from_secs(1),
            latency: vec![(Action::Put, all)],
            user_bytes: operations * 1_000,
            commits: operations,
            counters: Counters {
                device_flushes: operations / 4,
                device_written_bytes: operations * 3_000,
                ..Counters::default()
            },
            own: Vec::new(),
        }
    }

    fn row(engine: &'static str, rounds: Vec<Seen>) -> Row {
        Row {
            engine,
            version: "7.8.9".to_owned(),
            configuration: vec![("cache".to_owned(), "11 MiB <script>".to_owned())],
            device: Some("a disk & more".to_owned()),
            durable_as_asked: true,
            caveat: None,
            rounds,
            space_bytes: 3_000,
            live_bytes: 2_000,
            failed: None,
        }
    }

    fn table(name: &str) -> Table {
        let mut refused = row("kvsim-fsync-free", Vec::new());
        refused.failed = Some(StoreError {
            engine: "kvsim-fsync-free",
            what: "refused: a \"cache\" <volatile>".to_owned(),
        });
        let mut vouched = row("other", vec![seen(2_000, 50_000)]);
        vouched.caveat = Some("on your word");
        Table {
            plan: Plan {
                scenario: Scenario {
                    name: name.to_owned(),
                    ..Scenario::default()
                },
                durability: Durability::Full,
                directory: PathBuf::from("."),
                pace: Pace {
                    warm_up: Duration::from_secs(1),
                    measured: Duration::from_secs(8),
                    rate: None,
                    tasks: false,
                },
                rounds: 3,
                cache_bytes: 0,
                assume_power_loss_protection: false,
            },
            rows: vec![
                row(
                    "kvsim",
                    vec![
                        seen(4_000, 100_000),
                        seen(5_000, 100_000),
                        seen(6_000, 100_000),
                    ],
                ),
                refused,
                vouched,
            ],
            prediction: None,
        }
    }

    /// All texts of a page, and the names of its elements; panics if it is not well formed but for the two void elements.
    fn parse(page: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
        let mut reader = quick_xml::Reader::from_str(page);
        reader.config_mut().check_end_names = false;
        let (mut texts, mut names, mut attributes, mut depth) =
            (Vec::new(), Vec::new(), Vec::new(), 0_i32);
        let mut text = String::new();
        loop {
            match reader.read_event().expect("well formed") {
                Event::Start(start) => {
                    let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                    depth += i32::from(name != "meta");
                    names.push(name);
                    for attribute in start.attributes() {
                        let attribute = attribute.expect("well formed");
                        attributes.push(String::from_utf8_lossy(&attribute.value).into_owned());
                    }
                    texts.push(std::mem::take(&mut text));
                }
                Event::End(_) => {
                    depth -= 1;
                    texts.push(std::mem::take(&mut text));
                }
                Event::Text(piece) => text.push_str(&piece.decode().expect("UTF-8")),
                Event::GeneralRef(reference) => match reference.decode().expect("UTF-8").as_ref() {
                    "lt" => text.push('<'),
                    "gt" => text.push('>'),
                    "amp" => text.push('&'),
                    "quot" => text.push('"'),
                    other => panic!("&{other};"),
                },
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "every element ends");
        (texts, names, attributes)
    }

    /// Goal: the page says what the table says, whole, and nothing that came from elsewhere is taken for markup. Method: a page of two
    /// workloads with names, refusals and settings full of markup, parsed; its texts, its charts.
    #[test]
    fn the_page_holds_all_figures_and_escapes_what_it_is_given() {
        let page = page(&[table("first <b>&\"x\""), table("second")]);
        let (texts, names, attributes) = parse(&page);
        let has = |wanted: &str| texts.iter().any(|text| text.contains(wanted));
        for wanted in [
            "first <b>&\"x\"",
            "second",
            "5,000",
            "4,000 – 6,000",
            "refused: a \"cache\" <volatile>",
            "a disk & more",
            "cache 11 MiB <script>",
            "7.8.9",
            "† on your word",
            "0.25",
            "3.00",
            "1.50",
            "15,000",
            "seed 1",
            "durability full",
        ] {
            assert!(has(wanted), "{wanted:?} is not on the page");
        }
        assert!(has("2.50"), "the ratio to the best of the others");
        let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
        assert_eq!((count("svg"), count("polyline"), count("rect")), (4, 4, 4));
        assert_eq!(
            (count("script"), count("link"), count("img"), count("b")),
            (0, 0, 0, 0)
        );
        assert!(
            !attributes.iter().any(|value| value.contains("://")),
            "nothing is fetched"
        );
        let number = |point: &str| point.split(',').all(|at| at.parse::<f64>().is_ok());
        let curves = attributes
            .iter()
            .filter(|value| value.contains(' ') && value.contains(','));
        for curve in curves {
            assert!(curve.split(' ').all(number), "{curve}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    /// Goal: a page with nothing measured is a page. Method: no round at all, and no table at all.
    #[test]
    fn a_page_of_nothing_is_a_page() {
        let mut empty = table("empty");
        for row in &mut empty.rows {
            row.rounds.clear();
        }
        let (texts, names, _) = parse(&page(&[empty]));
        assert!(texts.iter().any(|text| text.contains("was not measured")));
        assert!(!names.contains(&"svg".to_owned()));
        parse(&page(&[]));
    }
}
