//! The page of `kvsim board`: engines beside profiles, then each engine with its settings, what its documentation says, its counts and its findings.
//!
//! Invariant: no real time, so the same cells give the same bytes.

use maud::{Markup, html};

use super::whole;
use kvsim_api::units::thousands;
use kvsim_board::board::{Board, Row};
use kvsim_board::cell::Cell;
use kvsim_board::class::VerdictClass;
use kvsim_board::told::Told;

/// The page of a board.
#[must_use]
pub fn page(board: &Board) -> String {
    let body = html! {
        p.setting { "scenario " code { (board.scenario) } ", board " code { (board.hash) } }
        @if board.is_interrupted { p.caveat { "It was interrupted: some cells are missing." } }
        p {
            "Each cell is an engine on a persistence profile: what power cuts may leave of its files. A verdict holds for this engine as it is set here, under the "
            "rules of that profile. A profile such as posix allows more than any one file system does."
        }
        (counts(board))
        (overview(board))
        h2 { "Bounds" }
        (bounds(board))
        @for row in &board.engines { (engine(row)) }
    };
    whole("kvsim board", &body)
}

fn counts(board: &Board) -> Markup {
    html! {
        p.verdict {
            @for (at, (class, count)) in board.counts().iter().enumerate() {
                @if at > 0 { ", " }
                (count) " " (word(*class))
            }
        }
    }
}

/// The class in words, with a colour that says no more than the words.
fn word(class: VerdictClass) -> Markup {
    html! {
        @if class.is_violation() { strong.violation { (class.words()) } }
        @else if class == VerdictClass::CleanWithinBounds { strong.pass { (class.words()) } }
        @else { strong.inconclusive { (class.words()) } }
    }
}

fn overview(board: &Board) -> Markup {
    html! {
        div.wide { table.texts {
            thead { tr { th { "engine" } @for profile in &board.profiles { th { (profile) } } } }
            tbody { @for row in &board.engines { tr {
                td { a href=(format!("#{}", row.name)) { (row.name) } br; span.soft { (row.about.engine) } }
                @for profile in &board.profiles {
                    td { @match row.cell(profile) {
                        Some(cell) => (short(cell)),
                        None => "not run",
                    } }
                }
            } } }
        } }
    }
}

fn short(cell: &Cell) -> Markup {
    let only_creation =
        !cell.findings.is_empty() && cell.findings.iter().all(|finding| finding.at_creation);
    html! {
        (word(cell.verdict))
        @if only_creation { " at creation" }
        br;
        (thousands(cell.total.checked)) " states checked"
        @if cell.recorded.seen < cell.recorded.crash_points { br; "ended early" }
    }
}

fn bounds(board: &Board) -> Markup {
    let Some(cell) = board.cells().find(|cell| cell.bounds.operations > 0) else {
        return html! {};
    };
    let bounds = &cell.bounds;
    html! {
        p {
            (bounds.operations) " requests, up to " (bounds.depth) " crashes in a row; the second one falls in the recovery from the first"
            @if bounds.work > 0 { " or in the " (bounds.work) " requests after it" }
            ". Of the pending steps each set is taken that at most " (bounds.subset_writes) " steps make up, or in which at most so many are missing; at most "
            (bounds.torn_writes) " step is torn at once. Of one crash point only a bounded number of states is taken, drawn from the seed: it stands at each engine, since "
            "an engine that takes long to open gets fewer. Of one kind of violation " (bounds.alike_max) " count, and an exploration ends after " (bounds.violations_max) " that do. \
            All bounds are counts and none is a time. What a bound left out may hold a failure."
        }
    }
}

fn engine(row: &Row) -> Markup {
    let about = &row.about;
    html! {
        h2 id=(row.name) { (row.name) }
        table.facts { tbody {
            @if !about.engine.is_empty() { tr { th { "engine" } td { (about.engine) } } }
            @if !about.settings.is_empty() { tr { th { "settings" } td { (about.settings) } } }
            @if !about.options.is_empty() { tr { th { "options" } td { (about.options.join(", ")) } } }
            @if !about.order.is_empty() { tr { th { "a crash leaves" } td {
                @if about.order == "each" { "each write for itself" } @else { "a prefix of the commit order" }
            } } }
            @if !about.policies.is_empty() { tr { th { "policies of its own" } td { (about.policies.join(", ")) } } }
            @if !about.not_asked.is_empty() { tr { th { "not asked" } td { (about.not_asked.join(", ")) } } }
            tr { th { "module" } td { code { (row.module) } } }
            @for documented in &row.documented {
                tr { th { "documented" } td {
                    @if !documented.promises.is_empty() { "Promised: " (documented.promises) " " }
                    @if !documented.excludes.is_empty() { strong { "Excluded or assumed: " } (documented.excludes) " " }
                    a href=(documented.source) { "source" }
                } }
            }
        } }
        (figures(row))
        @for cell in &row.cells {
            @for why in &cell.why { p { (cell.key.profile) ": " (word(cell.verdict)) ": " (why) } }
        }
        @for told in &row.findings { (section(row, told)) }
    }
}

