//! Reads a format file and names every mistake in it.

mod source;
mod table;

use rolecall_conversation::Role;
use table::Table;

use crate::check::find_ambiguity;
use crate::diagnostic::nearest;
use crate::gaps::{Places, find_gaps};
use crate::layout::{Vocabulary, move_spans, parse};
use crate::{
    AnswersRule, AssistantRule, Choice, Control, ControlId, Defaults, Diagnostic, Field, Format, Generation, InText,
    Layout, LoadError, Pattern, Rules, Slot, SystemRule, SystemWhen, SystemWithTools, ToolRule, ToolsPlace, TurnsRule,
    UsersRule,
};

/// Reads a format file (see `formats/README.md`) and checks it whole: every mistake is in the error.
///
/// ```
/// let error = rolecall_format::load("name = \"x\"\ntitel = \"X\"").unwrap_err();
/// assert!(error.to_string().contains("unknown key `titel`"));
/// ```
pub fn load(source: &str) -> Result<Format, LoadError> {
    let mut mistakes = Vec::new();
    let Some(file) = Table::of_file(source, &mut mistakes) else { return Err(LoadError { diagnostics: mistakes }) };
    let (places, stops) = find_places(&file);
    let format = read_file(file, source, &mut mistakes);
    if mistakes.is_empty() {
        mistakes.extend(find_gaps(&format, &places, &stops));
        mistakes.extend(find_ambiguity(&format));
    }
    mistakes.sort_by_key(|mistake| mistake.span.start);
    match mistakes.is_empty() {
        true => Ok(format),
        false => Err(LoadError { diagnostics: mistakes }),
    }
}

/// Where the keys stand that checks of the whole file speak of, and the texts to stop at.
fn find_places(file: &Table<'_>) -> (Places, Vec<(String, std::ops::Range<usize>)>) {
    let mut places = Places::new();
    let mut unheard = Vec::new();
    for name in ["layout", "rules", "defaults"] {
        if let Some(table) = file.table(name, &mut unheard) {
            places.extend(table.keys().into_iter().map(|key| (format!("{name}.{key}"), table.key_span(&key))));
        }
    }
    let generation = file.table("generation", &mut unheard);
    let stops = generation.map(|table| table.texts_with_spans("stop", &mut unheard)).unwrap_or_default();
    (places, stops)
}

fn read_file(file: Table<'_>, source: &str, mistakes: &mut Vec<Diagnostic>) -> Format {
    let mut format = Format {
        name: file.needed_text("name", mistakes),
        title: file.needed_text("title", mistakes),
        models: file.texts("models", mistakes).iter().map(|text| Pattern::new(text)).collect(),
        plain_marks: file.texts("plain-marks", mistakes),
        ..Format::default()
    };
    check_name(&format.name, &file, mistakes);
    if let Some(sources) = file.needed_table("sources", mistakes) {
        for key in sources.keys() {
            let text = sources.text(&key, mistakes).unwrap_or_default();
            format.sources.push((key, text));
        }
        sources.finish(&[], mistakes);
    }
    if let Some(control) = file.table("control", mistakes) {
        format.controls = read_controls(control, mistakes).into();
    }
    if let Some(options) = file.table("options", mistakes) {
        format.choices = read_choices(options, mistakes);
    }
    if let Some(fields) = file.table("fields", mistakes) {
        for key in fields.keys() {
            if Field::from_name(&key).is_some() {
                mistakes.push(reserved(&key, fields.key_span(&key)));
            }
            let text = fields.text(&key, mistakes).unwrap_or_default();
            format.fields.push((key, text));
        }
    }
    if let Some(names) = file.table("names", mistakes) {
        format.names = read_names(names, &format.controls, mistakes);
    }
    if let Some(roles) = file.table("roles", mistakes) {
        for usual in ["system", "user", "assistant", "tool"] {
            let own = roles.text_or_texts(usual, mistakes);
            if !own.is_empty() {
                format.roles.push((Role::from_name(usual).name().to_owned(), own));
            }
        }
        roles.finish(&["system", "user", "assistant", "tool"], mistakes);
    }
    if let Some(rules) = file.table("rules", mistakes) {
        format.rules = read_rules(rules, mistakes);
    }
    if let Some(defaults) = file.table("defaults", mistakes) {
        format.defaults = read_defaults(defaults, mistakes);
    }
    if let Some(generation) = file.table("generation", mistakes) {
        format.generation = read_generation(generation, mistakes).into();
    }
    if let Some(reading) = file.table("reading", mistakes) {
        for (key, span) in reading.texts_with_spans("ambiguous", mistakes) {
            match Slot::from_key(&key) {
                Some(slot) => format.ambiguous.push(slot),
                None => mistakes.push(unknown("layout", &key, Slot::ALL.map(Slot::key), span)),
            }
        }
        reading.finish(&["ambiguous"], mistakes);
    }
    if let Some(layouts) = file.needed_table("layout", mistakes) {
        format.layouts = read_layouts(layouts, &format, source, mistakes);
        mark_emitted(&mut format);
    }
    file.finish(
        &[
            "name",
            "title",
            "models",
            "plain-marks",
            "sources",
            "control",
            "options",
            "fields",
            "names",
            "roles",
            "rules",
            "defaults",
            "generation",
            "reading",
            "layout",
        ],
        mistakes,
    );
    format
}

