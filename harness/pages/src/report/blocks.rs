//! The device's blocks at a cut: what was durable, and what became of all that was pending; by colour, by pattern and by letter, and in a
//! table.

use kvsim_sim::{Cut, CutOp};
use kvsim_simdisk::Sectors;
use maud::{Markup, html};

use kvsim_api::units::{bytes, thousands};
use kvsim_drive::timeline::words;

/// A cell is so many bytes, or a sector if that is more.
const CELL_BYTES: u64 = 4_096;
const CELLS_PER_ROW: usize = 64;
/// Cells that are drawn; of a larger device those around what was pending.
const CELLS_MAX: u64 = 2_048;
/// Cells on either side of what was pending.
const AROUND: u64 = 8;
/// Rows of the table.
const OPERATIONS_MAX: usize = 200;

const SIZE: f64 = 14.0;
const LEFT: f64 = 90.0;

/// What a cell is at a cut, from the least grave to the gravest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Blank,
    Durable,
    Pending,
    Kept,
    Lost,
    Torn,
}

impl State {
    const ALL: [State; 6] = [
        State::Blank,
        State::Durable,
        State::Pending,
        State::Kept,
        State::Lost,
        State::Torn,
    ];

    fn name(self) -> &'static str {
        match self {
            State::Blank => "blank",
            State::Durable => "durable",
            State::Pending => "pending",
            State::Kept => "kept",
            State::Lost => "lost",
            State::Torn => "torn",
        }
    }

    /// What stands in the cell; what is durable or blank needs no letter.
    fn letter(self) -> &'static str {
        match self {
            State::Blank | State::Durable => "",
            State::Pending => "P",
            State::Kept => "K",
            State::Lost => "L",
            State::Torn => "T",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            State::Blank => "never written",
            State::Durable => "on the medium before the cut, and untouched by what was pending",
            State::Pending => "in the cache of a device that kept its power",
            State::Kept => "pending, and reached the medium",
            State::Lost => "pending, and did not",
            State::Torn => "pending, and reached it in part",
        }
    }
}

/// The picture and the table of a cut.
pub(super) fn section(cut: &Cut, killed: bool) -> Markup {
    if !cut.of_device {
        return table(cut, killed);
    }
    let map = Map::of(cut, killed);
    html! {
        figure {
            figcaption {
                "Blocks of " (bytes(map.cell_bytes)) " when the plug was pulled. "
                @for state in State::ALL {
                    @let count = map.cells.iter().filter(|(_, own)| *own == state).count();
                    @if count > 0 {
                        svg.swatch viewBox="0 0 14 14" style="width: 1em; height: 1em; min-width: 0; vertical-align: -0.1em" aria-hidden="true" { (cell(0.0, 0.0, state, None)) }
                        " " (count) " " strong { (state.name()) } " (" (state.meaning()) "). "
                    }
                }
                @if map.is_part { "Of the device, of " (bytes(cut.durable.len_bytes())) ", the parts around what was pending are shown; "
                    (bytes(cut.durable.written_bytes())) " of it had been written. " }
            }
            (map.draw())
        }
        (table(cut, killed))
    }
}

fn table(cut: &Cut, killed: bool) -> Markup {
    html! {
        @if cut.pending.is_empty() { p { "Nothing was pending: the cut took nothing but what was in memory." } }
        @else {
            div.wide { table.texts {
                thead { tr { th { "operation" } th { "what" } th { "when the plug was pulled" } th { "what became of it" } } }
                tbody { @for op in cut.pending.iter().take(OPERATIONS_MAX) { tr {
                    td { (if op.words.is_some() { "step " } else { "io " }) (op.op) }
                    td { (words::operation(op)) }
                    td { (standing(op)) }
                    td { @if killed { "pending: the machine kept its power" } @else { (words::fate(op, cut.sector_bytes)) } }
                } } }
            } }
            @if cut.pending.len() > OPERATIONS_MAX {
                p.setting { "and " (thousands((cut.pending.len() - OPERATIONS_MAX) as u64)) " more" }
            }
        }
    }
}

fn standing(op: &CutOp) -> &'static str {
    if op.words.is_some() {
        return if op.dropped {
            "given up by a failed sync"
        } else {
            "pending: no sync covers it"
        };
    }
    match (op.completed, op.dropped) {
        (_, true) => "complete, and dropped by a failed flush",
        (true, false) => "complete, and covered by no flush",
        (false, false) => "under way",
    }
}

