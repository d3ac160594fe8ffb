use std::ops::Range;

use rolecall_text::Text;

use crate::{Codec, Control, ControlId, Field, sources};

/// An invertible pattern: literal text, control tokens and holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    ops: Vec<Op>,
    /// The same for writing: what never changes is one text, made beforehand.
    steps: Vec<Step>,
    /// The fields that some hole prints, as a set of their bits.
    printed: u32,
}

/// One step of writing a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Literal text, control tokens and seams in a row.
    Constant {
        /// As they are usually spelled, with the sources of [`crate::sources`].
        text: Text,
        /// One by one.
        ops: Vec<Op>,
    },
    /// A value comes here.
    Hole {
        /// Which.
        field: Field,
        /// How it is printed.
        codec: Codec,
    },
    /// There only if every hole in it has a value.
    Group {
        /// The holes.
        holes: Vec<(Field, Codec)>,
        /// What is written if they have.
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
    /// A value comes here.
    Hole {
        /// Which.
        field: Field,
        /// How it is printed and read.
        codec: Codec,
        /// Where the hole is written, in bytes of the file.
        span: Range<usize>,
    },
    /// There only if every hole in it has a value.
    Group(Vec<Op>),
    /// The tokenizer is called anew here.
    Seam,
}

impl Layout {
    /// A layout of these pieces, in a format with these control tokens.
    pub fn new(ops: Vec<Op>, controls: &[Control]) -> Layout {
        let printed = printed_fields(&ops);
        Layout { steps: steps_of(&ops, controls), ops, printed }
    }

    /// How it is written, in order.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What is written, in order.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Whether a hole of this field stands anywhere in the layout and prints something.
    #[inline]
    pub fn prints(&self, field: Field) -> bool {
        self.printed & field.bit() != 0
    }

    /// Whether a control token stands anywhere in the layout.
    pub fn writes(&self, id: ControlId) -> bool {
        fn among(ops: &[Op], id: ControlId) -> bool {
            ops.iter().any(|op| match op {
                Op::Control(written) => *written == id,
                Op::Group(inner) => among(inner, id),
                Op::Literal(_) | Op::Hole { .. } | Op::Seam => false,
            })
        }
        among(&self.ops, id)
    }

