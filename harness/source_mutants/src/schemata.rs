//! One source with all its edits, each behind a switch.
//!
//! Each place is wrapped once; the edited text has the original operands without switches, since only one edit is active at a time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use crate::mutation::{Mutation, Switch};

/// A source with switches, and where each edit is in it.
#[derive(Debug, Clone, Default)]
pub struct Switched {
    /// The source.
    pub text: String,
    /// The bytes of `text` that belong to one edit alone, with its number.
    pub edits: Vec<(Range<usize>, usize)>,
    /// The bytes of `text` that a place takes, with the numbers of its edits.
    pub places: Vec<(Range<usize>, Vec<usize>)>,
}

/// Writes `source` with a switch at each of these places; those that are not to be built are left out.
#[must_use]
pub fn switched(source: &str, mutations: &[Mutation]) -> Switched {
    let mut places: BTreeMap<Order, Vec<&Mutation>> = BTreeMap::new();
    for mutation in mutations.iter().filter(|mutation| mutation.built) {
        let order = Order {
            start: mutation.start,
            is_wide: mutation.end > mutation.start,
            end_from_last: usize::MAX - mutation.end,
            switch: mutation.switch,
        };
        places.entry(order).or_default().push(mutation);
    }
    let mut writer = Writer {
        source,
        places: places.into_values().collect(),
        next: 0,
        out: Switched::default(),
    };
    writer.write(0..source.len());
    writer.out
}

/// Outer places come before what they contain, and insertions before what begins there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    start: usize,
    is_wide: bool,
    end_from_last: usize,
    switch: Switch,
}

struct Writer<'a> {
    source: &'a str,
    places: Vec<Vec<&'a Mutation>>,
    next: usize,
    out: Switched,
}

impl Writer<'_> {
    /// Writes these bytes of the source with all places within.
    fn write(&mut self, range: Range<usize>) {
        let mut at = range.start;
        while let Some(place) = self.places.get(self.next) {
            let (start, end) = (place[0].start, place[0].end);
            if start >= range.end {
                break;
            }
            let place = place.clone();
            self.next += 1;
            self.out.text.push_str(&self.source[at..start]);
            self.place(&place);
            at = end;
        }
        self.out.text.push_str(&self.source[at..range.end]);
    }

    fn place(&mut self, place: &[&Mutation]) {
        let begin = self.out.text.len();
        let inner = place[0].start..place[0].end;
        match place[0].switch {
            Switch::Expression => {
                self.out.text.push('(');
                for mutation in place {
                    self.edit(
                        mutation,
                        |number| format!("if {} {{ ", on(number)),
                        " } else ",
                    );
                }
                self.out.text.push_str("{ ");
                self.write(inner);
                self.out.text.push_str(" })");
            }
            Switch::Statement => {
                self.edit(place[0], |number| format!("if !{} {{ ", on(number)), "");
                self.write(inner);
                self.out.text.push_str(" }");
            }
            Switch::Body => {
                for mutation in place {
                    let head = |number| format!(" if {} {{ return ", on(number));
                    self.edit(mutation, head, "; }");
                }
            }
            Switch::Arm => self.edit(place[0], |number| format!(" if !{}", on(number)), ""),
            Switch::None => self.write(inner),
        }
        let numbers = place.iter().map(|mutation| mutation.number).collect();
        self.out.places.push((begin..self.out.text.len(), numbers));
    }

    fn edit(&mut self, mutation: &Mutation, head: impl FnOnce(usize) -> String, tail: &str) {
        let begin = self.out.text.len();
        let _ = write!(
            self.out.text,
            "{}{}{tail}",
            head(mutation.number),
            mutation.after
        );
        let end = self.out.text.len();
        self.out.edits.push((begin..end, mutation.number));
    }
}

fn on(number: usize) -> String {
    format!("crate::source_mutants::on({number})")
}
