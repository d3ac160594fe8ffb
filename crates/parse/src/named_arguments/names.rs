//! The names of tools at the end of a text, in front of arguments.

use std::ops::Range;

use rolecall_conversation::Tool;

/// A tool's name in front of arguments.
#[derive(Clone, Debug)]
pub(super) struct NameBefore {
    pub name: String,
    /// The bytes from the name to the arguments.
    pub length: usize,
    /// Whether an object without a key is one of arguments, too.
    pub may_be_empty: bool,
    /// Whether the arguments are keywords in Python.
    pub is_python: bool,
}

/// The names of the tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'t> {
    pub tools: &'t [Tool],
    pub ends: Ends,
}

/// The bytes with which names end, a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends([u64; 4]);

impl Ends {
    pub fn of(tools: &[Tool]) -> Ends {
        let mut ends = Ends::default();
        for last in tools.iter().filter_map(|tool| tool.name().bytes().last()) {
            ends.0[usize::from(last / 64)] |= 1 << (last % 64);
        }
        ends
    }

    fn has(self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }
}

/// The bytes of an id that is not divided from the name before it.
const IDS: Range<usize> = 6..48;

/// The fewest bytes of a name that may follow a letter, because a marker between them is gone.
const DISTINCT: usize = 6;

/// The keys of a call's arguments, and of its name.
const KEYS: [&str; 6] = ["arguments", "parameters", "input", "args", "params", "action_input"];
const NAMES: [&str; 5] = ["name", "function", "tool", "action", "tool_name"];

impl NameBefore {
    /// A name that ends with the beginning of a text.
    fn new(text: &str, name: &str, end: usize) -> NameBefore {
        let length = text.len() - (end - name.len());
        NameBefore { name: name.to_owned(), length, may_be_empty: false, is_python: false }
    }
}

/// Returns the name of a tool at the end of a text in front of an object. The text may be all of the content.
///
/// What an honest answer has is none: a key of JSON, a call in JavaScript, a heading with a block of code.
pub(super) fn before_object(text: &str, is_all: bool, names: Names<'_>) -> Option<NameBefore> {
    let kept = text.trim_end();
    if let Some(rest) = kept.strip_suffix(':') {
        let key = rest.trim_end().strip_suffix('"')?;
        let rest = KEYS.iter().find_map(|word| key.strip_suffix(word)?.strip_suffix('"'))?;
        let quoted = rest.trim_end().strip_suffix(',')?.trim_end().strip_suffix('"')?;
        let name = names.ending(quoted)?;
        let before = quoted[..quoted.len() - name.len()].trim_end_matches("functions.");
        let key = before.strip_suffix('"')?.trim_end().strip_suffix(':')?.trim_end().strip_suffix('"')?;
        NAMES.iter().find(|word| key.strip_suffix(**word).is_some_and(|rest| rest.ends_with('"')))?;
        return Some(NameBefore { may_be_empty: true, ..NameBefore::new(text, name, quoted.len()) });
    }
    if let Some(rest) = kept.strip_suffix('(') {
        let name = names.ending(rest)?;
        return rest[..rest.len() - name.len()].ends_with('[').then(|| NameBefore::new(text, name, rest.len()));
    }
    if let Some(rest) = fence(kept) {
        let name = names.ending(rest)?;
        return is_glued(&rest[..rest.len() - name.len()], is_all).then(|| NameBefore::new(text, name, rest.len()));
    }
    if kept.len() < text.len() {
        // The name is a line of its own, or a marker before it is gone.
        let name = names.ending(kept).filter(|name| is_distinct(name) && &text[kept.len()..] == "\n")?;
        let before = &kept[..kept.len() - name.len()];
        return (before.ends_with('\n') || is_glued(before, is_all)).then(|| NameBefore::new(text, name, kept.len()));
    }
    // The words of a header that is gone may stand between them.
    let rest = kept.strip_suffix(" json").or_else(|| kept.strip_suffix(" code")).unwrap_or(kept);
    if let Some(name) = names.ending(rest) {
        return Some(NameBefore::new(text, name, rest.len()));
    }
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let word = &rest[rest.trim_end_matches(is_of_id).len()..];
    let short = word.rfind(':').map(|colon| word.len() - colon);
    let begins =
        |length: &usize| word[word.len() - length..].starts_with(|c: char| c == ':' || c.is_ascii_alphanumeric());
    let lengths = short.into_iter().chain(IDS).filter(|length| *length < word.len()).filter(begins);
    let ended = |length| Some((names.ending(&word[..word.len() - length])?, length));
    let (name, length) = { lengths }.find_map(ended)?;
    Some(NameBefore::new(text, name, rest.len() - length))
}

