//! Reads `[layout]`.

use super::calls::SharedCalls;
use super::table::Table;
use super::{source, unknown};
use crate::layout::{Vocabulary, move_spans, parse};
use crate::{ControlId, Diagnostic, Field, Format, FormatPart, Layout, Op, Slot, SystemRule};

pub(super) fn read_layouts(
    table: Table<'_>,
    shared: Option<&SharedCalls>,
    format: &Format,
    source: &str,
    mistakes: &mut Vec<Diagnostic>,
) -> Vec<Option<Layout>> {
    let controls = format.spelled_controls();
    let mut layouts = vec![None; Slot::ALL.len()];
    for key in table.keys() {
        let Some(slot) = Slot::from_key(&key) else {
            mistakes.push(unknown("layout", &key, Slot::ALL.map(Slot::key), table.key_span(&key)));
            continue;
        };
        if let Some(layout) = layout_of(slot, &key, &table, format, &controls, source, mistakes) {
            layouts[slot as usize] = Some(layout);
        }
    }
    if let Some(shared) = shared {
        add_shared(shared, &controls, format, &mut layouts, mistakes);
    }
    let needed: &[Slot] = match format.part {
        FormatPart::Whole => &[Slot::User, Slot::Assistant, Slot::Generate],
        FormatPart::Reply => &[Slot::Assistant, Slot::Generate],
        FormatPart::Correction => &[],
    };
    for needed in needed {
        if !table.has(needed.key()) {
            mistakes.push(Diagnostic {
                code: "missing_layout",
                message: format!("the layout `{}` is missing", needed.key()),
                span: table.span(),
                help: Some(format!("add `{} = \"..\"` to `[layout]`", needed.key())),
            });
        }
    }
    if format.rules.system == SystemRule::Fold && !table.has("folded") && mistakes.is_empty() {
        mistakes.push(Diagnostic {
            code: "missing_layout",
            message: "`system = \"fold\"` needs the layout `folded`".into(),
            span: table.span(),
            help: Some("add `folded = \"[[{system}\\n\\n]]{content}\"` and use `{folded}` in `user-first`".into()),
        });
    }
    layouts
}

/// Returns the layout of a slot, if the table has it.
pub(super) fn read_layout(
    slot: Slot,
    table: &Table<'_>,
    format: &Format,
    source: &str,
    mistakes: &mut Vec<Diagnostic>,
) -> Option<Layout> {
    let has = table.has(slot.key());
    has.then(|| layout_of(slot, slot.key(), table, format, &format.spelled_controls(), source, mistakes)).flatten()
}

fn layout_of(
    slot: Slot,
    key: &str,
    table: &Table<'_>,
    format: &Format,
    controls: &[(String, ControlId)],
    source: &str,
    mistakes: &mut Vec<Diagnostic>,
) -> Option<Layout> {
    let span = table.span_of(key);
    let text = table.text(key, mistakes)?;
    let holes = holes_of(slot, format);
    let vocabulary = Vocabulary { controls, plain_marks: &format.plain_marks, holes: &holes };
    let (ops, faults) = parse(&text, &vocabulary);
    let places = source::offsets(&source[span.clone()]);
    let in_file = |at: usize| span.start + places.get(at).copied().unwrap_or(span.len().saturating_sub(1));
    mistakes.extend(faults.into_iter().map(|fault| Diagnostic {
        code: fault.code,
        message: fault.message,
        span: in_file(fault.span.start)..in_file(fault.span.end),
        help: fault.help,
    }));
    Some(Layout::new(as_own(move_spans(ops, in_file), format), &format.controls))
}

/// Adds the layouts of a shared file that the format does not define itself. A mistake in such a
/// layout is reported where the format names the file.
fn add_shared(
    shared: &SharedCalls,
    controls: &[(String, ControlId)],
    format: &Format,
    layouts: &mut [Option<Layout>],
    mistakes: &mut Vec<Diagnostic>,
) {
    // Markers that the shared file declares are known here too, if only as ordinary text.
    let known = |mark: &String| controls.iter().any(|(text, _)| text == mark) || format.plain_marks.contains(mark);
    let unknown: Vec<&String> = shared.marks.iter().filter(|mark| !known(mark)).collect();
    let plain_marks = [&format.plain_marks[..], &shared.marks].concat();
    for (slot, text) in &shared.layouts {
        if layouts[*slot as usize].is_some() {
            continue;
        }
        mistakes.extend(unknown.iter().filter(|mark| text.contains(mark.as_str())).map(|mark| Diagnostic {
            code: "undeclared_control",
            message: format!(
                "`{}` in the shared call layouts `{}` writes `{mark}`, which is not declared",
                slot.key(),
                shared.name
            ),
            span: shared.span.clone(),
            help: Some("declare it in `[control]`, or name it in `plain-marks` if it is ordinary text".into()),
        }));
        let holes = holes_of(*slot, format);
        let vocabulary = Vocabulary { controls, plain_marks: &plain_marks, holes: &holes };
        let (ops, faults) = parse(text, &vocabulary);
        mistakes.extend(faults.into_iter().map(|fault| Diagnostic {
            code: fault.code,
            message: format!("`{}` in the shared call layouts `{}`: {}", slot.key(), shared.name, fault.message),
            span: shared.span.clone(),
            help: fault.help,
        }));
        let ops = move_spans(ops, |_| shared.span.start);
        layouts[*slot as usize] = Some(Layout::new(as_own(ops, format), &format.controls));
    }
}

/// Replaces the tokenizer's own tokens with placeholders, which each tokenizer fills in.
fn as_own(ops: Vec<Op>, format: &Format) -> Vec<Op> {
    let each = ops.into_iter().map(|op| match op {
        Op::Control(id) => format.control(id).own.map_or(Op::Control(id), Op::Own),
        Op::Group(inner) => Op::Group(as_own(inner, format)),
        other => other,
    });
    each.collect()
}

pub(crate) fn holes_of(slot: Slot, format: &Format) -> Vec<(String, Field)> {
    let mut holes: Vec<(String, Field)> = slot.fields().iter().map(|field| (field.name().to_owned(), *field)).collect();
    holes.extend(format.choices.iter().enumerate().map(|(at, choice)| (choice.name.clone(), Field::Option(at))));
    if slot.is_turn() {
        holes.extend(format.fields.iter().enumerate().map(|(at, (name, _))| (name.clone(), Field::Extra(at))));
    }
    // `present` can check in any turn whether tools are offered.
    if slot.is_turn() && !holes.iter().any(|(name, _)| name == "tools") {
        holes.push(("tools".into(), Field::Tools));
    }
    holes
}
