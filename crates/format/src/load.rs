//! Reads a format file and reports every mistake in it.

mod calls;
mod controls;
mod habits;
mod header;
mod identity;
mod layouts;
mod settings;
mod source;
mod table;

use calls::read_shared;
use controls::{read_controls, read_names};
use habits::read_habits;
use identity::read_identity;
pub(crate) use layouts::holes_of;
use layouts::{read_layout, read_layouts};
use settings::{read_choices, read_code_result, read_defaults, read_generation, read_loss, read_rules};

use rolecall_conversation::Role;
use table::Table;

use crate::check::find_ambiguity;
use crate::gaps::{Places, find_gaps, find_undeclared};
use crate::{CallIds, Diagnostic, Field, Format, FormatPart, LoadError, Pattern, Slot};
use rolecall_conversation::spelling::nearest;

/// Reads and checks a format file (see `formats/README.md`). The error lists every mistake.
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
    // If no control token could be read, all of them would appear undeclared.
    if mistakes.is_empty() || !format.controls.is_empty() {
        mistakes.extend(find_undeclared(&format, &stops));
    }
    if mistakes.is_empty() {
        mistakes.extend(find_gaps(&format, &places));
        mistakes.extend(find_ambiguity(&format));
    }
    mistakes.sort_by_key(|mistake| mistake.span.start);
    match mistakes.is_empty() {
        true => Ok(format),
        false => Err(LoadError { diagnostics: mistakes }),
    }
}

/// Returns the positions of the keys that whole-file checks refer to, and the stop texts.
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

/// The keys of a format file.
const KEYS: &[&str] = &[
    "part",
    "name",
    "title",
    "aliases",
    "models",
    "base-models",
    "plain-marks",
    "calls",
    "sources",
    "identity",
    "control",
    "options",
    "fields",
    "names",
    "roles",
    "rules",
    "defaults",
    "generation",
    "code-result",
    "reading",
    "layout",
    "training",
];

/// Reads the tables of a file. Each comes after the tables that it refers to.
fn read_file(file: Table<'_>, source: &str, mistakes: &mut Vec<Diagnostic>) -> Format {
    let mut format = read_head(&file, mistakes);
    read_sources(&file, &mut format, mistakes);
    read_declarations(&file, &mut format, mistakes);
    if let Some(rules) = file.table("rules", mistakes) {
        format.rules = read_rules(rules, mistakes);
    }
    if let Some(defaults) = file.table("defaults", mistakes) {
        format.defaults = read_defaults(defaults, &format.choices, mistakes);
    }
    if let Some(generation) = file.table("generation", mistakes) {
        format.generation = read_generation(generation, mistakes).into();
    }
    if let Some(table) = file.table("code-result", mistakes) {
        format.code_result = read_code_result(table, mistakes);
    }
    read_reading(&file, &mut format, mistakes);
    read_calls_and_layouts(&file, &mut format, source, mistakes);
    if let Some(table) = file.table("training", mistakes) {
        format.training = Some(read_training(table, &format, source, mistakes).into());
    }
    file.finish(KEYS, mistakes);
    format
}

