//! Chat formats: the parts of a format, the registry of formats, and reading a format file.

mod example;
mod setting;

use std::path::Path;
use std::sync::OnceLock;

pub use rolecall_format::{
    AnswersRule, AssistantRule, BlankSystem, BoundaryToken, CallIds, CallsInReasoning, Choice, CodeResult, Codec,
    Control, ControlId, Defaults, Diagnostic, EndingRule, Field, Fit, Format, FormatPart, Generation, Habits, Header,
    HeaderRule, IdPattern, Identity, InText, Layout, LoadError, LossRule, NameClash, Op, Pattern, Registry,
    ResolveError, RolesRule, Rules, Slot, Step, SystemRule, SystemWhen, SystemWithTools, ToolRule, ToolTexts,
    ToolsPlace, TurnsRule, UsersRule, builtin_sources, codec, corrections, is_clear_tag, load, reply_files,
    reply_format, shared_calls, tag_length, tags, write_reply,
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
/// format is named after the file, or by its whole path if a built-in format has that name. Of a Python file with
/// several templates, `FILE.py:NAME` is one.
///
/// ```
/// let format = rolecall::format::read("folder/mine.json", r#"{"INSTRUCTION": "Q: {input}\nA:"}"#)?;
/// assert_eq!(format.name, "mine");
/// let text = "a = dict(INSTRUCTION='A: {input}')\nb = dict(INSTRUCTION='B: {input}')";
/// let format = rolecall::format::read("folder/mine.py:b", text)?;
/// assert_eq!(format.name, "b");
/// # Ok::<(), rolecall::format::LoadError>(())
/// ```
pub fn read(file: &str, text: &str) -> Result<Format, LoadError> {
    let (path, wanted) = file_of(file);
    let base = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let stem = base.rsplit_once('.');
    let own = wanted.unwrap_or(stem.map_or(base, |(stem, _)| stem));
    let name = if registry().find(own).is_some() { file } else { own };
    match stem {
        Some((_, "json")) => rolecall_interop::import(text, name),
        Some((_, "py")) => rolecall_interop::import_python(text, name, wanted),
        _ if rolecall_interop::is_python(text) => rolecall_interop::import_python(text, name, None),
        _ => load(text),
    }
}

/// Divides what names a format file into the file's path and the name of a template in it: `FILE.py:NAME`.
///
/// ```
/// assert_eq!(rolecall::format::file_of("folder/mine.py:b"), ("folder/mine.py", Some("b")));
/// assert_eq!(rolecall::format::file_of("folder/mine.py"), ("folder/mine.py", None));
/// ```
pub fn file_of(named: &str) -> (&str, Option<&str>) {
    match named.rsplit_once(':') {
        Some((path, name)) if path.ends_with(".py") && !name.is_empty() => (path, Some(name)),
        _ => (named, None),
    }
}

/// Reports whether a text can only name a format file, and no format.
///
/// ```
/// use rolecall::format::is_file;
/// assert!(is_file("mine.toml") && is_file("folder/mine") && is_file("mine.py:b") && !is_file("xtuner:vicuna"));
/// ```
pub fn is_file(named: &str) -> bool {
    let path = Path::new(file_of(named).0);
    let ends = |known: &str| path.extension().is_some_and(|extension| extension == known);
    ["toml", "json", "py"].into_iter().any(ends) || named.contains(std::path::is_separator)
}