struct Map {
    cell_bytes: u64,
    /// Number and state, ascending.
    cells: Vec<(u64, State)>,
    is_part: bool,
}

impl Map {
    fn of(cut: &Cut, killed: bool) -> Map {
        let cell_bytes = CELL_BYTES.max(cut.sector_bytes.into());
        let grown = cut.pending.iter().map(|op| op.offset + op.len_bytes);
        let len_bytes = grown.fold(cut.durable.len_bytes(), u64::max);
        let count = len_bytes.div_ceil(cell_bytes);
        let is_part = count > CELLS_MAX;
        let wanted = |cell: u64| {
            !is_part
                || cut.pending.iter().any(|op| {
                    let (first, last) = range(op, cell_bytes);
                    op.kind != "grow"
                        && (first.saturating_sub(AROUND)..=last.saturating_add(AROUND))
                            .contains(&cell)
                })
        };
        let mut cells: Vec<(u64, State)> = (0..count)
            .filter(|cell| wanted(*cell))
            .take(usize::try_from(CELLS_MAX).unwrap_or(usize::MAX))
            .map(|cell| (cell, at_rest(cut, cell, cell_bytes)))
            .collect();
        for op in cut.pending.iter().filter(|op| op.kind != "grow") {
            let (first, last) = range(op, cell_bytes);
            let from = cells.partition_point(|(cell, _)| *cell < first);
            for (cell, state) in cells[from..]
                .iter_mut()
                .take_while(|(cell, _)| *cell <= last)
            {
                *state = (*state).max(fate(op, *cell, cell_bytes, cut.sector_bytes, killed));
            }
        }
        Map {
            cell_bytes,
            cells,
            is_part,
        }
    }

    /// Runs of cells, a row each, or several if they are long.
    fn rows(&self) -> Vec<&[(u64, State)]> {
        self.cells
            .chunk_by(|(one, _), (next, _)| one + 1 == *next)
            .flat_map(|run| run.chunks(CELLS_PER_ROW))
            .collect()
    }

    fn draw(&self) -> Markup {
        let rows = self.rows();
        let height = SIZE * number(rows.len()) + 4.0;
        let width = LEFT + SIZE * number(CELLS_PER_ROW) + 4.0;
        html! {
            div.wide {
                svg.blocks viewBox=(format!("0 0 {width} {height}")) role="img" aria-label="Blocks of the device at the cut" {
                    title { "Blocks of the device at the cut" }
                    @for (index, row) in rows.iter().enumerate() {
                        @let y = SIZE * number(index) + 2.0;
                        @if let Some((first, _)) = row.first() {
                            text x=(format!("{:.1}", LEFT - 6.0)) y=(format!("{:.1}", y + 10.0)) text-anchor="end" { (thousands(first * self.cell_bytes)) }
                        }
                        @for (at, (number_of, state)) in row.iter().enumerate() {
                            (cell(LEFT + SIZE * number(at), y, *state, Some(number_of * self.cell_bytes)))
                        }
                    }
                }
            }
        }
    }
}

fn cell(x: f64, y: f64, state: State, offset: Option<u64>) -> Markup {
    let style = match state {
        State::Lost => Some("fill: url(#lost)"),
        State::Torn => Some("fill: url(#torn)"),
        _ => None,
    };
    let size = format!("{:.1}", SIZE - 2.0);
    html! {
        rect class=(format!("cell {}", state.name())) style=[style] x=(format!("{x:.1}")) y=(format!("{y:.1}")) width=(size) height=(size) {
            @if let Some(offset) = offset { title { (state.name()) ", at " (thousands(offset)) } }
        }
        @if !state.letter().is_empty() {
            text.off x=(format!("{:.1}", x + 6.0)) y=(format!("{:.1}", y + 10.0)) { (state.letter()) }
        }
    }
}

/// The first and the last cell that an operation touches.
fn range(op: &CutOp, cell_bytes: u64) -> (u64, u64) {
    let last = op.offset + op.len_bytes.saturating_sub(1);
    (op.offset / cell_bytes, last / cell_bytes)
}

