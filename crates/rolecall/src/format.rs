//! Chat formats: the parts of a format, the registry of formats, and reading a format file.

mod example;
mod setting;

use std::sync::OnceLock;

pub use rolecall_format::{
    AnswersRule, AssistantRule, BlankSystem, BoundaryToken, CallIds, CallsInReasoning, Choice, Codec, Control,
    ControlId, Defaults, Diagnostic, EndingRule, Field, Fit, Format, FormatPart, Generation, Habits, Header,
    HeaderRule, IdPattern, Identity, InText, Layout, LoadError, LossRule, NameClash, Op, Pattern, Registry,
    ResolveError, RolesRule, Rules, Slot, Step, SystemRule, SystemWhen, SystemWithTools, ToolRule, ToolsPlace,
    TurnsRule, UsersRule, builtin_sources, codec, corrections, is_clear_tag, load, reply_files, reply_format,
    shared_calls, tag_length, tags, write_reply,
};

pub use example::example;
pub use setting::{Setting, rules_of, settings_of};

/// Returns a registry of all built-in formats: the model makers' own, and the dialects of other
/// frameworks.
///
/// ```
/// let registry = rolecall::format::registry();
/// assert!(registry.get("llama2").is_some() && registry.get("xtuner:llama2_chat").is_some());
/// ```
pub fn registry() -> Registry {
    static READ: OnceLock<Registry> = OnceLock::new();
    let read = || {
        let mut registry = rolecall_format::builtin();
        let registered = rolecall_interop::register(&mut registry);
        // A test checks all names, so a release has no name clash.
        debug_assert!(registered.is_ok(), "{registered:?}");
        registry
    };
    READ.get_or_init(read).clone()
}

/// Reads a user's format file.
///
/// The file is in this project's own format, unless its name ends in `.json` or `.py` or its text
/// is a call of Python's `dict`. In these cases it is the template of another framework, and the
/// format is named after the file.
///
/// ```
/// let format = rolecall::format::read("folder/mine.json", r#"{"INSTRUCTION": "Q: {input}\nA:"}"#)?;
/// assert_eq!(format.name, "mine");
/// # Ok::<(), rolecall::format::LoadError>(())
/// ```
pub fn read(file: &str, text: &str) -> Result<Format, LoadError> {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    match name.rsplit_once('.') {
        Some((stem, "json")) => rolecall_interop::import(text, stem),
        Some((stem, "py")) => rolecall_interop::import_python(text, stem),
        stem if rolecall_interop::is_python(text) => {
            rolecall_interop::import_python(text, stem.map_or(name, |(stem, _)| stem))
        }
        _ => load(text),
    }
}
