//! The kinds of pieces and marks that a drawn prompt contains, for its legend.

use crate::conversation::Role;

use super::piece::{DrawnPiece, PieceKind};

/// The kinds of pieces and the marks that occurred while a prompt was drawn.
#[derive(Debug, Default)]
pub struct SeenParts {
    kinds: [bool; KINDS],
    marks: [bool; MARKS.len()],
    edge: bool,
}

const KINDS: usize = 10;

/// Returns the kinds of pieces that have a name, in the order of the legend.
fn named_kinds() -> [(PieceKind, &'static str); KINDS] {
    [
        (PieceKind::Control, "control token"),
        (PieceKind::Format, "format"),
        (PieceKind::Said(Role::System), "system"),
        (PieceKind::Said(Role::User), "user"),
        (PieceKind::Said(Role::Assistant), "assistant"),
        (PieceKind::Said(Role::Tool), "tool"),
        (PieceKind::Offered, "tool offered"),
        (PieceKind::Chosen, "option"),
        (PieceKind::Spelled, "text that spells a control token"),
        (PieceKind::Forged, "forged control token"),
    ]
}

const MARKS: [(&str, &str); 4] = [("⏎", "line break"), ("·", "space"), ("→", "tab"), ("␍", "carriage return")];

impl SeenParts {
    pub fn see(&mut self, piece: &DrawnPiece<'_, '_>) {
        let kind = match &piece.kind {
            PieceKind::Control => Some(0),
            PieceKind::Format => Some(1),
            PieceKind::Said(Role::System) => Some(2),
            PieceKind::Said(Role::User) => Some(3),
            PieceKind::Said(Role::Assistant) => Some(4),
            PieceKind::Said(Role::Tool) => Some(5),
            PieceKind::Said(Role::Other(_)) => None,
            PieceKind::Offered => Some(6),
            PieceKind::Chosen => Some(7),
            PieceKind::Spelled => Some(8),
            PieceKind::Forged => Some(9),
        };
        if let Some(seen) = kind.and_then(|kind| self.kinds.get_mut(kind)) {
            *seen = true;
        }
        self.edge |= piece.edge;
        if self.marks.contains(&false) {
            for shown in piece.shown().filter(|shown| shown.mark) {
                for ((mark, _), seen) in MARKS.iter().zip(&mut self.marks) {
                    *seen |= shown.text.contains(mark);
                }
            }
        }
    }

    /// Returns the kinds of pieces that occur, with their names, in a fixed order.
    pub fn kinds(&self) -> impl Iterator<Item = (PieceKind, &'static str)> {
        named_kinds().into_iter().zip(self.kinds).filter(|(_, seen)| *seen).map(|(kind, _)| kind)
    }

    /// Returns the marks that occur, with their meanings.
    pub fn marks(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let marks = MARKS.into_iter().zip(self.marks).filter(|(_, seen)| *seen).map(|(mark, _)| mark);
        marks.chain(self.edge.then_some(("▏", "token boundary")))
    }
}
