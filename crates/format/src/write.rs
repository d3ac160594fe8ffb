//! Writes a format file.

use std::fmt::Write;

use crate::check::find_ambiguity;
use crate::layout::{self, Vocabulary, looks_like_control};
use crate::load::{holes_of, is_name_letter};
use crate::{BoundaryToken, CallIds, CallsInReasoning, Control, Format, FormatPart, Header, InText, Op, Slot};

/// Writes the reply part of a format as a format file that [`load`](crate::load) reads: the layouts
/// of the assistant and its calls, and the declarations they use.
///
/// ```
/// use rolecall_format::{builtin, Slot, load, write_reply};
/// let registry = builtin();
/// let format = registry.get("chatml").expect("it is built in");
/// let file = write_reply(format);
/// assert!(file.contains("assistant = \"<|im_start|>assistant\\n{content}<|im_end|>\\n\""));
/// assert!(load(&file)?.layout(Slot::Assistant).is_some());
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
pub fn write_reply(format: &Format) -> String {
    let mut reply = Format { part: FormatPart::Reply, ..format.clone() };
    reply.keep_layouts(Slot::is_reply);
    reply.plain_marks.extend(undeclared_marks(&reply));
    let mut file = String::new();
    // Writing to a string never fails.
    let _ = write_file(&mut file, &reply);
    file
}

fn write_file(file: &mut String, format: &Format) -> std::fmt::Result {
    writeln!(file, "part = \"reply\"")?;
    writeln!(file, "name = {}", quoted(&name_of(format)))?;
    if !format.title.is_empty() && format.title != format.name {
        writeln!(file, "title = {}", quoted(&format.title))?;
    }
    if !format.plain_marks.is_empty() {
        writeln!(file, "plain-marks = {}", list(&format.plain_marks))?;
    }
    let table = |file: &mut String, name: &str, lines: &[String]| match lines {
        [] => Ok(()),
        lines => writeln!(file, "\n[{name}]\n{}", lines.join("\n")),
    };
    let sources = format.sources.iter().map(|(key, text)| format!("{} = {}", key_of(key), quoted(text)));
    table(file, "sources", &sources.collect::<Vec<_>>())?;
    table(file, "control", &format.controls.iter().map(control_line).collect::<Vec<_>>())?;
    let names = format.control_names.iter();
    let names = names.map(|(name, id)| format!("{} = {}", key_of(name), quoted(&format.control(*id).text)));
    table(file, "names", &names.collect::<Vec<_>>())?;
    let options = format.choices.iter().map(|choice| {
        let values =
            if choice.values.is_empty() { String::new() } else { format!(", values = {}", list(&choice.values)) };
        let (default, help) = (quoted(&choice.default), quoted(&choice.help));
        format!("{} = {{ default = {default}{values}, help = {help} }}", key_of(&choice.name))
    });
    table(file, "options", &options.collect::<Vec<_>>())?;
    let fields = format.fields.iter().map(|(name, about)| format!("{} = {}", key_of(name), quoted(about)));
    table(file, "fields", &fields.collect::<Vec<_>>())?;
    table(file, "layout", &layout_lines(format))?;
    let mut rules = Vec::new();
    rules.extend(format.rules.max_calls.map(|most| format!("max-calls = {most}")));
    if format.rules.call_ids != CallIds::Any {
        rules.push(format!("call-ids = {}", quoted(&format.rules.call_ids.to_string())));
    }
    table(file, "rules", &rules)?;
    let ambiguous: Vec<String> = ambiguous_slots(format).into_iter().map(|slot| slot.key().to_owned()).collect();
    let mut reading = Vec::new();
    if !ambiguous.is_empty() {
        reading.push(format!("ambiguous = {}", list(&ambiguous)));
    }
    if !format.habits.call_marks.is_empty() {
        reading.push(format!("call-marks = {}", list(&format.habits.call_marks)));
    }
    if !format.habits.may_omit.is_empty() {
        reading.push(format!("may-omit = {}", list(&format.habits.may_omit)));
    }
    if !format.habits.other_marks.is_empty() {
        reading.push(format!("other-marks = {}", list(&format.habits.other_marks)));
    }
    if format.habits.trims {
        reading.push("trims = true".to_owned());
    }
    if format.habits.calls_in_reasoning != CallsInReasoning::default() {
        reading.push(format!("calls-in-reasoning = \"{}\"", format.habits.calls_in_reasoning.key()));
    }
    table(file, "reading", &reading)?;
    table(file, "reading.header", &format.habits.header.as_ref().map(header_lines).unwrap_or_default())?;
    if !format.generation.stop.is_empty() {
        writeln!(file, "\n[generation]\nstop = {}", list(&format.generation.stop))?;
    }
    Ok(())
}

