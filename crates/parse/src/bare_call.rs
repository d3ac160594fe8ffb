use std::mem;
use std::ops::Range;

use rolecall_conversation::Tool;

use crate::named_arguments::NamedArguments;
use crate::offsets::Offsets;

/// The search for a call in the content whose markers were removed or are damaged: one that the content begins with, or
/// a line of it, or whose arguments tell which tool it calls.
///
/// A line is judged once, when as much of it and of what follows is known as can matter, so that every chunking gives
/// the same result.
#[derive(Clone, Debug, Default)]
pub(crate) struct BareCall {
    /// The line and what follows it, if it may begin with a call.
    line: String,
    /// Where it stands in the output.
    offsets: Offsets,
    at: BareCallState,
    /// Whether the line is in a block of code in Markdown.
    is_code: bool,
    /// The first call that was found, with the offset at which it begins.
    found: Option<(u64, BareName)>,
    /// The offset of the end of the content.
    end: u64,
    /// The names of the tools, once a line was judged.
    names: Vec<Box<str>>,
    /// The search for one that begins anywhere.
    named: NamedArguments,
}

/// The name in a call without its markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BareName {
    pub name: String,
    pub kind: BareKind,
    /// Whether a key or a bracket stands before it. Without one, an answer may begin with a tool's name.
    pub is_enclosed: bool,
}

/// What is wrong with a call without its markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BareKind {
    /// Only its markers are missing.
    Unmarked,
    /// No tool has its name.
    UnknownTool,
    /// The content ends before its arguments.
    Cut,
}