    /// Reads a text that was written by this layout behind an opening that is not part of it: the values of the
    /// holes, in order. A value ends where the next fixed text begins.
    pub fn read_behind<'t>(
        &self,
        opening: &str,
        text: &'t str,
        fixed: impl Fn(ControlId) -> String + Copy,
    ) -> Option<Vec<(Field, &'t str)>> {
        let mut flat = Vec::new();
        flatten(&self.ops, fixed, &mut flat);
        if let Some(Piece::Fixed(first)) = flat.first_mut() {
            *first = first.strip_prefix(opening)?.to_owned();
        }
        let mut values = Vec::new();
        let mut rest = text;
        for (at, piece) in flat.iter().enumerate() {
            match piece {
                Piece::Fixed(text) => rest = rest.strip_prefix(text.as_str())?,
                Piece::Value(field) => {
                    let end = match flat[at + 1..].iter().find_map(Piece::fixed) {
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

/// Ops with their holes' places moved.
pub(crate) fn move_spans(ops: Vec<Op>, in_file: impl Fn(usize) -> usize + Copy) -> Vec<Op> {
    let each = ops.into_iter().map(|op| match op {
        Op::Hole { field, codec, span } => Op::Hole { field, codec, span: in_file(span.start)..in_file(span.end) },
        Op::Group(inner) => Op::Group(move_spans(inner, in_file)),
        other => other,
    });
    each.collect()
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

/// A layout as a reader sees it: a group is its holes, which may be empty.
enum Piece {
    Fixed(String),
    Value(Field),
}

impl Piece {
    fn fixed(&self) -> Option<&str> {
        match self {
            Piece::Fixed(text) => Some(text),
            Piece::Value(_) => None,
        }
    }
}

fn flatten(ops: &[Op], fixed: impl Fn(ControlId) -> String + Copy, out: &mut Vec<Piece>) {
    for op in ops {
        match op {
            Op::Literal(text) => out.push(Piece::Fixed(text.clone())),
            Op::Control(id) => out.push(Piece::Fixed(fixed(*id))),
            Op::Hole { codec: Codec::Text | Codec::Trim, field, .. } => out.push(Piece::Value(*field)),
            // A group of nothing but an open hole reads as a value that may be empty; others are left out.
            Op::Group(inner) if inner.iter().all(|op| matches!(op, Op::Hole { codec: Codec::Text, .. })) => {
                flatten(inner, fixed, out);
            }
            Op::Hole { .. } | Op::Group(_) | Op::Seam => {}
        }
    }
}

fn printed_fields(ops: &[Op]) -> u32 {
    let each = ops.iter().map(|op| match op {
        Op::Hole { codec: Codec::Present, .. } => 0,
        Op::Hole { field, .. } => field.bit(),
        Op::Group(inner) => printed_fields(inner),
        Op::Literal(_) | Op::Control(_) | Op::Seam => 0,
    });
    each.fold(0, |set, bits| set | bits)
}

/// A mistake in a layout's text: where in it, and what.
pub(crate) struct Fault {
    pub span: Range<usize>,
    pub code: &'static str,
    pub message: String,
    pub help: Option<String>,
}

/// What a layout may speak of.
pub(crate) struct Vocabulary<'a> {
    /// Control tokens' texts, the longest first.
    pub controls: &'a [(String, ControlId)],
    /// Marks that look like control tokens and are none.
    pub plain_marks: &'a [String],
    /// The slot's holes and the file's own, by name.
    pub holes: &'a [(String, Field)],
}

/// Reads a layout's text. Spans are bytes of that text.
pub(crate) fn parse(text: &str, vocabulary: &Vocabulary<'_>) -> (Vec<Op>, Vec<Fault>) {
    let mut reader = Reader { text, at: 0, vocabulary, faults: Vec::new(), literal: String::new(), literal_start: 0 };
    let ops = reader.ops(false);
    (ops, reader.faults)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    vocabulary: &'a Vocabulary<'a>,
    faults: Vec<Fault>,
    literal: String,
    literal_start: usize,
}

impl Reader<'_> {
    fn ops(&mut self, in_group: bool) -> Vec<Op> {
        let opened = self.at.saturating_sub(2);
        let mut ops = Vec::new();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                self.literal(&rest[..1], 2);
            } else if rest.starts_with("{\"") {
                match rest.find("\"}") {
                    Some(end) if end >= 2 => self.literal(&rest[2..end], end + 2),
                    _ => {
                        self.fault(self.at..self.at + 2, "open_quote", "expected `\"}` behind `{\"`".into(), None);
                        self.at = self.text.len();
                    }
                }
            } else if rest.starts_with('{') {
                self.flush(&mut ops);
                ops.extend(self.hole());
            } else if rest.starts_with('}') {
                let help = Some("write `}}` for a literal brace".into());
                self.fault(self.at..self.at + 1, "lone_brace", "found `}` without `{`".into(), help);
                self.at += 1;
            } else if rest.starts_with("[[") {
                self.flush(&mut ops);
                self.at += 2;
                if in_group {
                    let help = Some("close the first group with `]]`, or write `{\"[[\"}` for literal brackets".into());
                    self.fault(self.at - 2..self.at, "nested_group", "found a group inside a group".into(), help);
                }
                ops.push(Op::Group(self.ops(true)));
            } else if in_group && rest.starts_with("]]") {
                self.flush(&mut ops);
                self.at += 2;
                if !ops.iter().any(|op| matches!(op, Op::Hole { .. })) {
                    let help =
                        Some("a group is there when its holes have values; without one, drop the brackets".into());
                    self.fault(opened..self.at, "group_without_hole", "found a group without a hole".into(), help);
                }
                return ops;
            } else if let Some((spelling, control)) =
                self.vocabulary.controls.iter().find(|(spelling, _)| rest.starts_with(spelling.as_str()))
            {
                self.flush(&mut ops);
                self.at += spelling.len();
                ops.push(Op::Control(*control));
            } else {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                self.literal(&rest[..length], length);
            }
        }
        self.flush(&mut ops);
        if in_group {
            let help = Some("close it with `]]`, or write `{\"[[\"}` for literal brackets".into());
            self.fault(opened..opened + 2, "open_group", "expected `]]` for this `[[`".into(), help);
        }
        ops
    }

    fn literal(&mut self, characters: &str, taken: usize) {
        if self.literal.is_empty() {
            self.literal_start = self.at;
        }
        self.literal.push_str(characters);
        self.at += taken;
    }

    fn flush(&mut self, ops: &mut Vec<Op>) {
        if self.literal.is_empty() {
            return;
        }
        self.find_undeclared();
        ops.push(Op::Literal(std::mem::take(&mut self.literal)));
    }

    /// Literal text that looks like a control token is most likely a forgotten declaration.
    fn find_undeclared(&mut self) {
        let mut from = 0;
        while let Some(mark) = looks_like_control(&self.literal[from..]) {
            let mark = from + mark.start..from + mark.end;
            from = mark.end;
            let token = self.literal[mark.clone()].to_owned();
            if self.vocabulary.plain_marks.contains(&token) {
                continue;
            }
            let near =
                crate::diagnostic::nearest(&token, self.vocabulary.controls.iter().map(|(text, _)| text.as_str()));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it in `[control]`, or name it in `plain-marks` if it is ordinary text".into(),
            };
            let start = self.literal_start + mark.start;
            let span = start..(start + token.len()).min(self.text.len());
            self.fault(span, "undeclared_control", format!("`{token}` is not a declared control token"), Some(help));
        }
    }

    fn hole(&mut self) -> Option<Op> {
        let start = self.at;
        let rest = &self.text[start..];
        let Some(length) = rest.find('}') else {
            let help = Some("write `{{` for a literal brace".into());
            self.fault(start..start + 1, "open_hole", "expected `}` for this `{`".into(), help);
            self.at = self.text.len();
            return None;
        };
        self.at += length + 1;
        let inside = &rest[1..length];
        let (name, codec) = match inside.split_once(':') {
            Some((name, codec)) => (name, Some(codec)),
            None => (inside, None),
        };
        if name == "seam" && codec.is_none() {
            return Some(Op::Seam);
        }
        let span = start..self.at;
        let known = self.vocabulary.holes;
        let Some(&(_, field)) = known.iter().find(|(hole, _)| hole == name) else {
            let list = known.iter().map(|(hole, _)| format!("`{hole}`")).collect::<Vec<_>>().join(", ");
            let help = match crate::diagnostic::nearest(name, known.iter().map(|(hole, _)| hole.as_str())) {
                Some(near) => format!("did you mean `{{{near}}}`? write `{{{{` for a literal brace"),
                None if list.is_empty() => "this layout has no holes; write `{{` for a literal brace".into(),
                None => format!("this layout has {list}; write `{{{{` for a literal brace"),
            };
            self.fault(span, "unknown_hole", format!("`{{{name}}}` is not a hole of this layout"), Some(help));
            return None;
        };
        let codec = match codec {
            None => Codec::Text,
            Some(spelling) => match Codec::from_spelling(spelling) {
                Some(codec) => codec,
                None => {
                    let stem = spelling.split('(').next().unwrap_or_default();
                    let help = match crate::diagnostic::nearest(stem, Codec::NAMES) {
                        Some("json") => "write `json`, `json(indent=4)` or `json(name, arguments)`".into(),
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("codecs are {}", Codec::NAMES.map(|name| format!("`{name}`")).join(", ")),
                    };
                    let at = start + 2 + name.len();
                    let span = at..at + spelling.len();
                    self.fault(span, "unknown_codec", format!("`{spelling}` is not a codec"), Some(help));
                    return None;
                }
            },
        };
        if let Err((message, help)) = fits(field, &codec) {
            self.fault(span, "codec_misfit", format!("`{{{name}}}` {message}"), Some(help));
            return None;
        }
        Some(Op::Hole { field, codec, span })
    }

    fn fault(&mut self, span: Range<usize>, code: &'static str, message: String, help: Option<String>) {
        self.faults.push(Fault { span, code, message, help });
    }
}

/// Whether a codec can print a field's values.
fn fits(field: Field, codec: &Codec) -> Result<(), (String, String)> {
    let good = match (field, codec) {
        (_, Codec::Present) => true,
        (Field::Call, Codec::Call(_)) => true,
        (Field::Call, _) => {
            return Err(("needs a codec with two keys".into(), "write `{call:json(name, arguments)}`".into()));
        }
        (Field::Arguments, Codec::Json { .. } | Codec::Python) => true,
        (Field::Arguments, _) => {
            return Err(("needs a codec".into(), "write `{arguments:json}` or `{arguments:python}`".into()));
        }
        (Field::Tool | Field::Function | Field::Files, Codec::Json { .. }) => true,
        (Field::Tool | Field::Function | Field::Files, _) => {
            return Err(("needs the codec `json`".into(), format!("write `{{{}:json}}`", field.name())));
        }
        (Field::Tools | Field::Functions, Codec::Text | Codec::Json { .. }) => true,
        (Field::Name, Codec::Names | Codec::Text | Codec::Json { .. } | Codec::Trim) => true,
        (Field::Content, Codec::Text | Codec::Trim | Codec::Json { indent: None }) => true,
        (Field::Round | Field::Index | Field::Calls | Field::Results, Codec::Text) => true,
        (Field::Round | Field::Index | Field::Calls | Field::Results, _) => false,
        (_, Codec::Text | Codec::Trim) => true,
        _ => false,
    };
    match good {
        true => Ok(()),
        false => Err(("does not take this codec".into(), "leave the codec out".into())),
    }
}

/// The first thing in a text that looks like a control token: `<|..|>` or with DeepSeek's full-width bars.
fn looks_like_control(text: &str) -> Option<Range<usize>> {
    for (open, close) in [("<|", "|>"), ("<｜", "｜>")] {
        if let Some(start) = text.find(open) {
            let inside = &text[start + open.len()..];
            if let Some(length) = inside.find(close) {
                let name = &inside[..length];
                if !name.is_empty() && name.chars().count() <= 40 && !name.contains(char::is_whitespace) {
                    return Some(start..start + open.len() + length + close.len());
                }
            }
        }
    }
    None
}