fn header_lines(header: &Header) -> Vec<String> {
    let texts = [
        ("start", &header.start),
        ("author", &header.author),
        ("recipient", &header.recipient),
        ("channel", &header.channel),
        ("content-type", &header.content_type),
        ("body", &header.body),
        ("functions", &header.functions),
    ];
    let lists = [
        ("ends", &header.ends),
        ("reasoning", &header.reasoning),
        ("answers", &header.answers),
        ("content-types", &header.content_types),
        ("code", &header.code),
        ("people", &header.people),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(key, text)| format!("{key} = {}", quoted(text)));
    let lists = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
    texts.chain(lists.map(|(key, texts)| format!("{key} = {}", list(texts)))).collect()
}

/// Returns the format's name with only the characters that a file allows.
fn name_of(format: &Format) -> String {
    let name = format.name.to_lowercase().replace(|c| !is_name_letter(c), "-");
    if name.is_empty() { "reply".to_owned() } else { name }
}

fn layout_lines(format: &Format) -> Vec<String> {
    let controls = format.spelled_controls();
    let written = Slot::ALL.into_iter().filter_map(|slot| Some((slot, format.layout(slot)?)));
    let mut lines: Vec<String> = written
        .map(|(slot, layout)| {
            let holes = holes_of(slot, format);
            let vocabulary = Vocabulary { controls: &controls, plain_marks: &format.plain_marks, holes: &holes };
            format!("{} = {}", slot.key(), quoted(&layout::write(layout.pattern(), format, &vocabulary)))
        })
        .collect();
    // A reply file needs `generate`, even if it is empty.
    if format.layout(Slot::Generate).is_none() {
        lines.push(format!("{} = \"\"", Slot::Generate.key()));
    }
    lines
}

fn control_line(control: &Control) -> String {
    let mut facts = Vec::new();
    facts.extend(control.id.map(|id| format!("id = {id}")));
    let flags = [(control.bos, "bos"), (control.ends_turn, "ends_turn"), (control.appended, "appended")];
    facts.extend(flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| format!("{flag} = true")));
    facts.extend(control.own.map(|own| match own {
        BoundaryToken::Bos => "own = \"bos\"".to_owned(),
        BoundaryToken::Eos => "own = \"eos\"".to_owned(),
    }));
    facts.extend(match control.in_text {
        InText::Always => None,
        InText::OnRequest => Some("in-text = \"on-request\"".to_owned()),
        InText::Never => Some("in-text = \"never\"".to_owned()),
    });
    if !control.spelled.is_empty() {
        let each = control.spelled.iter().map(|(name, text)| format!("{} = {}", key_of(name), quoted(text)));
        facts.push(format!("spelled = {{ {} }}", each.collect::<Vec<_>>().join(", ")));
    }
    match facts.is_empty() {
        true => format!("{} = {{}}", key_of(&control.text)),
        false => format!("{} = {{ {} }}", key_of(&control.text), facts.join(", ")),
    }
}

/// Returns the slots whose layouts are ambiguous: those declared as such, and those that the check
/// would refuse.
fn ambiguous_slots(format: &Format) -> Vec<Slot> {
    let is_ambiguous = |slot: Slot| {
        let others = Slot::ALL.into_iter().filter(|other| *other != slot).collect();
        !find_ambiguity(&Format { ambiguous: others, ..format.clone() }).is_empty()
    };
    let own = Slot::ALL.into_iter().filter(|slot| format.layout(*slot).is_some());
    own.filter(|slot| format.ambiguous.contains(slot) || is_ambiguous(*slot)).collect()
}

/// Returns undeclared markers: literal text that looks like a control token, and stop texts.
fn undeclared_marks(format: &Format) -> Vec<String> {
    fn add(text: &str, marks: &mut Vec<String>) {
        let mut from = 0;
        while let Some(found) = looks_like_control(&text[from..]) {
            marks.push(text[from + found.start..from + found.end].to_owned());
            from += found.end;
        }
    }
    fn walk(ops: &[Op], marks: &mut Vec<String>) {
        // Adjacent literals form one text.
        let mut row = String::new();
        for op in ops {
            match op {
                Op::Literal(text) => row.push_str(text),
                other => {
                    add(&std::mem::take(&mut row), marks);
                    if let Op::Group(inner) = other {
                        walk(inner, marks);
                    }
                }
            }
        }
        add(&row, marks);
    }
    let mut marks = Vec::new();
    for layout in Slot::ALL.into_iter().filter_map(|slot| format.layout(slot)) {
        walk(layout.pattern(), &mut marks);
    }
    let declared = |text: &String| format.controls.iter().any(|control| control.texts().any(|known| known == text));
    marks.extend(format.generation.stop.iter().filter(|stop| !declared(stop)).cloned());
    marks.sort_unstable();
    marks.dedup();
    marks.retain(|mark| !format.plain_marks.contains(mark));
    marks
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

fn key_of(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { quoted(key) }
}

/// Returns a TOML string on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
