//! The assistant's layouts as parts between markers, which open and close the answer, the reasoning
//! and the calls.

use rolecall_format::{Codec, Field, Format, Op, Slot};

use super::program::Layouts;
use crate::literal::Literal;

/// The slots that write an assistant's turn.
const TURNS: [Slot; 3] = [Slot::Assistant, Slot::AssistantWithCalls, Slot::AssistantLast];

/// A part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnPart {
    Content,
    Reasoning,
    Calls,
}

/// The text around a part in one of the layouts.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub part: TurnPart,
    /// The text before the part, after the previous part or the turn's opening.
    pub open: Literal,
    /// The text after the part, before the text that opens the next one.
    pub close: Literal,
    /// Whether this is the first part of the turn.
    pub is_first: bool,
    /// The next part.
    pub next: Option<TurnPart>,
}

/// The assistant's layouts, combined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// The text that every turn and the generation prompt begin with.
    pub opening: Literal,
    pub around: Vec<Around>,
    /// The texts that close a turn.
    pub ends: Vec<Literal>,
}

impl Turns {
    /// Returns the texts that open and close the parts and the turn.
    pub fn marks(&self) -> Vec<Literal> {
        let around = self.around.iter().flat_map(|around| [&around.open, &around.close]);
        let marks = around.chain(&self.ends).map(Literal::core);
        marks.filter(|mark| !mark.is_empty()).collect()
    }
}

/// A piece of a turn: literal text or a part, and the number of its group.
#[derive(Clone, Debug)]
enum TurnPiece {
    Literal(Literal, Option<usize>),
    Part(TurnPart, Option<usize>),
}

pub(crate) fn turns_of(layouts: Layouts<'_>) -> Turns {
    let Layouts { format, tokens } = layouts;
    let mut variants = Vec::new();
    for layout in TURNS.iter().filter_map(|slot| format.layout(*slot)) {
        variants.extend(variants_of(format, layout.ops()));
    }
    for piece in variants.iter_mut().flatten() {
        if let TurnPiece::Literal(literal, _) = piece {
            literal.mark_tokens(tokens);
        }
    }
    // A turn that begins with its calls has no opening other than theirs.
    let begin = variants.iter().filter(|variant| !matches!(variant.first(), Some(TurnPiece::Part(TurnPart::Calls, _))));
    let leads: Vec<Literal> = begin.map(|variant| leading(variant)).collect();
    let generate = format.layout(Slot::Generate).map(|layout| literal_of(format, layout.ops()));
    let opening = opening_of(&leads, generate);
    let read = |opening: Literal| {
        let mut turns = Turns { opening, ..Turns::default() };
        for variant in &variants {
            read_variant(variant, &mut turns);
        }
        turns
    };
    let turns = read(opening);
    // If every turn begins with reasoning, its marker is not part of the turn's opening.
    let is_hidden = turns
        .around
        .iter()
        .any(|around| around.part == TurnPart::Reasoning && around.is_first && around.open.is_blank());
    match turns.opening.last_mark() {
        Some(last) if is_hidden && last > 0 => read(turns.opening.up_to(last).core()),
        _ => turns,
    }
}

/// Returns all variants of a layout: each group may be present or absent.
fn variants_of(format: &Format, ops: &[Op]) -> Vec<Vec<TurnPiece>> {
    let mut variants: Vec<Vec<TurnPiece>> = vec![Vec::new()];
    for (number, op) in ops.iter().enumerate() {
        match op {
            Op::Group(inner) => {
                let mut group = Vec::new();
                for op in inner {
                    push_op(format, op, Some(number), &mut group);
                }
                // A group that depends on something other than a part of the answer is absent when
                // the model writes.
                if group.iter().any(|piece| matches!(piece, TurnPiece::Part(..))) && variants.len() < 16 {
                    let with = variants.iter().map(|variant| [variant.as_slice(), &group].concat());
                    let with: Vec<_> = with.collect();
                    variants.extend(with);
                }
            }
            op => variants.iter_mut().for_each(|variant| push_op(format, op, None, variant)),
        }
    }
    variants
}

fn push_op(format: &Format, op: &Op, group: Option<usize>, pieces: &mut Vec<TurnPiece>) {
    let (text, is_control) = match op {
        Op::Literal(text) => (text.as_str(), false),
        Op::Control(id) => (format.control(*id).text.as_str(), true),
        Op::Hole { codec: Codec::Present, .. } => return,
        Op::Hole { field, .. } => {
            let part = match field {
                Field::Content => TurnPart::Content,
                Field::Reasoning => TurnPart::Reasoning,
                Field::Calls => TurnPart::Calls,
                _ => return,
            };
            return pieces.push(TurnPiece::Part(part, group));
        }
        Op::Group(_) | Op::Seam | Op::Own(_) => return,
    };
    match pieces.last_mut() {
        Some(TurnPiece::Literal(literal, of)) if *of == group => literal.push(text, is_control),
        _ => {
            let mut literal = Literal::default();
            literal.push(text, is_control);
            pieces.push(TurnPiece::Literal(literal, group));
        }
    }
}

