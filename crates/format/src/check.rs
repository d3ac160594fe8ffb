//! Checks that output can be parsed back: two open texts must never meet without a separator.

use std::ops::Range;

use crate::{Codec, Diagnostic, Field, Format, FormatPart, Op, Slot, SystemRule};

/// An open text without a separator so far: its field and the position of its hole.
type Pending = Option<(Field, Range<usize>)>;

/// Finds every place where a parser would have to guess.
pub(crate) fn find_ambiguity(format: &Format) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut walk = LayoutWalk { format, found: &mut found, around_calls: false };
    let mut open_turns: Vec<(Slot, Range<usize>)> = Vec::new();
    for slot in Slot::ALL {
        let Some(layout) = format.layout(slot) else { continue };
        if format.ambiguous.contains(&slot) {
            continue;
        }
        walk.around_calls = slot == Slot::Calls;
        let pending = walk.ops(layout.ops(), None);
        if let Some((_, span)) = pending
            && slot.is_turn()
            && format.part == FormatPart::Whole
        {
            open_turns.push((slot, span));
        }
    }
    for (slot, span) in open_turns {
        let follower = Slot::ALL.into_iter().find(|next| may_follow(format, slot, *next) && begins_open(format, *next));
        if let Some(next) = follower {
            found.push(Diagnostic {
                code: "ambiguous_end",
                message: format!("`{}` ends in open text and `{}` begins with open text", slot.key(), next.key()),
                span,
                help: Some(format!(
                    "put literal text or a control token at the end of one or the start of the other, or set `[reading] ambiguous = [\"{}\"]`",
                    slot.key()
                )),
            });
        }
    }
    // Several walks may reach and report the same hole.
    found.sort_by_key(|diagnostic| diagnostic.span.start);
    found.dedup();
    found
}

fn may_follow(format: &Format, slot: Slot, next: Slot) -> bool {
    let is_system = |slot| matches!(slot, Slot::System | Slot::SystemFirst);
    let one_system = matches!(format.rules.system, SystemRule::First | SystemRule::Fold | SystemRule::None);
    if !next.is_turn() || (is_system(next) && (one_system || next == Slot::SystemFirst)) {
        return false;
    }
    !(is_system(slot) && slot == next && one_system)
}

fn begins_open(format: &Format, slot: Slot) -> bool {
    let Some(layout) = format.layout(slot) else { return false };
    let first = layout.ops().iter().find(|op| !matches!(op, Op::Seam));
    match first {
        Some(Op::Hole { field, codec, .. }) => is_open(*field, codec),
        Some(Op::Group(inner)) => {
            matches!(inner.first(), Some(Op::Hole { field, codec, .. }) if is_open(*field, codec))
        }
        _ => false,
    }
}

/// Reports whether a value may be any text, so that only the text after it marks its end.
fn is_open(field: Field, codec: &Codec) -> bool {
    match (field, codec) {
        (_, Codec::Call(_) | Codec::Present | Codec::Names | Codec::Enumerated) => false,
        (_, codec) if codec.value_syntax().is_some_and(|syntax| syntax.is_delimited()) => false,
        // Known before parsing, or composed of layouts that are checked separately.
        (
            Field::Option(_) | Field::Calls | Field::Results | Field::Tools | Field::Functions | Field::Interpreter,
            _,
        ) => false,
        _ => true,
    }
}

/// Reports whether a value begins with a character that function names do not contain.
fn begins_with_a_brace(field: Field, codec: &Codec) -> bool {
    field == Field::Arguments && codec.value_syntax().is_some_and(|syntax| syntax.is_delimited())
}

struct LayoutWalk<'a> {
    format: &'a Format,
    found: &'a mut Vec<Diagnostic>,
    /// Whether the current layout is the one around all calls.
    around_calls: bool,
}

impl LayoutWalk<'_> {
    fn ops(&mut self, ops: &[Op], mut pending: Pending) -> Pending {
        for op in ops {
            pending = match op {
                Op::Literal(_) | Op::Control(_) => None,
                Op::Seam | Op::Own(_) => pending,
                Op::Group(inner) => {
                    let skipped = pending.clone();
                    self.ops(inner, pending).or(skipped)
                }
                Op::Hole { codec: Codec::Present, .. } => pending,
                Op::Hole { field, codec, span } => self.hole(*field, codec, span, pending),
            };
        }
        pending
    }

    fn hole(&mut self, field: Field, codec: &Codec, span: &Range<usize>, pending: Pending) -> Pending {
        let composed: &[Slot] = match (field, codec) {
            (Field::Calls, _) if !self.around_calls && self.format.layout(Slot::Calls).is_some() => &[Slot::Calls],
            (Field::Calls, _) => &[Slot::Call, Slot::CallInterpreter],
            (Field::Arguments, Codec::Text) => &[Slot::Argument, Slot::ArgumentString],
            (Field::Results, _) => &[Slot::Tool, Slot::ToolInterpreter],
            (Field::Tools | Field::Functions, Codec::Text) => &[Slot::ToolsItem],
            (Field::Folded, _) => &[Slot::Folded],
            _ => {
                if let Some((before, place)) = &pending
                    && !(*before == Field::Name && begins_with_a_brace(field, codec))
                {
                    self.report(place, span);
                }
                return is_open(field, codec).then(|| (field, span.clone()));
            }
        };
        let mut after = None;
        let outside = std::mem::replace(&mut self.around_calls, field == Field::Calls);
        for slot in composed {
            if let Some(layout) = self.format.layout(*slot) {
                after = self.ops(layout.ops(), pending.clone()).or(after);
            }
        }
        self.around_calls = outside;
        // There may be no calls, arguments or results.
        if field == Field::Folded { after } else { after.or(pending) }
    }

    fn report(&mut self, before: &Range<usize>, hole: &Range<usize>) {
        let diagnostic = Diagnostic {
            code: "ambiguous_holes",
            message: "nothing separates two values, so a parser cannot tell them apart".into(),
            span: before.start.min(hole.start)..hole.end.max(before.end),
            help: Some("put literal text or a control token between the two holes".into()),
        };
        if !self.found.contains(&diagnostic) {
            self.found.push(diagnostic);
        }
    }
}
