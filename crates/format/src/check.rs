//! Whether layouts can be read back: no two open texts may meet with nothing between them.

use std::ops::Range;

use crate::{Codec, Diagnostic, Field, Format, FormatPart, Op, Slot, SystemRule};

/// An open text that nothing has closed yet: what it is, and where its hole is written.
type Pending = Option<(Field, Range<usize>)>;

/// Every place where reading back would have to guess.
pub(crate) fn find_ambiguity(format: &Format) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut walk = Walk { format, found: &mut found, around_calls: false };
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
                    "put literal text or a control token at the end of one or the start of the other, or say `[reading] ambiguous = [\"{}\"]`",
                    slot.key()
                )),
            });
        }
    }
    // One hole may be reported by several walks that reach it.
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

/// Whether a value may hold any text, so that only what follows tells its end.
fn is_open(field: Field, codec: &Codec) -> bool {
    match (field, codec) {
        (_, Codec::Call(_) | Codec::Present | Codec::Names | Codec::Enumerated) => false,
        (_, codec) if codec.value_syntax().is_some_and(|syntax| syntax.is_delimited()) => false,
        // Known before reading, or composed of layouts that are checked by themselves.
        (
            Field::Option(_) | Field::Calls | Field::Results | Field::Tools | Field::Functions | Field::Interpreter,
            _,
        ) => false,
        _ => true,
    }
}

/// Whether a value begins with what no function's name has in it.
fn begins_with_a_brace(field: Field, codec: &Codec) -> bool {
    field == Field::Arguments && codec.value_syntax().is_some_and(|syntax| syntax.is_delimited())
}

struct Walk<'a> {
    format: &'a Format,
    found: &'a mut Vec<Diagnostic>,
    /// Whether the layout at hand is the one around all calls.
    around_calls: bool,
}

impl Walk<'_> {
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
        // Calls, arguments and results may be none at all.
        if field == Field::Folded { after } else { after.or(pending) }
    }

    fn report(&mut self, before: &Range<usize>, hole: &Range<usize>) {
        let diagnostic = Diagnostic {
            code: "ambiguous_holes",
            message: "two values stand with nothing between them, so they cannot be told apart when read back".into(),
            span: before.start.min(hole.start)..hole.end.max(before.end),
            help: Some("put literal text or a control token between the two holes".into()),
        };
        if !self.found.contains(&diagnostic) {
            self.found.push(diagnostic);
        }
    }
}