/// Returns the literal text of a layout, without its holes and groups.
fn literal_of(format: &Format, ops: &[Op]) -> Literal {
    let mut literal = Literal::default();
    for op in ops {
        match op {
            Op::Literal(text) => literal.push(text, false),
            Op::Control(id) => literal.push(&format.control(*id).text, true),
            _ => {}
        }
    }
    literal
}

/// Returns the literal text before a variant's first part.
fn leading(variant: &[TurnPiece]) -> Literal {
    let mut lead = Literal::default();
    for piece in variant {
        match piece {
            TurnPiece::Literal(literal, _) => lead.append(literal),
            TurnPiece::Part(..) => break,
        }
    }
    lead
}

/// Returns the text that all turns and the generation prompt begin with, without an incomplete
/// marker or white space at its end.
fn opening_of(leads: &[Literal], generate: Option<Literal>) -> Literal {
    let mut all = leads.iter().chain(generate.iter());
    let Some(first) = all.next() else { return Literal::default() };
    let common = all.fold(first.text().len(), |common, lead| common.min(first.common(lead)));
    let mut end = common;
    // Drop a marker that continues differently in one of them.
    if end < first.text().len() || leads.iter().chain(generate.iter()).any(|lead| lead.text().len() > end) {
        let text = &first.text()[..end];
        if let Some(open) = text.rfind(['<', '['])
            && !text[open..].contains(['>', ']'])
        {
            end = open;
        }
        // Each of them continues the marker with a word of its own.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let continues = |lead: &Literal| lead.text()[end..].starts_with(is_word);
        if text[..end].ends_with(['>', ']']) && leads.iter().chain(generate.iter()).all(continues) {
            end = text[..end].rfind(['<', '[']).unwrap_or(end);
        }
    }
    first.up_to(end).core()
}

fn read_variant(variant: &[TurnPiece], turns: &mut Turns) {
    // A literal is in the group of the part before it, in the group of the part after it, or in
    // neither.
    let mut found: Vec<Around> = Vec::new();
    let mut before: Option<(TurnPart, Option<usize>)> = None;
    let mut between: Vec<(Literal, Option<usize>)> = Vec::new();
    for piece in variant {
        match piece {
            TurnPiece::Literal(literal, group) => between.push((literal.clone(), *group)),
            &TurnPiece::Part(part, group) => {
                let mut open = Literal::default();
                let mut close = Literal::default();
                for (literal, of) in between.drain(..) {
                    let Some((last, last_group)) = before else {
                        open.append(&literal);
                        continue;
                    };
                    let to_last = match of {
                        Some(_) if of == group && of == last_group => closes(last, part),
                        Some(_) if of == last_group => true,
                        Some(_) => false,
                        None if last_group.is_some() => false,
                        None => closes(last, part),
                    };
                    let cut = found.last().map_or(literal.text().len(), |last| reopens(&literal, &last.open));
                    match to_last && open.is_empty() {
                        true => {
                            close.append(&literal.up_to(cut));
                            open.append(&literal.from(cut));
                        }
                        false => open.append(&literal),
                    }
                }
                match found.last_mut() {
                    Some(last) => (last.close, last.next) = (close, Some(part)),
                    None => open = open.behind(&turns.opening).unwrap_or(open),
                }
                found.push(Around { part, open, close: Literal::default(), is_first: before.is_none(), next: None });
                before = Some((part, group));
            }
        }
    }
    let mut end = Literal::default();
    let last_group = before.and_then(|(_, group)| group);
    for (literal, of) in between {
        match found.last_mut() {
            Some(last) if of.is_some() && of == last_group => last.close.append(&literal),
            _ => end.append(&literal),
        }
    }
    if before.is_none() {
        end = end.behind(&turns.opening).unwrap_or_default();
    }
    if !end.is_blank() && !turns.ends.contains(&end) {
        turns.ends.push(end);
    }
    turns.around.extend(found);
}

/// Returns where the text after a part opens the next one with the token that opened this part:
/// `<|close|>think<|sep|>` and `<|open|>say<|sep|>`. It is the end of the text if it does not.
fn reopens(between: &Literal, open: &Literal) -> usize {
    let is_word = |c: char| c.is_alphanumeric();
    let core = open.core();
    let (open, close) = (core.up_to(core.first_mark()), between.core());
    // Only markers that a word continues share their first token.
    let continues = |literal: &Literal, end: usize| literal.text()[end..].starts_with(is_word);
    let is_shared = !open.is_empty()
        && continues(&core, open.text().len())
        && continues(&close, close.first_mark())
        && !close.text().starts_with(open.text());
    match between.text().find(open.text()) {
        Some(at) if is_shared => at,
        _ => between.text().len(),
    }
}

/// Reports whether text between two parts belongs to the first of them.
fn closes(first: TurnPart, second: TurnPart) -> bool {
    first == TurnPart::Reasoning || (first == TurnPart::Content && second == TurnPart::Calls)
}
