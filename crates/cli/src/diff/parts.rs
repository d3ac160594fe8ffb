//! Finds the first differences of each pair of formats in a matrix.

use rolecall::diff::{Matrix, Outcome, View};

use super::words::{Names, sentence};

/// A first difference between two formats.
pub struct FirstDifference {
    /// The letters of the two formats.
    pub pair: [String; 2],
    /// The views in which it is the first difference.
    pub views: Vec<String>,
    /// The first conversation that shows it.
    pub conversation: String,
    pub what: String,
}

impl FirstDifference {
    /// Names the formats: `A and B`, or only `A`.
    pub fn who(&self) -> String {
        let [a, b] = &self.pair;
        if a == b { a.clone() } else { format!("{a} and {b}") }
    }
}

/// Returns for each pair of formats the first difference and the first refusal of each view. A
/// difference that several views share appears once.
pub fn parts(matrix: &Matrix) -> Vec<FirstDifference> {
    let count = matrix.formats.len();
    let pairs = (0..count).flat_map(|row| (row..count).map(move |column| [row, column]));
    pairs.flat_map(|pair| parts_of(matrix, pair)).collect()
}

fn parts_of(matrix: &Matrix, [row, column]: [usize; 2]) -> Vec<FirstDifference> {
    let pair = [letter(row), letter(column)];
    let mut parts: Vec<FirstDifference> = Vec::new();
    for view in View::ALL {
        // A format is compared with itself only for whether it serves what it was trained on.
        if row == column && view != View::Serving {
            continue;
        }
        let Some(cell) = matrix.cell(view, row, column) else { continue };
        for refusals in [false, true] {
            let of_kind = |outcome: &Outcome| matches!(outcome, Outcome::OneRefuses { .. }) == refusals;
            let Some((name, outcome)) = cell.apart.iter().find(|(_, outcome)| of_kind(outcome)) else { continue };
            // Outcomes of this view are stored with the trained format first.
            let outcome = if view == View::ServingBack { outcome.clone().swapped() } else { outcome.clone() };
            let names = Names { names: [&pair[0], &pair[1]], quote: true };
            let what = sentence(&outcome, names);
            let view = view_of(view, &pair);
            match parts.iter_mut().find(|part| part.what == what && part.conversation == *name) {
                Some(part) => part.views.push(view),
                None => parts.push(FirstDifference {
                    pair: pair.clone(),
                    views: vec![view],
                    conversation: name.clone(),
                    what,
                }),
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

/// Returns the letter of a format in a matrix: A, B, ..
pub fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at) if at < 26 => char::from(b'A' + at).to_string(),
        _ => (at + 1).to_string(),
    }
}
