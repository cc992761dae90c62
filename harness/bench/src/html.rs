//! All tables of one call as one page. The page needs no network, no script and no other file, and has all that the
//! tables of the terminal have. The template escapes what comes from elsewhere (names, device models, errors).

use hdrhistogram::Histogram;
use kvsim_store::seen::histogram;
use maud::{Markup, html};

use super::load::Seen;
use super::numbers::{float, whole};
use super::report::{MARK, caveats, load_rate, peak, ratios, setting, share};
use super::rounds::{Row, Spread, Table};
use kvsim_api::units::{bytes, nanoseconds, thousands};
use kvsim_pages::page::chart::{Bar, Curve, bars, colour, curves};
use kvsim_pages::page::document;

/// Points of a curve for each nine.
const POINTS_PER_NINE: u32 = 20;
/// Curves end at 99.999 %.
const NINES_MAX: u32 = 5;

/// The page.
#[must_use]
pub fn page(tables: &[Table]) -> String {
    let body = html! {
        p.setting {
            "kvsim " (env!("CARGO_PKG_VERSION")) " · medians of the rounds, with the least and the most. "
            "Compare ratios of one table, not figures of two."
        }
        @for table in tables { (section(table)) }
    };
    document("kvsim bench", &body)
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
    row.caveat
        .as_ref()
        .map_or_else(String::new, |_| MARK.to_string())
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
        let count = float(all.len());
        let points = shares
            .filter(|share| (1.0 - share) * count >= 1.0)
            .map(|share| (share, float(all.value_at_quantile(share))));
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
                th { "flushes/commit" } th { "written ÷ user" } th { "space ÷ live" } th { "CPU/op" } th { "memory" } th { "loaded/s" }
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
                        td.how colspan="7" { "by the profile " (prediction.profile) @if let Some(note) = prediction.note { ": " (note) } }
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
            tr { td { (row.engine) } td.how.failed colspan="12" { (why.unwrap_or("was not measured")) } }
        };
    };
    let latency = |quantile: f64| {
        let spread = row.spread(|seen| float(seen.all_latencies().value_at_quantile(quantile)));
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
            td { (peak(row.memory)) }
            td { (load_rate(row.load)) }
        }
        @if let Some(why) = why { tr { td {} td.how.failed colspan="12" { "stopped: " (why) } } }
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
pub(super) mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use kvsim_store::script::Action;

    use super::super::counters::Counters;
    use super::super::load::Pace;
    use super::super::rounds::{Load, Memory, Plan};
    use super::super::store::{Durability, StoreError};
    use super::*;
    use kvsim_pages::parsed::parse;
    use kvsim_scenario::Scenario;

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
            load: Some(Load {
                keys: 6_000,
                took_ns: 2_000_000_000,
            }),
            rounds,
            memory: Some(Memory {
                peak_bytes: 77 << 20,
                resident_bytes: 55 << 20,
                mapped_bytes: 5 << 20,
            }),
            space_bytes: 3_000,
            live_bytes: 2_000,
            failed: None,
        }
    }

    fn named(name: &str) -> Scenario {
        let mut scenario = Scenario::default();
        name.clone_into(&mut scenario.name);
        scenario
    }

    pub(crate) fn table(name: &str) -> Table {
        let mut refused = row("kvsim-fsync-free", Vec::new());
        refused.failed = Some(StoreError {
            engine: "kvsim-fsync-free",
            what: "refused: a \"cache\" <volatile>".to_owned(),
        });
        let mut vouched = row("other", vec![seen(2_000, 50_000)]);
        vouched.caveat = Some("on your word".to_owned());
        Table {
            plan: Plan {
                scenario: named(name),
                durability: Durability::Full,
                directory: PathBuf::from("."),
                program: PathBuf::from("kvsim"),
                pace: Pace {
                    warm_up: Duration::from_secs(1),
                    measured: Duration::from_secs(8),
                    rate: None,
                    tasks: false,
                },
                rounds: 3,
                cache_bytes: 0,
                index_bytes: 0,
                engine_options: Vec::new(),
                space_percent: crate::native::SPACE_PERCENT,
                memory_bytes: None,
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

    /// Goal: the page says what the table says, whole, and nothing that came from elsewhere is taken for markup. Method: a page of two
    /// workloads with names, refusals and settings full of markup, parsed; its texts, its charts.
    #[test]
    fn the_page_holds_all_figures_and_escapes_what_it_is_given() {
        let page = page(&[table("first <b>&\"x\""), table("second")]);
        let parsed = parse(&page);
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
            "77 MiB",
            "3.00",
            "1.50",
            "15,000",
            "seed 1",
            "durability full",
        ] {
            assert!(parsed.has(wanted), "{wanted:?} is not on the page");
        }
        assert!(parsed.has("2.50"), "the ratio to the best of the others");
        let count = |wanted: &str| parsed.count(wanted);
        assert_eq!((count("svg"), count("polyline"), count("rect")), (4, 4, 4));
        assert_eq!(count("b"), 0);
        let number = |point: &str| point.split(',').all(|at| at.parse::<f64>().is_ok());
        let curves = parsed
            .attributes
            .iter()
            .filter(|value| value.contains(' ') && value.contains(','))
            // What is said to a telephone is no curve.
            .filter(|value| !value.starts_with("width="));
        for curve in curves {
            assert!(curve.split(' ').all(number), "{curve}");
        }
    }

    /// Goal: a page with nothing measured is a page. Method: no round at all, and no table at all.
    #[test]
    fn a_page_of_nothing_is_a_page() {
        let mut empty = table("empty");
        for row in &mut empty.rows {
            row.rounds.clear();
        }
        let parsed = parse(&page(&[empty]));
        assert!(parsed.has("was not measured"));
        assert_eq!(parsed.count("svg"), 0);
        parse(&page(&[]));
    }
}
