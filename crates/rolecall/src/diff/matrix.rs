use std::sync::Arc;

use rolecall_format::Format;
use rolecall_render::Options;

use super::{DiffSide, Outcome, Telling, View};

/// A comparison of each pair of some formats.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The names of the formats.
    pub formats: Vec<String>,
    /// The cells, with the indices of the two formats. `Chat` and `Training` have a cell for each
    /// pair, with the smaller index first. `Serving` has a cell for each ordered pair, including
    /// each format with itself: the first trains, the second serves.
    pub cells: Vec<(View, [usize; 2], Cell)>,
}

/// The outcomes of a view, counted over all conversations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The number of outcomes without a difference.
    pub same: usize,
    /// The number of outcomes in which only the opening token differs.
    pub opening: usize,
    /// The number of outcomes with another difference.
    pub differ: usize,
    /// The number of conversations that one of the formats rejects.
    pub one_refuses: usize,
    /// The number of conversations that both formats reject.
    pub both_refuse: usize,
    /// The conversations on which the formats disagree, with their outcomes.
    pub apart: Vec<(String, Outcome)>,
}

impl Cell {
    pub(super) fn count<'a>(outcomes: impl Iterator<Item = (&'a str, &'a Outcome)>) -> Cell {
        let mut cell = Cell::default();
        for (name, outcome) in outcomes {
            let counter = match outcome {
                Outcome::Same => &mut cell.same,
                Outcome::Opening(_) => &mut cell.opening,
                Outcome::OneRefuses { .. } => &mut cell.one_refuses,
                Outcome::BothRefuse(_) => &mut cell.both_refuse,
                _ => &mut cell.differ,
            };
            *counter += 1;
            if !outcome.is_same() {
                cell.apart.push((name.to_owned(), outcome.clone()));
            }
        }
        cell
    }

    /// Returns the number of conversations that at least one of the formats accepts.
    pub fn taken(&self) -> usize {
        self.same + self.opening + self.differ + self.one_refuses
    }
}

impl Matrix {
    /// Compares all pairs of the formats.
    ///
    /// ```
    /// use rolecall::diff::{Matrix, Telling, View};
    /// use rolecall::format::registry;
    /// use rolecall::render::Options;
    ///
    /// let registry = registry();
    /// let formats: Vec<_> = ["chatml", "internlm2"].iter().filter_map(|name| registry.get(name)).collect();
    /// let matrix = Matrix::new(&formats, &Telling::all(), &Options::default());
    /// let chat = matrix.cell(View::Chat, 1, 0).expect("two formats");
    /// assert_eq!((chat.same, chat.opening > 8), (0, true));
    /// ```
    pub fn new(formats: &[&Arc<Format>], tellings: &[Telling], options: &Options) -> Matrix {
        let write =
            |format: &&Arc<Format>| tellings.iter().map(|telling| DiffSide::new(telling, format, options)).collect();
        let written: Vec<Vec<DiffSide>> = formats.iter().map(write).collect();
        let mut cells = Vec::new();
        for view in [View::Chat, View::Training, View::Serving] {
            for row in 0..formats.len() {
                let first = if view == View::Serving { 0 } else { row + 1 };
                for column in first..formats.len() {
                    let pairs = tellings.iter().zip(written[row].iter().zip(&written[column]));
                    let outcomes =
                        pairs.filter_map(|(telling, (a, b))| Some((telling.name.as_str(), view.compare(a, b)?)));
                    let outcomes: Vec<(&str, Outcome)> = outcomes.collect();
                    let cell = Cell::count(outcomes.iter().map(|(name, outcome)| (*name, outcome)));
                    cells.push((view, [row, column], cell));
                }
            }
        }
        Matrix { formats: formats.iter().map(|format| format.name.clone()).collect(), cells }
    }

    /// Returns the cell of two formats, given by index. If the order does not matter for the view,
    /// either order works.
    pub fn cell(&self, view: View, row: usize, column: usize) -> Option<&Cell> {
        let wanted = match view {
            View::Chat | View::Training => (view, [row.min(column), row.max(column)]),
            View::Serving => (view, [row, column]),
            View::ServingBack => (View::Serving, [column, row]),
        };
        self.cells.iter().find(|(view, pair, _)| (*view, *pair) == wanted).map(|(.., cell)| cell)
    }
}