fn check_name(name: &str, file: &Table<'_>, mistakes: &mut Vec<Diagnostic>) {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | ':');
    if !name.chars().all(good) {
        mistakes.push(Diagnostic {
            code: "bad_name",
            message: format!("expected a name of small letters, digits, `.`, `-` and `_`, found `{name}`"),
            span: file.span_of("name"),
            help: Some(format!("call it `{}`", name.to_lowercase().replace(|c| !good(c), "-"))),
        });
    }
}

fn read_controls(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Vec<Control> {
    let mut controls: Vec<Control> = Vec::new();
    for text in table.keys() {
        let span = table.span_of(&text);
        if Slot::from_key(&text).is_some() && table.is_text(&text) {
            mistakes.push(Diagnostic {
                code: "misplaced_key",
                message: format!("`{text}` is a layout, not a control token"),
                span: table.key_span(&text),
                help: Some("put the line `[layout]` above it".into()),
            });
            continue;
        }
        let Some(entry) = table.table(&text, mistakes) else { continue };
        let mut control = Control {
            id: entry.integer("id", mistakes).and_then(|id| u32::try_from(id).ok()),
            bos: entry.boolean("bos", mistakes),
            ends_turn: entry.boolean("ends_turn", mistakes),
            appended: entry.boolean("appended", mistakes),
            emitted: false,
            in_text: match entry.text("in-text", mistakes).as_deref() {
                None | Some("always") => InText::Always,
                Some("on-request") => InText::OnRequest,
                Some("never") => InText::Never,
                Some(other) => {
                    let known = ["always", "on-request", "never"];
                    mistakes.push(unknown("value of `in-text`", other, known, entry.span_of("in-text")));
                    InText::Always
                }
            },
            spelled: Vec::new(),
            text,
        };
        if let Some(spelled) = entry.table("spelled", mistakes) {
            for name in spelled.keys() {
                let text = spelled.text(&name, mistakes).unwrap_or_default();
                control.spelled.push((name, text));
            }
        }
        entry.finish(&["id", "bos", "ends_turn", "appended", "in-text", "spelled"], mistakes);
        let clash = controls.iter().find(|other| {
            other.texts().any(|text| control.texts().any(|own| own == text))
                || (other.id.is_some() && other.id == control.id)
        });
        if let Some(other) = clash {
            mistakes.push(Diagnostic {
                code: "control_clash",
                message: format!("`{}` and `{}` share a spelling or an id", other.text, control.text),
                span: span.clone(),
                help: Some("a token of two names is one token with `spelled`".into()),
            });
        }
        if control.texts().any(str::is_empty) {
            mistakes.push(Diagnostic {
                code: "empty_control",
                message: "found a control token without text".into(),
                span,
                help: Some("write the token's text".into()),
            });
        }
        controls.push(control);
    }
    controls
}

fn read_choices(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Vec<Choice> {
    let mut choices = Vec::new();
    for name in table.keys() {
        let span = table.span_of(&name);
        let Some(entry) = table.table(&name, mistakes) else { continue };
        let choice = Choice {
            default: entry.text("default", mistakes).unwrap_or_default(),
            values: entry.texts("values", mistakes),
            help: entry.text("help", mistakes).unwrap_or_default(),
            name,
        };
        entry.finish(&["default", "values", "help"], mistakes);
        if !choice.values.is_empty() && !choice.values.contains(&choice.default) {
            mistakes.push(Diagnostic {
                code: "bad_default",
                message: format!("the default `{}` is not among the values", choice.default),
                span: span.clone(),
                help: nearest(&choice.default, choice.values.iter().map(String::as_str))
                    .map(|near| format!("did you mean `{near}`?")),
            });
        }
        if Field::from_name(&choice.name).is_some() || choice.name == "spelling" {
            mistakes.push(reserved(&choice.name, span));
        }
        choices.push(choice);
    }
    choices
}

fn read_names(table: Table<'_>, controls: &[Control], mistakes: &mut Vec<Diagnostic>) -> Vec<(String, ControlId)> {
    let mut names = Vec::new();
    for name in table.keys() {
        let span = table.span_of(&name);
        let Some(text) = table.text(&name, mistakes) else { continue };
        match controls.iter().position(|control| control.text == text) {
            Some(at) => names.push((name, ControlId(at))),
            None => mistakes.push(unknown(
                "control token",
                &text,
                controls.iter().map(|control| control.text.as_str()),
                span,
            )),
        }
    }
    names
}

fn read_rules(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Rules {
    let rules = Rules {
        system: choose(&table, "system", SystemRule::KEYS, SystemRule::from_key, mistakes),
        turns: choose(&table, "turns", TurnsRule::KEYS, TurnsRule::from_key, mistakes),
        users: choose(&table, "users", UsersRule::KEYS, UsersRule::from_key, mistakes),
        assistant: choose(&table, "assistant", AssistantRule::KEYS, AssistantRule::from_key, mistakes),
        tool: choose(&table, "tool", ToolRule::KEYS, ToolRule::from_key, mistakes),
        answers: choose(&table, "answers", AnswersRule::KEYS, AnswersRule::from_key, mistakes),
        max_calls: table.integer("max-calls", mistakes).and_then(|count| usize::try_from(count).ok()),
        system_with_tools: choose(
            &table,
            "system-with-tools",
            SystemWithTools::KEYS,
            SystemWithTools::from_key,
            mistakes,
        ),
        tools: choose(&table, "tools", ToolsPlace::KEYS, ToolsPlace::from_key, mistakes),
    };
    table.finish(
        &["system", "turns", "users", "assistant", "tool", "answers", "max-calls", "system-with-tools", "tools"],
        mistakes,
    );
    rules
}

fn choose<T: Default>(
    table: &Table<'_>,
    key: &str,
    known: &'static [&'static str],
    from_key: impl Fn(&str) -> Option<T>,
    mistakes: &mut Vec<Diagnostic>,
) -> T {
    let span = table.span_of(key);
    let Some(text) = table.text(key, mistakes) else { return T::default() };
    from_key(&text).unwrap_or_else(|| {
        mistakes.push(unknown(&format!("value of `{key}`"), &text, known.iter().copied(), span));
        T::default()
    })
}

fn read_defaults(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Defaults {
    let span = table.span_of("system-when");
    let defaults = Defaults {
        system: table.text("system", mistakes),
        system_when: match table.text("system-when", mistakes).as_deref() {
            None | Some("not-first") => SystemWhen::NotFirst,
            Some("none") => SystemWhen::None,
            Some(other) => {
                mistakes.push(unknown("value of `system-when`", other, ["not-first", "none"], span));
                SystemWhen::NotFirst
            }
        },
        system_with_tools: table.text("system-with-tools", mistakes),
        interpreter: table.text("interpreter", mistakes),
    };
    table.finish(&["system", "system-when", "system-with-tools", "interpreter"], mistakes);
    defaults
}

fn read_generation(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Generation {
    let whole = |key: &str, table: &Table<'_>, mistakes: &mut Vec<Diagnostic>| {
        table.integer(key, mistakes).and_then(|value| u64::try_from(value).ok())
    };
    let generation = Generation {
        session_len: whole("session_len", &table, mistakes),
        max_new_tokens: whole("max_new_tokens", &table, mistakes),
        top_k: whole("top_k", &table, mistakes),
        stop: table.texts("stop", mistakes),
        temperature: table.number("temperature", mistakes),
        top_p: table.number("top_p", mistakes),
        repetition_penalty: table.number("repetition_penalty", mistakes),
    };
    table.finish(
        &["stop", "session_len", "max_new_tokens", "temperature", "top_p", "top_k", "repetition_penalty"],
        mistakes,
    );
    generation
}

fn mark_emitted(format: &mut Format) {
    let written = |id: ControlId| format.layouts.iter().flatten().any(|layout| layout.writes(id));
    let named = |id: ControlId| format.names.iter().any(|(_, named)| *named == id);
    let emitted: Vec<bool> = (0..format.controls.len()).map(ControlId).map(|id| written(id) || named(id)).collect();
    let controls = format.controls.iter().cloned().zip(emitted);
    format.controls = controls.map(|(control, emitted)| Control { emitted, ..control }).collect();
}

fn read_layouts(
    table: Table<'_>,
    format: &Format,
    source: &str,
    mistakes: &mut Vec<Diagnostic>,
) -> Vec<Option<Layout>> {
    let mut controls: Vec<(String, ControlId)> = Vec::new();
    for (at, control) in format.controls.iter().enumerate() {
        controls.extend(control.texts().filter(|text| !text.is_empty()).map(|text| (text.to_owned(), ControlId(at))));
    }
    controls.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    let mut layouts = vec![None; Slot::ALL.len()];
    for key in table.keys() {
        let span = table.span_of(&key);
        let Some(slot) = Slot::from_key(&key) else {
            mistakes.push(unknown("layout", &key, Slot::ALL.map(Slot::key), table.key_span(&key)));
            continue;
        };
        let Some(text) = table.text(&key, mistakes) else { continue };
        let holes = holes_of(slot, format);
        let vocabulary = Vocabulary { controls: &controls, plain_marks: &format.plain_marks, holes: &holes };
        let (ops, faults) = parse(&text, &vocabulary);
        let places = source::offsets(&source[span.clone()]);
        let in_file = |at: usize| span.start + places.get(at).copied().unwrap_or(span.len().saturating_sub(1));
        mistakes.extend(faults.into_iter().map(|fault| Diagnostic {
            code: fault.code,
            message: fault.message,
            span: in_file(fault.span.start)..in_file(fault.span.end),
            help: fault.help,
        }));
        layouts[slot as usize] = Some(Layout::new(move_spans(ops, in_file), &format.controls));
    }
    for needed in [Slot::User, Slot::Assistant, Slot::Generate] {
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

fn holes_of(slot: Slot, format: &Format) -> Vec<(String, Field)> {
    let mut holes: Vec<(String, Field)> = slot.fields().iter().map(|field| (field.name().to_owned(), *field)).collect();
    holes.extend(format.choices.iter().enumerate().map(|(at, choice)| (choice.name.clone(), Field::Option(at))));
    if slot.is_turn() {
        holes.extend(format.fields.iter().enumerate().map(|(at, (name, _))| (name.clone(), Field::Extra(at))));
    }
    // What is offered may be asked for with `present` wherever a turn is written.
    if slot.is_turn() && !holes.iter().any(|(name, _)| name == "tools") {
        holes.push(("tools".into(), Field::Tools));
    }
    holes
}

fn reserved(name: &str, span: std::ops::Range<usize>) -> Diagnostic {
    Diagnostic {
        code: "reserved_name",
        message: format!("`{name}` is a name of the manual's own"),
        span,
        help: Some("choose another name".into()),
    }
}

fn unknown<'a>(
    what: &str,
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
    span: std::ops::Range<usize>,
) -> Diagnostic {
    let known: Vec<&str> = known.into_iter().collect();
    let help = match nearest(found, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is none to choose from".into(),
        None => format!("use one of {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    };
    Diagnostic { code: "unknown_name", message: format!("`{found}` is not a {what}"), span, help: Some(help) }
}
