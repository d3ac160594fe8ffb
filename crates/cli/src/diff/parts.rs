//! Where each two formats of a matrix first part.

use rolecall::diff::{Matrix, Outcome, View};

use super::words::{Names, sentence};

/// Where two formats part.
pub struct Part {
    /// The letters of the two.
    pub pair: [String; 2],
    /// Under which views it is the first.
    pub views: Vec<String>,
    /// The first conversation that shows it.
    pub conversation: String,
    pub what: String,
}

impl Part {
    /// `A and B`, or `A` alone.
    pub fn who(&self) -> String {
        let [a, b] = &self.pair;
        if a == b { a.clone() } else { format!("{a} and {b}") }
    }
}

/// For each two formats the first difference of each view, and the first refusal; what several views share stands once.
pub fn parts(matrix: &Matrix) -> Vec<Part> {
    let count = matrix.formats.len();
    let pairs = (0..count).flat_map(|row| (row..count).map(move |column| [row, column]));
    pairs.flat_map(|pair| parts_of(matrix, pair)).collect()
}

fn parts_of(matrix: &Matrix, [row, column]: [usize; 2]) -> Vec<Part> {
    let pair = [letter(row), letter(column)];
    let mut parts: Vec<Part> = Vec::new();
    for view in View::ALL {
        // A format by itself: only whether it serves what it trains on.
        if row == column && view != View::Serving {
            continue;
        }
        let Some(cell) = matrix.cell(view, row, column) else { continue };
        for refusals in [false, true] {
            let of_kind = |outcome: &Outcome| matches!(outcome, Outcome::OneRefuses { .. }) == refusals;
            let Some((name, outcome)) = cell.apart.iter().find(|(_, outcome)| of_kind(outcome)) else { continue };
            // Found in the order of who trains and who serves.
            let outcome = if view == View::ServingBack { outcome.clone().swapped() } else { outcome.clone() };
            let names = Names { names: [&pair[0], &pair[1]], quote: true };
            let what = sentence(&outcome, names);
            let view = view_of(view, &pair);
            match parts.iter_mut().find(|part| part.what == what && part.conversation == *name) {
                Some(part) => part.views.push(view),
                None => parts.push(Part { pair: pair.clone(), views: vec![view], conversation: name.clone(), what }),
            }
        }
    }
    parts
}

fn view_of(view: View, [a, b]: &[String; 2]) -> String {
    match view {
        View::Chat | View::Training => view.name().to_owned(),
        View::Serving => format!("{a} trained and {b} served"),
        View::ServingBack => format!("{b} trained and {a} served"),
    }
}

/// What a format of a matrix is called: A, B, ..
pub fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at) if at < 26 => char::from(b'A' + at).to_string(),
        _ => (at + 1).to_string(),
    }
}
