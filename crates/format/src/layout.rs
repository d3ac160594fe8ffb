mod parse;
mod write;

use std::ops::Range;

use rolecall_text::Text;

pub(crate) use parse::{Vocabulary, looks_like_control, parse};
pub(crate) use write::write;

use crate::{BoundaryToken, Codec, Control, ControlId, Field, sources};

/// An invertible pattern of literal text, control tokens and holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    ops: Vec<Op>,
    /// The same pieces, with placeholders for the tokenizer's own tokens.
    pattern: Vec<Op>,
    /// The same pieces for rendering, with adjacent constants combined into one text.
    steps: Vec<Step>,
    /// The fields that holes print, as a set of bits.
    printed: u32,
    /// What the layout writes for a message that has only a role and a text.
    plain: Option<PlainTurn>,
    /// The length of all constants in bytes.
    constant_bytes: usize,
}

/// What a layout writes for a message that has only a role and a text: constants around the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainTurn {
    /// The text before the content, with the sources of [`crate::sources`].
    pub before: Text,
    /// Whether the white space around the content is removed.
    pub trims: bool,
    /// The text after the content.
    pub after: Text,
}

/// One step of rendering a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adjacent literal text, control tokens and seams.
    Constant {
        /// The combined text in the usual spelling, with the sources of [`crate::sources`].
        text: Text,
        /// The individual pieces.
        ops: Vec<Op>,
    },
    /// A value.
    Hole {
        /// The field to print.
        field: Field,
        /// The codec that prints it.
        codec: Codec,
    },
    /// Steps to perform only if every hole in the group has a value.
    Group {
        /// The holes of the group.
        holes: Vec<(Field, Codec)>,
        /// The steps.
        steps: Vec<Step>,
    },
}

/// One piece of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Literal text of the format.
    Literal(String),
    /// A control token.
    Control(ControlId),
    /// A value.
    Hole {
        /// The field to print.
        field: Field,
        /// The codec that prints it.
        codec: Codec,
        /// The position of the hole, in bytes of the file.
        span: Range<usize>,
    },
    /// Pieces to write only if every hole among them has a value.
    Group(Vec<Op>),
    /// A place at which the maker's code calls the tokenizer again.
    Seam,
    /// The tokenizer's own tokens of a kind, regardless of their number. Only patterns contain
    /// this; a layout's pieces contain the actual control tokens.
    Own(BoundaryToken),
}

impl Op {
    /// Creates a hole that has no position in a file.
    pub fn hole(field: Field, codec: Codec) -> Op {
        Op::Hole { field, codec, span: 0..0 }
    }
}

impl Step {
    fn constant_bytes(&self) -> usize {
        match self {
            Step::Constant { text, .. } => text.len(),
            Step::Hole { .. } => 0,
            Step::Group { steps, .. } => steps.iter().map(Step::constant_bytes).sum(),
        }
    }
}

impl Layout {
    /// Creates a layout of these pieces for a format with these control tokens.
    pub fn new(ops: Vec<Op>, controls: &[Control]) -> Layout {
        let pattern = ops;
        let ops = with_own(&pattern, controls);
        let printed = printed_fields(&ops);
        let plain = plain_turn(&ops, controls);
        let steps = steps_of(&ops, controls);
        let constant_bytes = steps.iter().map(Step::constant_bytes).sum();
        Layout { steps, ops, pattern, printed, plain, constant_bytes }
    }

    /// Returns the length of all constants in bytes, in the usual spelling.
    #[inline]
    pub fn constant_bytes(&self) -> usize {
        self.constant_bytes
    }

    /// Returns what the layout writes for a message that has only a role and a text. None if that
    /// depends on more than the text.
    #[inline]
    pub fn plain(&self) -> Option<&PlainTurn> {
        self.plain.as_ref()
    }