/// Reads the keys before the first table of a file.
fn read_head(file: &Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Format {
    let part = match file.text("part", mistakes).as_deref() {
        None | Some("whole") => FormatPart::Whole,
        Some("reply") => FormatPart::Reply,
        Some("correction") => FormatPart::Correction,
        Some(other) => {
            mistakes.push(unknown("value of `part`", other, ["whole", "reply", "correction"], file.span_of("part")));
            FormatPart::Whole
        }
    };
    let name = file.needed_text("name", mistakes);
    let title = match part {
        FormatPart::Whole | FormatPart::Correction => file.needed_text("title", mistakes),
        FormatPart::Reply => file.text("title", mistakes).unwrap_or_else(|| name.clone()),
    };
    let format = Format {
        part,
        name,
        title,
        aliases: file.texts("aliases", mistakes),
        models: file.texts("models", mistakes).iter().map(|text| Pattern::new(text)).collect(),
        base_models: file.texts("base-models", mistakes).iter().map(|text| Pattern::new(text)).collect(),
        plain_marks: file.texts("plain-marks", mistakes),
        ..Format::default()
    };
    check_name(&format.name, file, mistakes);
    format
}

/// Reads the sources of the format's facts.
fn read_sources(file: &Table<'_>, format: &mut Format, mistakes: &mut Vec<Diagnostic>) {
    let sources = match format.part {
        FormatPart::Whole | FormatPart::Correction => file.needed_table("sources", mistakes),
        FormatPart::Reply => file.table("sources", mistakes),
    };
    if let Some(sources) = sources {
        for key in sources.keys() {
            let text = sources.text(&key, mistakes).unwrap_or_default();
            format.sources.push((key, text));
        }
        sources.finish(&[], mistakes);
    }
}

/// Reads the tables that declare control tokens, the identity, options, fields and roles.
fn read_declarations(file: &Table<'_>, format: &mut Format, mistakes: &mut Vec<Diagnostic>) {
    if let Some(control) = file.table("control", mistakes) {
        format.controls = read_controls(control, mistakes).into();
    }
    if let Some(identity) = file.table("identity", mistakes) {
        format.identity = read_identity(identity, mistakes);
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
        format.control_names = read_names(names, &format.controls, mistakes);
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
}

/// Reads how the model's output is parsed.
fn read_reading(file: &Table<'_>, format: &mut Format, mistakes: &mut Vec<Diagnostic>) {
    let Some(reading) = file.table("reading", mistakes) else { return };
    for (key, span) in reading.texts_with_spans("ambiguous", mistakes) {
        match Slot::from_key(&key) {
            Some(slot) => format.ambiguous.push(slot),
            None => mistakes.push(unknown("layout", &key, Slot::ALL.map(Slot::key), span)),
        }
    }
    format.habits = read_habits(&reading, mistakes);
    let keys = ["ambiguous", "call-marks", "may-omit", "other-marks", "trims", "calls-in-reasoning", "header"];
    reading.finish(&keys, mistakes);
}

/// Reads the layouts, which may take the syntax of calls from a shared file.
fn read_calls_and_layouts(file: &Table<'_>, format: &mut Format, source: &str, mistakes: &mut Vec<Diagnostic>) {
    let shared = read_shared(file, mistakes);
    if let Some(shared) = &shared
        && format.rules.call_ids == CallIds::Any
    {
        format.rules.call_ids = shared.call_ids.clone();
    }
    let layouts = match format.part {
        FormatPart::Correction => file.table("layout", mistakes),
        FormatPart::Whole | FormatPart::Reply => file.needed_table("layout", mistakes),
    };
    if let Some(layouts) = layouts {
        format.layouts = read_layouts(layouts, shared.as_ref(), format, source, mistakes);
        format.mark_emitted();
    }
}

/// Returns the format as the maker's training code writes it.
fn read_training(table: Table<'_>, format: &Format, source: &str, mistakes: &mut Vec<Diagnostic>) -> Format {
    let mut training = format.clone();
    training.rules.loss = read_loss(&table, mistakes);
    training.rules.learned = true;
    let end = read_layout(Slot::End, &table, format, source, mistakes);
    if let (Some(end), Some(place)) = (end, training.layouts.get_mut(Slot::End as usize)) {
        *place = Some(end);
    }
    table.finish(&["end", "loss"], mistakes);
    training.mark_emitted();
    training
}

/// Reports whether a format's name may contain this character.
pub(crate) fn is_name_letter(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | ':')
}

fn check_name(name: &str, file: &Table<'_>, mistakes: &mut Vec<Diagnostic>) {
    if !name.chars().all(is_name_letter) {
        mistakes.push(Diagnostic {
            code: "bad_name",
            message: format!("expected a name of lowercase letters, digits, `.`, `-` and `_`, found `{name}`"),
            span: file.span_of("name"),
            help: Some(format!("call it `{}`", name.to_lowercase().replace(|c| !is_name_letter(c), "-"))),
        });
    }
}

fn reserved(name: &str, span: std::ops::Range<usize>) -> Diagnostic {
    Diagnostic {
        code: "reserved_name",
        message: format!("`{name}` is a reserved name"),
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
        None if known.is_empty() => "none is declared".into(),
        None => format!("use one of {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    };
    Diagnostic { code: "unknown_name", message: format!("`{found}` is not a {what}"), span, help: Some(help) }
}