/// What a cell is, apart from what is pending.
fn at_rest(cut: &Cut, cell: u64, cell_bytes: u64) -> State {
    let start = cell * cell_bytes;
    let len = cut
        .durable
        .len_bytes()
        .saturating_sub(start)
        .min(cell_bytes);
    if len > 0
        && cut
            .durable
            .excerpt(start, len)
            .to_vec()
            .iter()
            .any(|byte| *byte != 0)
    {
        State::Durable
    } else {
        State::Blank
    }
}

/// What a pending operation made of a cell that it touches.
fn fate(op: &CutOp, cell: u64, cell_bytes: u64, sector_bytes: u32, killed: bool) -> State {
    let Some(survived) = &op.survived else {
        return State::Lost;
    };
    if killed {
        return State::Pending;
    }
    let Sectors::Torn {
        kept,
        garbage,
        torn_at,
        unreadable,
    } = survived
    else {
        return State::Kept;
    };
    let sector_bytes = u64::from(sector_bytes.max(1));
    let start = (cell * cell_bytes).max(op.offset);
    let end = ((cell + 1) * cell_bytes).min(op.offset + op.len_bytes);
    let sectors = (start - op.offset) / sector_bytes..(end - op.offset).div_ceil(sector_bytes);
    let odd = [garbage, torn_at]
        .into_iter()
        .flatten()
        .map(|(sector, _)| sector)
        .chain(unreadable)
        .any(|sector| sectors.contains(sector));
    let new = kept
        .iter()
        .filter(|sector| sectors.contains(sector))
        .count() as u64;
    match (odd, new) {
        (true, _) => State::Torn,
        (false, 0) => State::Lost,
        (false, new) if new == sectors.end - sectors.start => State::Kept,
        (false, _) => State::Torn,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use kvsim_simdisk::Image;

    use super::*;

    fn op(op: u64, offset: u64, len_bytes: u64, survived: Option<Sectors>) -> CutOp {
        CutOp {
            op,
            kind: "write",
            offset,
            len_bytes,
            completed: true,
            dropped: false,
            survived,
            words: None,
        }
    }

    fn torn(kept: &[u64], garbage: Option<(u64, u64)>) -> Option<Sectors> {
        Some(Sectors::Torn {
            kept: kept.to_vec(),
            garbage,
            torn_at: None,
            unreadable: None,
        })
    }

    fn cut(len_bytes: u64, pending: Vec<CutOp>) -> Cut {
        let mut durable = Image::new(len_bytes);
        durable.write(4_096, &[1; 512]);
        Cut {
            event: 0,
            of_device: true,
            durable,
            pending,
            sector_bytes: 512,
        }
    }

    fn states(map: &Map) -> Vec<State> {
        map.cells.iter().map(|(_, state)| *state).collect()
    }

    /// Goal: each cell is what became of it, and the gravest of what became of it. Method: a device of eight cells with a write of each
    /// fate, one of them over a durable block and one torn between two cells.
    #[test]
    fn a_cell_is_what_became_of_it() {
        use State::{Blank, Durable, Kept, Lost, Torn};
        let pending = vec![
            op(1, 8_192, 4_096, Some(Sectors::All)),
            op(2, 12_288, 4_096, None),
            // Of two cells the first is new and the second old, but for its last sector.
            op(3, 16_384, 8_192, torn(&[0, 1, 2, 3, 4, 5, 6, 7, 15], None)),
            op(4, 24_576, 512, torn(&[], Some((0, 7)))),
        ];
        let map = Map::of(&cut(8 * 4_096, pending.clone()), false);
        assert_eq!(
            states(&map),
            [Blank, Durable, Kept, Lost, Kept, Torn, Torn, Blank]
        );
        let killed = vec![op(1, 0, 4_096, Some(Sectors::All))];
        let map = Map::of(&cut(2 * 4_096, killed), true);
        assert_eq!(states(&map), [State::Pending, Durable]);
    }

    /// Goal: the picture stays small, whatever the device. Method: a gigabyte with two writes far apart.
    #[test]
    fn a_large_device_is_shown_in_part() {
        let pending = vec![
            op(1, 0, 4_096, None),
            op(2, 512 << 20, 4_096, Some(Sectors::All)),
        ];
        let map = Map::of(&cut(1 << 30, pending), false);
        assert!(map.is_part);
        assert_eq!(map.cells.len(), 9 + 17);
        assert_eq!(map.rows().len(), 2);
    }
}