    /// Returns the steps of rendering, in order.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the pieces, in order.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns the pieces with placeholders for the tokenizer's own tokens.
    pub(crate) fn pattern(&self) -> &[Op] {
        &self.pattern
    }

    /// Reports whether any hole of the layout prints this field.
    #[inline]
    pub fn prints(&self, field: Field) -> bool {
        self.printed & field.bit() != 0
    }

    /// Reports whether the layout contains a control token.
    pub fn writes(&self, id: ControlId) -> bool {
        fn among(ops: &[Op], id: ControlId) -> bool {
            ops.iter().any(|op| match op {
                Op::Control(written) => *written == id,
                Op::Group(inner) => among(inner, id),
                Op::Literal(_) | Op::Hole { .. } | Op::Seam | Op::Own(_) => false,
            })
        }
        among(&self.ops, id)
    }

    /// Reports whether a codec puts this marker around strings.
    pub(crate) fn marks_with(&self, text: &str) -> bool {
        fn among(ops: &[Op], text: &str) -> bool {
            ops.iter().any(|op| match op {
                Op::Hole { codec: Codec::Marked(marked), .. } => marked.marker() == text,
                Op::Group(inner) => among(inner, text),
                _ => false,
            })
        }
        among(&self.ops, text)
    }

    /// Parses a text that this layout wrote after `opening`, which is not part of the text. Returns
    /// the values of the holes in order. A value ends where the next fixed text begins.
    pub fn read_behind<'t>(
        &self,
        opening: &str,
        text: &'t str,
        fixed: impl Fn(ControlId) -> String + Copy,
    ) -> Option<Vec<(Field, &'t str)>> {
        let mut flat = Vec::new();
        flatten(&self.ops, fixed, &mut flat);
        if let Some(FlatPiece::Fixed(first)) = flat.first_mut() {
            *first = first.strip_prefix(opening)?.to_owned();
        }
        let mut values = Vec::new();
        let mut rest = text;
        for (at, piece) in flat.iter().enumerate() {
            match piece {
                FlatPiece::Fixed(text) => rest = rest.strip_prefix(text.as_str())?,
                FlatPiece::Value(field) => {
                    let end = match flat[at + 1..].iter().find_map(FlatPiece::fixed) {
                        Some(next) => rest.find(next)?,
                        None => rest.len(),
                    };
                    values.push((*field, &rest[..end]));
                    rest = &rest[end..];
                }
            }
        }
        rest.is_empty().then_some(values)
    }
}

/// Returns the pieces with the positions of their holes mapped.
pub(crate) fn move_spans(ops: Vec<Op>, in_file: impl Fn(usize) -> usize + Copy) -> Vec<Op> {
    let each = ops.into_iter().map(|op| match op {
        Op::Hole { field, codec, span } => Op::Hole { field, codec, span: in_file(span.start)..in_file(span.end) },
        Op::Group(inner) => Op::Group(move_spans(inner, in_file)),
        other => other,
    });
    each.collect()
}

/// Fills in the tokenizer's own control tokens.
fn with_own(pattern: &[Op], controls: &[Control]) -> Vec<Op> {
    let mut ops = Vec::with_capacity(pattern.len());
    for op in pattern {
        match op {
            Op::Own(kind) => {
                let own = controls.iter().enumerate().filter(|(_, control)| control.own == Some(*kind));
                ops.extend(own.map(|(at, _)| Op::Control(ControlId(at))));
            }
            Op::Group(inner) => ops.push(Op::Group(with_own(inner, controls))),
            other => ops.push(other.clone()),
        }
    }
    ops
}

