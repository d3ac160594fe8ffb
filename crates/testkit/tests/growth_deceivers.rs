//! Templates that were written to deceive: they write the same text for some time, and then another
//! one. Growing such a prompt gives the whole one's end, or nothing.
//!
//! They are in `fixtures/growth/deceivers.txt`: a name, whether they must be grown in some cases, and
//! a line that is the template. A `+` at its end stands for an ordinary loop.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::{Conversation, json};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, DateTime, TemplateOptions};
use rolecall_testkit::growth::{Tally, check_growth};

const NOON: DateTime = DateTime { year: 2026, month: 11, day: 30, hour: 12, minute: 0, second: 0, microsecond: 0 };

/// What a `+` stands for.
const LOOP: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% endif %}";

const DECEIVERS: &str = include_str!("../../../fixtures/growth/deceivers.txt");

/// Returns each template with its name, and whether it must be grown in some cases.
fn deceivers() -> Vec<(&'static str, bool, String)> {
    let entries = DECEIVERS.split("# ").filter(|entry| !entry.is_empty());
    let read = |entry: &'static str| {
        let (title, source) = entry.split_once('\n')?;
        let (name, rule) = title.rsplit_once(": ")?;
        let source = source.trim_end();
        let source = match source.strip_suffix('+') {
            Some(start) => format!("{start}{LOOP}"),
            None => source.to_owned(),
        };
        Some((name, rule == "grows", source))
    };
    entries.map(|entry| read(entry).unwrap_or_else(|| panic!("{entry}"))).collect()
}

fn conversations() -> Vec<Conversation> {
    let texts = [
        r#"{"messages": [{"role": "system", "content": "Be <b>kind</b>."}, {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Thanks"},
            {"role": "assistant", "content": "Sure"}, {"role": "user", "content": "Thanks"},
            {"role": "user", "content": "Really"}, {"role": "assistant", "content": "Yes"},
            {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Thanks"}]}"#,
        r#"{"messages": [{"role": "user", "content": "A long first question, with many words in it"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "id": "a", "function": {"name": "f", "arguments": {"x": [1, 2]}}},
                {"type": "function", "id": "b", "function": {"name": "g", "arguments": {}}}]},
            {"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "assistant", "content": "Thanks", "reasoning_content": "hm"}, {"role": "user", "content": "Thanks"},
            {"role": "assistant", "content": "x"}, {"role": "system", "content": "late"}, {"role": "user", "content": "?"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}"#,
        r#"{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "user", "content": "c"},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "a"}, {"role": "user", "content": "a"}]}"#,
    ];
    texts.iter().map(|text| Conversation::from_json(json::parse(text).unwrap()).unwrap()).collect()
}

#[test]
fn a_template_that_deceives_is_grown_correctly_or_not_at_all() {
    let options = TemplateOptions { now: Some(NOON), ..TemplateOptions::default() };
    let conversations = conversations();
    let mut total = Tally::default();
    let mut stiff = Vec::new();
    let deceivers = deceivers();
    for (name, must_grow, source) in &deceivers {
        let template = ChatTemplate::compile(source, Vec::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut tally = Tally::default();
        for (at, conversation) in conversations.iter().enumerate() {
            let writer = Writer::template(template.clone(), options.clone());
            check_growth(&format!("{name}, conversation {at}"), &writer, conversation, &mut tally);
        }
        if *must_grow && tally.shorter == 0 {
            stiff.push(name);
        }
        println!("{name}: {} grown, {} from a later byte, {:?}", tally.grown, tally.shorter, tally.reasons);
        total.grown += tally.grown;
        total.shorter += tally.shorter;
    }
    println!("{} templates: {} grown, {} from a later byte", deceivers.len(), total.grown, total.shorter);
    assert!(stiff.is_empty(), "never grown: {stiff:?}");
}