fn figures(row: &Row) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th { "profile" } th { "crash points" } th { "states possible" } th { "distinct" } th { "checked" } th { "recoveries" }
                th { "states of a crash point" } th { "recoveries cut once more" } th { "violations" } th { "left out by bounds, in crash points" } th { "hash" }
            } }
            tbody { @for cell in &row.cells { tr {
                td { (cell.key.profile) }
                td { (thousands(cell.recorded.seen)) " of " (thousands(cell.recorded.crash_points)) }
                @for count in [cell.total.possible, cell.total.distinct, cell.total.checked, cell.total.recoveries] { td { (thousands(count)) } }
                td { (thousands(cell.bounds.states_per_point)) }
                td { @match cell.bounds.deeper_every { 1 => "all", every => { "1 in " (thousands(every)) } } }
                td { (cell.violations) }
                td.how { @for (at, (points, what)) in cell.left_out().iter().enumerate() {
                    @if at > 0 { "; " }
                    (thousands(*points)) ": " (what)
                } }
                td { code { (cell.hash.get(..12).unwrap_or(&cell.hash)) } }
            } } }
        } }
    }
}

fn section(row: &Row, told: &Told) -> Markup {
    let Some(finding) = told.first(&row.cells) else {
        return html! {};
    };
    let list = |names: &[String]| names.join(", ");
    html! {
        h3 {
            "On " (told.profiles().join(", ")) ": " (word(finding.class))
            @if finding.requests == 0 { ", while the database is created" }
        }
        p.sentence { (finding.sentence) }
        @if let Some(blame) = &finding.blame { p.blame { strong { "Blame: " } (blame.sentence) } }
        table.facts { tbody {
            tr { th { "property" } td { (finding.property) } }
            tr { th { "small case" } td {
                (finding.requests) " requests, " (finding.crashes) " crashes, " (finding.persisted) " persisted steps"
                @if !finding.is_minimal { "; making it small ended before it was done" }
                @for (at, occurrence) in told.occurrences.iter().enumerate() {
                    @if at == 0 { "; met " } @else { ", " }
                    (occurrence.times) " times on " (occurrence.profile)
                }
            } }
            tr { th { "shown by" } td {
                (list(&finding.shown_by))
                @if !finding.not_by.is_empty() { "; not by: " (list(&finding.not_by)) }
                @if !finding.undecided_by.is_empty() { "; not decided: " (list(&finding.undecided_by)) }
            } }
            tr { th { "weakest, strongest" } td { (list(&finding.weakest)) "; " (list(&finding.strongest)) } }
            tr { th { "replay" } td { code { (finding.replay) } } }
            @for other in told.others() {
                tr { th { "the same on " (other.profile) } td { code { (other.replay) } } }
            }
            @for confirmed in told.confirmed(&row.cells) {
                tr { th { "on " (confirmed.profile) } td { (confirmed.sentence) br; code { (confirmed.replay) } } }
            }
            tr { th { "to reproduce it natively" } td {
                code { (finding.native_line) }
            } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsed::parse;
    use kvsim_board::cell::Key;

    fn cell(profile: &str, verdict: VerdictClass) -> Cell {
        let key = Key {
            kvsim: "1".to_owned(),
            engine: "it".to_owned(),
            module: "m".to_owned(),
            profile: profile.to_owned(),
            scenario: "s".to_owned(),
        };
        Cell::failed(key, verdict, "<b>no</b> & more".to_owned())
    }

    /// Goal: each cell is there with its verdict in words, what is missing is said, and nothing is taken for markup. Method: two cells of three.
    #[test]
    fn cells_are_told_and_escaped() {
        let cells = vec![
            cell("posix", VerdictClass::Undecided),
            cell("xfs", VerdictClass::CleanWithinBounds),
        ];
        let profiles = ["posix", "xfs", "zfs"].map(str::to_owned).to_vec();
        let row = Row::new("sqlite-delete-full", "hash<i>".to_owned(), cells);
        let board = Board::new("files_board", profiles, vec![row], true);
        let parsed = parse(&page(&board));
        for wanted in [
            "undecided",
            "clean within bounds",
            "not run",
            "interrupted",
            "<b>no</b> & more",
            "hash<i>",
            "EXTRA",
        ] {
            assert!(parsed.has(wanted), "{wanted:?} is not on the page");
        }
        assert_eq!((parsed.count("b"), parsed.count("i")), (0, 0));
    }
}
