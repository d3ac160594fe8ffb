use std::mem;
use std::ops::Range;

use rolecall_conversation::Tool;

/// The search for a call in the content whose markers were removed or are damaged: one that the content begins with, or
/// a line of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BareCall {
    /// The line so far, if it may begin with a call.
    line: String,
    /// Where each piece of it begins, and at which offset.
    pieces: Vec<(usize, u64)>,
    at: At,
    /// The first call that was found, with its place up to the end of the content.
    found: Option<(Range<u64>, BareName)>,
}

/// The name in a call without its markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BareName {
    pub name: String,
    /// Whether a tool has it.
    pub is_offered: bool,
    /// Whether a key or a bracket stands before it. Without one, an answer may begin with a tool's name.
    pub is_enclosed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// In the first line of the content.
    #[default]
    First,
    /// In another line.
    Line,
    /// In a line that begins with no call.
    Past,
}

/// The number of bytes of a line to look at.
const LONGEST: usize = 256;

/// The words around a tool's name in calls.
const KEYS: &str = "name arguments parameters function functions functools action input type id json tool call calls";

/// The keys of a call's arguments.
const ARGUMENTS: [&str; 3] = ["arguments", "parameters", "input"];

/// The most other words of a damaged marker.
const MOST_UNKNOWN: usize = 2;

impl BareCall {
    /// Adds text of the content.
    pub fn add(&mut self, place: &Range<u64>, text: &str, tools: &[Tool]) {
        if let Some((span, _)) = &mut self.found {
            span.end = place.end;
            return;
        }
        let mut rest = text;
        loop {
            if self.at == At::Past {
                let Some(end) = rest.find('\n') else { return };
                rest = &rest[end + 1..];
                self.at = At::Line;
            }
            self.pieces.push((self.line.len(), place.end.saturating_sub(rest.len() as u64)));
            let room = LONGEST - self.line.len();
            let taken = (0..=room.min(rest.len())).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(0);
            let (now, later) = rest.split_at(taken);
            self.line.push_str(now);
            rest = later;
            match look(&self.line, tools, self.at == At::First) {
                Look::Call(name) => {
                    let blank = self.line.len() - self.line.trim_start().len();
                    self.found = Some((self.offset(blank)..place.end, name));
                    return;
                }
                Look::Open if rest.is_empty() => return,
                Look::Open | Look::Nothing => self.next_line(),
            }
            if rest.is_empty() && self.line.is_empty() {
                return;
            }
        }
    }

    /// Returns the offset of a byte of the line.
    fn offset(&self, at: usize) -> u64 {
        let piece = self.pieces.iter().rev().find(|(start, _)| *start <= at);
        piece.map_or(0, |(start, offset)| offset + (at - start) as u64)
    }

    /// Goes on with the next line, of which the beginning may be known.
    fn next_line(&mut self) {
        let blank = self.line.len() - self.line.trim_start().len();
        let Some(end) = self.line[blank..].find('\n').map(|end| blank + end + 1) else {
            self.at = if blank == self.line.len() { self.at } else { At::Past };
            self.line.clear();
            self.pieces.clear();
            return;
        };
        let first = (0, self.offset(end));
        self.line.drain(..end);
        let later = self.pieces.iter().filter(|(start, _)| *start > end).map(|(start, offset)| (start - end, *offset));
        self.pieces = [first].into_iter().chain(later).collect();
        self.at = At::Line;
    }

    /// Forgets the line, because it is reported.
    pub fn skip_line(&mut self) {
        self.line.clear();
        self.pieces.clear();
        self.at = At::Past;
    }

    /// Ends the content. Returns the call that was found, with its place.
    pub fn end(&mut self) -> Option<(Range<u64>, BareName)> {
        mem::take(self).found
    }
}

/// What a text begins with.
enum Look {
    Call(BareName),
    Nothing,
    /// More text tells.
    Open,
}

/// Looks for a call at the beginning of a text: the tool's name follows only brackets, quotes, the keys of calls and
/// what is left of a marker, and arguments follow the name. A name that no tool has must be in an object with arguments.
fn look(text: &str, tools: &[Tool], is_first: bool) -> Look {
    let mut rest = text.trim_start();
    // An item of a list in Markdown speaks of a tool.
    let is_item = rest.starts_with(['-', '*', '#']);
    if is_item || !is_first && !rest.is_empty() && !rest.starts_with(['{', '[', '<', '(', '"']) {
        return Look::Nothing;
    }
    let is_object = rest.starts_with('{');
    let (mut last, mut key, mut unknown, mut called) = ('\n', "", 0, None::<BareName>);
    loop {
        let start = rest.find(|c: char| c.is_alphanumeric()).unwrap_or(rest.len());
        if let Some(call) = called.take_if(|_| rest[..start].contains(['{', '('])) {
            let has_arguments = ARGUMENTS.contains(&key) && rest[..start].contains('{');
            return if call.is_offered || has_arguments { Look::Call(call) } else { Look::Nothing };
        }
        last = rest[..start].chars().next_back().unwrap_or(last);
        rest = &rest[start..];
        if rest.is_empty() {
            return Look::Open;
        }
        let names = || tools.iter().map(Tool::name).filter(|name| !name.is_empty() && rest.starts_with(name));
        if called.is_none()
            && last != '_'
            && let Some(name) = names().max_by_key(|name| name.len())
            && !rest[name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        {
            let is_enclosed = !key.is_empty() || "[(<>|".contains(last);
            if !is_first && !is_enclosed {
                return Look::Nothing;
            }
            called = Some(BareName { name: name.to_owned(), is_offered: true, is_enclosed });
            (rest, last, key) = (&rest[name.len()..], ' ', "");
            continue;
        }
        if tools.iter().any(|tool| tool.name().starts_with(rest)) {
            return Look::Open;
        }
        if called.is_none() && is_object && key == "name" && last == '"' {
            let Some(end) = rest.find('"') else { return Look::Open };
            called = Some(BareName { name: rest[..end].to_owned(), is_offered: false, is_enclosed: true });
            (rest, last, key) = (&rest[end..], ' ', "");
            continue;
        }
        let Some(end) = rest.find(|c: char| !c.is_alphanumeric()) else { return Look::Open };
        let (word, behind) = rest.split_at(end);
        let known = KEYS.split(' ').find(|key| key.eq_ignore_ascii_case(word));
        if known.is_none() && !word.bytes().all(|byte| byte.is_ascii_digit()) {
            let is_of_marker = "<[|/_".contains(last) || behind.starts_with(['>', ']', '|', '_', '[']);
            unknown += 1;
            if !is_first || called.is_some() || !is_of_marker || unknown > MOST_UNKNOWN {
                return Look::Nothing;
            }
        }
        key = known.unwrap_or_default();
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::{Tool, json};

    use super::BareCall;

    fn found(pieces: &[&str]) -> Option<(u64, u64)> {
        let tool = json::parse(r#"{"type": "function", "function": {"name": "get_weather"}}"#).expect("it is JSON");
        let tools = [Tool::from_json(tool).expect("a tool")];
        let (mut search, mut start) = (BareCall::default(), 0);
        for piece in pieces {
            let end = start + piece.len() as u64;
            search.add(&(start..end), piece, &tools);
            start = end;
        }
        search.end().map(|(span, _)| (span.start, span.end))
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
            (r#"{"name": "no tool", "parameters": {}}"#, Some(0)),
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