/// Returns the name of a tool at the end of a text in front of keyword arguments in Python: one in a list of calls, or
/// one with a block of code in which a function is called.
pub(super) fn before_keyword(text: &str, is_all: bool, is_code: bool, names: Names<'_>) -> Option<NameBefore> {
    let end = match is_code {
        true => {
            let function = text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
            function.trim_end().strip_suffix("```python")?.trim_end()
        }
        false => text,
    };
    let name = names.ending(end)?;
    let before = &end[..end.len() - name.len()];
    let is_call = match is_code {
        true => before.ends_with(':') || is_glued(before, is_all),
        false => before.ends_with('[') || before.trim_end().ends_with("),") && is_distinct(name),
    };
    is_call.then(|| NameBefore { is_python: true, ..NameBefore::new(text, name, end.len()) })
}

/// Reports whether a name behind this text follows it without a space, as one does whose marker is gone, or begins the
/// content. Signs of Markdown and of a path are no words.
fn is_glued(before: &str, is_all: bool) -> bool {
    let is_word = |c: char| !c.is_whitespace() && !matches!(c, '#' | '*' | '/' | '-' | ':' | '|');
    match before.chars().next_back() {
        None => is_all,
        Some('`') => before.ends_with("```"),
        Some(last) => is_word(last),
    }
}

/// Reports whether a name is no word of a language.
fn is_distinct(name: &str) -> bool {
    let is_sign = |c: char| !c.is_alphabetic() || c.is_uppercase();
    name.chars().skip(1).any(is_sign)
}

/// Returns the text in front of the sign with which a block of JSON begins.
pub(super) fn fence(text: &str) -> Option<&str> {
    text.strip_suffix("```json").or_else(|| text.strip_suffix("```")).map(str::trim_end)
}

impl<'t> Names<'t> {
    /// Returns the longest name with which a text ends.
    fn ending(self, text: &str) -> Option<&'t str> {
        text.bytes().last().filter(|last| self.ends.has(*last))?;
        let names = self.tools.iter().map(Tool::name).filter(|name| !name.is_empty() && text.ends_with(name));
        let name = names.max_by_key(|name| name.len())?;
        let before = text[..text.len() - name.len()].chars().next_back();
        let is_apart = before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
            || text[..text.len() - name.len()].ends_with("function");
        (is_apart || name.len() >= DISTINCT && before != Some('_')).then_some(name)
    }
}

/// Returns the name of the tool in an object of a call that ends before its arguments, and where the name begins.
pub(super) fn cut_json(text: &str, tools: &[Tool]) -> Option<(String, usize)> {
    const NAME: &str = "\"name\"";
    let key = &text[text.rfind(NAME)? + NAME.len()..];
    let quoted = key.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let start = text.len() - quoted.len();
    let (name, behind) = match quoted.split_once('"') {
        Some((name, behind)) => (tools.iter().map(Tool::name).find(|tool| *tool == name)?, behind),
        // Some letters of the name may be missing.
        None if quoted.is_empty() => return None,
        None => (tools.iter().map(Tool::name).find(|tool| tool.starts_with(quoted))?, ""),
    };
    begins_arguments(behind).then(|| (name.to_owned(), start))
}

/// Reports whether a text behind the name in a call ends before the value of its arguments.
fn begins_arguments(text: &str) -> bool {
    let mut rest = text.trim_start();
    for sign in [',', '"'] {
        if rest.is_empty() {
            return true;
        }
        let Some(behind) = rest.strip_prefix(sign) else { return false };
        rest = behind.trim_start();
    }
    KEYS.iter().any(|key| {
        let end = |rest: &str| rest.strip_prefix('"').is_some_and(|rest| matches!(rest.trim(), "" | ":"));
        key.starts_with(rest) || rest.strip_prefix(key).is_some_and(end)
    })
}

/// Returns the name of the tool in a list of calls in Python that ends before its first argument's value.
pub(super) fn cut_python(text: &str, names: Names<'_>) -> Option<(String, usize)> {
    let keyword = text.strip_suffix('=').unwrap_or(text).trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
    let rest = keyword.strip_suffix('(')?;
    let name = names.ending(rest)?;
    let start = rest.len() - name.len();
    rest[..start].ends_with('[').then(|| (name.to_owned(), start))
}