impl BareName {
    /// Returns the name of a tool.
    fn offered(name: &str, is_enclosed: bool) -> BareName {
        BareName { name: name.to_owned(), kind: BareKind::Unmarked, is_enclosed }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BareCallState {
    /// In the first line of the content.
    #[default]
    First,
    /// In another line.
    Line,
    /// In a line that begins with no call.
    Past,
}

/// The number of bytes to look at from the beginning of a line.
const LONGEST: usize = 256;

/// The words around a tool's name in calls.
const KEYS: &str = "name arguments parameters function functions functools action input type id json tool call calls";

/// The keys of a call's arguments.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

/// The most words of a call before its arguments, but for the name, and the most of them that are words of a damaged
/// marker, or numbers.
const MOST_WORDS: usize = 12;
const MOST_UNKNOWN: usize = 2;

/// The signs with which a call begins in a line of an answer.
const SIGNS: [char; 5] = ['{', '[', '<', '(', '"'];

impl BareCall {
    /// Adds text of the content.
    pub fn add(&mut self, place: &Range<u64>, text: &str, tools: &[Tool]) {
        self.end = place.end;
        self.named.add(place.end, text, tools);
        let mut rest = text;
        while !rest.is_empty() && self.found.is_none() {
            if self.at == BareCallState::Past {
                let Some(end) = rest.find('\n') else { return };
                rest = &rest[end + 1..];
                self.at = BareCallState::Line;
            }
            self.offsets.add(self.line.len(), place.end.saturating_sub(rest.len() as u64));
            let room = LONGEST - self.line.len();
            let taken = (0..=room.min(rest.len())).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(0);
            let (now, later) = rest.split_at(taken);
            self.line.push_str(now);
            rest = later;
            if !rest.is_empty() {
                // As much is known as can matter.
                self.judge(tools);
            }
            while rest.is_empty() && self.found.is_none() && self.begins_otherwise() {
                self.judge(tools);
            }
        }
    }

    /// Reports whether the first sign of a line tells that no call begins there, nor a block of code.
    fn begins_otherwise(&self) -> bool {
        let first = self.line.chars().find(|c| !c.is_whitespace());
        self.at == BareCallState::Line && first.is_some_and(|first| first != '`' && !SIGNS.contains(&first))
    }

    /// Judges the line, and goes on with the next one unless it is a call.
    fn judge(&mut self, tools: &[Tool]) {
        let blank = self.line.len() - self.line.trim_start().len();
        if self.line[blank..].starts_with("```") {
            self.is_code = !self.is_code;
        } else if !self.is_code {
            if self.names.is_empty() {
                let names = tools.iter().map(Tool::name).filter(|name| !name.is_empty());
                self.names = names.map(Box::from).collect();
            }
            if let Some(name) = call_in(&self.line[blank..], &self.names, self.at == BareCallState::First) {
                self.found = Some((self.offsets.offset(blank), name));
                return;
            }
        }
        self.next_line(blank);
    }

    /// Goes on with the next line, of which the beginning may be known. This one begins with white space.
    fn next_line(&mut self, blank: usize) {
        let Some(end) = self.line[blank..].find('\n').map(|end| blank + end + 1) else {
            self.at = if blank == self.line.len() { self.at } else { BareCallState::Past };
            self.line.clear();
            self.offsets.clear();
            return;
        };
        self.line.drain(..end);
        self.offsets.cut(end);
        self.at = BareCallState::Line;
    }

    /// Forgets the line, because it is reported. Those before it are judged.
    pub fn skip_line(&mut self, tools: &[Tool]) {
        while self.found.is_none() && self.line.trim_start().contains('\n') {
            self.judge(tools);
        }
        self.line.clear();
        self.offsets.clear();
        self.at = BareCallState::Past;
        self.named.skip_line();
    }

    /// Ends the content. Returns the call that was found, with its place up to the end of the content.
    pub fn end(&mut self, tools: &[Tool]) -> Option<(Range<u64>, BareName)> {
        while self.found.is_none() && !self.line.is_empty() {
            self.judge(tools);
        }
        let BareCall { found, end, named, .. } = mem::take(self);
        let whole = || named.found().map(|(start, name)| (start, BareName::offered(name, true)));
        let cut = || {
            let (start, name) = named.cut(tools)?;
            Some((start, BareName { kind: BareKind::Cut, ..BareName::offered(&name, true) }))
        };
        found.or_else(whole).or_else(cut).map(|(start, name)| (start..end, name))
    }
}

/// Returns the call that a text begins with: the tool's name follows only brackets, quotes, the keys of calls and what
/// is left of a marker, and arguments follow the name. A name that no tool has must be in an object with arguments with
/// which the answer begins.
fn call_in(text: &str, offered: &[Box<str>], is_first: bool) -> Option<BareName> {
    // An item of a list in Markdown speaks of a tool.
    if text.starts_with(['-', '*', '#']) || !is_first && !text.starts_with(SIGNS) {
        return None;
    }
    let is_object = text.starts_with('{');
    let (mut rest, mut last, mut key, mut called) = (text, '\n', "", None::<BareName>);
    let (mut unknown, mut numbers, mut has_arguments) = (0, 0, false);
    for _ in 0..=MOST_WORDS {
        let start = rest.find(|c: char| c.is_alphanumeric()).unwrap_or(rest.len());
        let between = &rest[..start];
        if let Some(call) = called.take_if(|_| between.contains('{')) {
            // What has a type is the definition of a tool.
            let is_schema = rest[start..].starts_with("type\"");
            let is_call = call.kind == BareKind::Unmarked || ARGUMENTS.contains(&key);
            return (is_call && !is_schema).then_some(call);
        }
        if let Some(open) = between.find('{').filter(|_| called.is_none() && ARGUMENTS.contains(&key)) {
            // The arguments stand before the name.
            let arguments = &rest[open..];
            let is_schema = arguments.trim_start_matches(['{', '"', ' ', '\n']).starts_with("type\"");
            let end = end_of_object(arguments).filter(|_| !is_schema)?;
            (rest, last, key, has_arguments) = (&arguments[end..], '}', "", true);
            continue;
        }
        last = between.chars().next_back().unwrap_or(last);
        rest = &rest[start..];
        let names = || offered.iter().filter(|name| rest.starts_with(&***name));
        if called.is_none()
            && last != '_'
            && let Some(name) = names().max_by_key(|name| name.len())
            && !rest[name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        {
            let is_enclosed = !key.is_empty() || "[(".contains(last);
            if !is_first && !is_enclosed {
                return None;
            }
            let call = BareName::offered(name, is_enclosed);
            rest = &rest[name.len()..];
            if has_arguments {
                return Some(call);
            }
            if let Some(inside) = rest.strip_prefix('(') {
                return begins_keywords(inside).then_some(call);
            }
            (called, last, key) = (Some(call), ' ', "");
            continue;
        }
        if called.is_none() && is_first && is_object && key == "name" && last == '"' {
            let end = rest.find('"').filter(|end| !rest[..*end].contains(char::is_whitespace))?;
            let call = BareName { kind: BareKind::UnknownTool, ..BareName::offered(&rest[..end], true) };
            if has_arguments {
                return Some(call);
            }
            called = Some(call);
            (rest, last, key) = (&rest[end..], ' ', "");
            continue;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric())?;
        let (word, behind) = rest.split_at(end);
        let known = KEYS.split(' ').find(|key| key.eq_ignore_ascii_case(word));
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        numbers += usize::from(is_number);
        if numbers > MOST_UNKNOWN {
            return None;
        }
        let is_id = key == "id" && last == '"';
        if known.is_none() && !is_number && !is_id {
            let is_of_marker = "<[|/_".contains(last) || behind.starts_with(['>', ']', '|', '_', '[']);
            unknown += 1;
            if !is_first || called.is_some() || !is_of_marker || unknown > MOST_UNKNOWN {
                return None;
            }
        }
        key = known.unwrap_or_default();
        rest = behind;
    }
    None
}

/// Returns the end of the JSON object that a text begins with.
fn end_of_object(text: &str) -> Option<usize> {
    let (mut depth, mut is_text, mut is_escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' if !is_text => depth += 1,
            b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Reports whether keyword arguments in Python follow, or the end of none.
fn begins_keywords(text: &str) -> bool {
    let text = text.trim_start();
    let word = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.starts_with(')') || word > 0 && text[word..].trim_start().starts_with('=')
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::{Tool, json};

    use super::BareCall;

    fn found(pieces: &[&str]) -> Option<(u64, u64)> {
        let tools = ["get_weather", "get", "in", "call", "files", "files.read.all"].map(|name| {
            let text = format!(r#"{{"type": "function", "function": {{"name": "{name}"}}}}"#);
            Tool::from_json(json::parse(&text).expect("it is JSON")).expect("a tool")
        });
        let (mut search, mut start) = (BareCall::default(), 0);
        for piece in pieces {
            let end = start + piece.len() as u64;
            search.add(&(start..end), piece, &tools);
            start = end;
        }
        search.end(&tools).map(|(span, _)| (span.start, span.end))
    }

    #[test]
    fn a_call_without_its_markers_is_found_however_the_content_is_cut() {
        let long = "x".repeat(300);
        for (text, at) in [
            (r#"{"name": "get_weather", "arguments": {"city": "Oslo"}}"#, Some(0)),
            (r#"{"name" "get_weather", "parameters": {}}"#, Some(0)),
            (r#"TOOL_CALLS][{"name": "get_weather", "arguments": {}}]"#, Some(0)),
            (r#"[TOL_CALS][{"name": "get_weather", "arguments": {}}]"#, Some(0)),
            ("Let me look.\n\n{\n  \"name\": \"get_weather\",\n  \"arguments\": {}\n}", Some(14)),
            ("{\"a\": 1}\n[get_weather(city=\"Oslo\")]", Some(9)),
            (&format!("{long}\n{long}\n[get_weather()]"), Some(602)),
            (r#"{"name": "no_tool", "parameters": {}}"#, Some(0)),
            (r#"{"arguments": {"city": "a } \" b"}, "name": "get_weather"}"#, Some(0)),
            ("Ok:\n{\n  \"parameters\": {},\n  \"name\": \"get_weather\"\n}", Some(4)),
            (r#"{"arguments": {"a": {"b": 1}}, "name": "no_tool"}"#, Some(0)),
            (r#"[{"id": "call00001", "name": "get_weather", "arguments": {}}]"#, Some(0)),
            (r#"{"parameters": {"type": "object"}, "name": "get_weather"}"#, None),
            (r#"{"arguments": {"city": "Oslo"}, "by": "get_weather"}"#, None),
            (r#"{"arguments": {"city": "Oslo""#, None),
            (r#"{"name": "no tool", "parameters": {}}"#, None),
            (r#"[files.read.all(city="Oslo")]"#, Some(0)),
            ("Ok:\n{\"input\": {\"name\": \"in\", \"arguments\": {}}}", Some(4)),
            ("Ok:\n{\"calls\": [{\"name\": \"get_weather\", \"arguments\": {}}]}", Some(4)),
            ("See:\n[get_weather](https://docs.example/get_weather) tells.", None),
            ("So:\n```json\n{\"name\": \"get_weather\", \"arguments\": {}}\n```\n", None),
            ("So:\n```\nx\n```\n{\"name\": \"get_weather\", \"arguments\": {}}\n", Some(14)),
            ("[get_weather(c) for c in cities]", None),
            ("Yes:\n(get_weather (see above) tells it.)", None),
            (r#"{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}"#, None),
            (r#"{"name": "Oslo", "type": "city", "arguments": {}}"#, None),
            (r#"{"name": "Oslo", "age": 3}"#, None),
            (r#"{"name": "Oslo", "id": {"arguments": {}}}"#, None),
            ("So:\n{}\nget_weather({})", None),
            ("< get_weather\n< get_weather({})", None),
            ("get_weather is one of my tools (the best)", None),
            ("- get_weather(city): the weather\n", None),
            ("I can\n- get_weather(city): the weather\n", None),
            ("{\"name\": \"get_weather_now\", \"arguments\": {}}", Some(0)),
            ("The name of the tool is get_weather({})", None),
        ] {
            let want = at.map(|at| (at, text.len() as u64));
            assert_eq!(found(&text.split_inclusive(|_| true).collect::<Vec<_>>()), want, "{text}");
            for cut in 0..=text.len() {
                assert_eq!(found(&[&text[..cut], &text[cut..]]), want, "{text} cut at {cut}");
            }
        }
    }
}
