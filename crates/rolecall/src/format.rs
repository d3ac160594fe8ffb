//! Formats: what a chat format is made of, and where formats come from.

pub use rolecall_format::{
    AnswersRule, AssistantRule, BlankSystem, CallIds, CallsInReasoning, Choice, Codec, Control, ControlId, Defaults,
    Diagnostic, EndingRule, Field, Fit, Format, FormatPart, Generation, Habits, HeaderRule, IdPattern, Identity,
    InText, Layout, LoadError, LossRule, NameClash, Op, Own, Pattern, Registry, RolesRule, Rules, Slot, Step,
    SystemRule, SystemWhen, SystemWithTools, ToolRule, ToolsPlace, TurnsRule, Unresolved, UsersRule, builtin_sources,
    codec, corrections, load, shared_calls, write_reply,
};

/// All formats that come with the library: the model makers' own, and the dialects of other frameworks.
///
/// ```
/// let registry = rolecall::format::registry();
/// assert!(registry.get("llama2").is_some() && registry.get("xtuner:llama2_chat").is_some());
/// ```
pub fn registry() -> Registry {
    let mut registry = rolecall_format::builtin();
    let registered = rolecall_interop::register(&mut registry);
    // A test looks at all names; a clash never ships.
    debug_assert!(registered.is_ok(), "{registered:?}");
    registry
}

/// Reads a user's own format file: this project's own by default, another framework's template where the file's name ends
/// in `.json` or `.py`, or where the text is a call of Python's `dict`. Such a template is called as its file is.
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