fn plain_turn(ops: &[Op], controls: &[Control]) -> Option<PlainTurn> {
    // A message without them writes nothing here, nor a group around them.
    let is_absent = |op: &Op| match op {
        Op::Hole { field: Field::Calls | Field::Reasoning | Field::Extra(_), codec, .. } => *codec != Codec::Present,
        Op::Hole { field: Field::Name, codec: Codec::Text | Codec::Names, .. } => true,
        _ => false,
    };
    let is_left_out = |op: &Op| match op {
        Op::Group(inner) => inner.iter().any(is_absent),
        Op::Hole { field: Field::Calls | Field::Reasoning, codec, .. } => *codec != Codec::Present,
        _ => false,
    };
    let kept: Vec<Op> = ops.iter().filter(|op| !is_left_out(op)).cloned().collect();
    let at = kept.iter().position(|op| matches!(op, Op::Hole { .. } | Op::Group(_)))?;
    let trims = match &kept[at] {
        Op::Hole { field: Field::Content, codec: Codec::Text, .. } => false,
        Op::Hole { field: Field::Content, codec: Codec::Trim, .. } => true,
        _ => return None,
    };
    let constant = |ops: &[Op]| match steps_of(ops, controls).as_slice() {
        [] => Some(Text::new()),
        [Step::Constant { text, .. }] => Some(text.clone()),
        _ => None,
    };
    Some(PlainTurn { before: constant(&kept[..at])?, trims, after: constant(&kept[at + 1..])? })
}

fn steps_of(ops: &[Op], controls: &[Control]) -> Vec<Step> {
    let mut steps = Vec::new();
    for op in ops {
        match op {
            Op::Hole { field, codec, .. } => steps.push(Step::Hole { field: *field, codec: codec.clone() }),
            Op::Group(inner) => {
                let holes = inner.iter().filter_map(|op| match op {
                    Op::Hole { field, codec, .. } => Some((*field, codec.clone())),
                    _ => None,
                });
                steps.push(Step::Group { holes: holes.collect(), steps: steps_of(inner, controls) });
            }
            constant => {
                if !matches!(steps.last(), Some(Step::Constant { .. })) {
                    steps.push(Step::Constant { text: Text::new(), ops: Vec::new() });
                }
                if let Some(Step::Constant { text, ops }) = steps.last_mut() {
                    match constant {
                        Op::Literal(literal) => text.push(literal, sources::FORMAT),
                        Op::Control(id) => text.push_apart(&controls[id.0].text, sources::control(*id)),
                        _ => text.push_apart("", sources::SEAM),
                    }
                    ops.push(constant.clone());
                }
            }
        }
    }
    steps
}

/// A piece of a layout to parse. A group is replaced by its holes, which may be empty.
enum FlatPiece {
    Fixed(String),
    Value(Field),
}

impl FlatPiece {
    fn fixed(&self) -> Option<&str> {
        match self {
            FlatPiece::Fixed(text) => Some(text),
            FlatPiece::Value(_) => None,
        }
    }
}

fn flatten(ops: &[Op], fixed: impl Fn(ControlId) -> String + Copy, out: &mut Vec<FlatPiece>) {
    for op in ops {
        match op {
            Op::Literal(text) => out.push(FlatPiece::Fixed(text.clone())),
            Op::Control(id) => out.push(FlatPiece::Fixed(fixed(*id))),
            Op::Hole { codec: Codec::Text | Codec::Trim, field, .. } => out.push(FlatPiece::Value(*field)),
            // A group of only open holes is parsed as a value that may be empty. Other groups are
            // skipped.
            Op::Group(inner) if inner.iter().all(|op| matches!(op, Op::Hole { codec: Codec::Text, .. })) => {
                flatten(inner, fixed, out);
            }
            Op::Hole { .. } | Op::Group(_) | Op::Seam | Op::Own(_) => {}
        }
    }
}

fn printed_fields(ops: &[Op]) -> u32 {
    let each = ops.iter().map(|op| match op {
        Op::Hole { codec: Codec::Present, .. } => 0,
        Op::Hole { field, .. } => field.bit(),
        Op::Group(inner) => printed_fields(inner),
        Op::Literal(_) | Op::Control(_) | Op::Seam | Op::Own(_) => 0,
    });
    each.fold(0, |set, bits| set | bits)
}
