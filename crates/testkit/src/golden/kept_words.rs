//! Checks that parsing loses no word of an output.

use std::collections::BTreeMap;

use rolecall::Reading;
use rolecall::conversation::{Json, json};
use rolecall::format::{Format, Op, Slot};
use rolecall::parse::ParsedCall;

/// Python's constants, which JSON spells differently, and a marker of values that no layout has.
const RESPELLED: [&str; 4] = ["True", "False", "None", "CDATA"];

/// Keys that are common in the object of a call.
const KEYS: [&str; 7] = ["name", "arguments", "parameters", "id", "type", "function", "tool"];

/// Returns the words of an output that occur more often in it than in its reading: in content,
/// reasoning, names, ids, arguments and reported spans. Words of the format's own markers do not
/// count.
pub(super) fn lost_words(output: &str, reading: &Reading, format: &Format) -> Vec<String> {
    let marks = literals(format);
    let reported = reading.malformed.iter().filter_map(|malformed| {
        output.get(usize::try_from(malformed.span.start).ok()?..usize::try_from(malformed.span.end).ok()?)
    });
    let mut kept = reported.map(str::to_owned).collect::<Vec<_>>();
    kept.push(reading.content.clone());
    kept.extend(reading.reasoning.clone());
    for call in &reading.calls {
        match call {
            ParsedCall::Function { name, arguments, id, .. } => {
                kept.extend([name.clone(), id.clone(), arguments.clone()]);
                if let Ok(arguments) = json::parse(arguments) {
                    add_strings(&arguments, &mut kept);
                }
            }
            ParsedCall::Code { code, .. } => kept.push(code.clone()),
        }
    }
    let kept = kept.join("\n");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in output.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 1) {
        *counts.entry(word).or_default() += 1;
    }
    let is_lost = |(word, count): (&str, usize)| {
        // An escape such as `\n` may be directly before a word.
        let tail = word.get(1..).filter(|tail| tail.chars().count() > 1).unwrap_or(word);
        // A marker may be directly before a word.
        let is_glued = marks.iter().any(|mark| {
            let last = mark.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let rest = word.strip_prefix(last).filter(|_| !last.is_empty());
            rest.is_some_and(|rest| !rest.is_empty() && kept.contains(rest))
        });
        let is_marks = is_glued || marks.iter().any(|mark| mark.contains(word));
        let found = kept.matches(word).count().max(kept.matches(tail).count());
        // A layout may write a call's name several times.
        let is_name = reading.calls.iter().any(|call| match call {
            ParsedCall::Function { name, .. } => name.contains(word),
            ParsedCall::Code { .. } => false,
        });
        let is_key = !reading.calls.is_empty() && KEYS.contains(&word);
        let is_free = is_marks || is_name || is_key || RESPELLED.contains(&word);
        (!is_free && found < count).then(|| word.to_owned())
    };
    counts.into_iter().filter_map(is_lost).collect()
}

/// Returns the literal texts of a format's layouts, and its stops.
fn literals(format: &Format) -> Vec<String> {
    fn add(format: &Format, ops: &[Op], texts: &mut Vec<String>) {
        for op in ops {
            match op {
                Op::Literal(text) => texts.push(text.clone()),
                Op::Control(id) => texts.push(format.control(*id).text.clone()),
                Op::Group(inner) => add(format, inner, texts),
                Op::Hole { .. } | Op::Seam | Op::Own(_) => {}
            }
        }
    }
    let mut texts: Vec<String> = format.stops().into_iter().map(str::to_owned).collect();
    texts.extend(format.habits.call_marks.iter().cloned());
    for layout in Slot::ALL.iter().filter_map(|slot| format.layout(*slot)) {
        add(format, layout.ops(), &mut texts);
    }
    texts
}

fn add_strings(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::String(text) => texts.push(text.clone()),
        Json::Array(values) => values.iter().for_each(|value| add_strings(value, texts)),
        Json::Object(object) => {
            for (key, value) in object.iter() {
                texts.push(key.to_owned());
                add_strings(value, texts);
            }
        }
        _ => {}
    }
}
