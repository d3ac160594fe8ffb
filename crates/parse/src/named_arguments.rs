//! The search in content for a call without its markers that stands anywhere in a line.

mod names;

use rolecall_conversation::{Json, Tool, json};

use crate::offsets::Offsets;
use crate::tail::{KEPT, Tail, last};
use crate::values::Schema;

use names::{Ends, NameBefore, Names, before_keyword, before_object, cut_json, cut_python, fence};

/// The search in content for the name of a tool, and behind it arguments with one of its parameters.
///
/// It takes what an engine leaves of any layout's call when it removes control tokens:
/// `{"name": "f", "arguments": {`, `f{`, `functionf` with a block of JSON, a name with an id, or `[f(x=`.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedArguments {
    /// The end of the content so far.
    tail: Tail,
    /// The number of bytes of the content, and where it stands in the output.
    length: usize,
    offsets: Offsets,
    /// Arguments behind the name of a tool, up to the first key.
    open: Option<OpenArguments>,
    /// Whether the content is in a block of code in Markdown.
    is_code: bool,
    /// Whether the rest of the line is not searched.
    skips: bool,
    /// Whether the line has an open backtick.
    is_quoted: bool,
    /// Whether a call was found that a sentence follows, or what may be another call.
    follows_call: bool,
    /// The call that was found.
    found: Option<UnmarkedCall>,
    /// How the names of the tools end, once there was a text.
    ends: Option<Ends>,
}

/// A call without its markers, and what follows it.
#[derive(Clone, Debug)]
struct UnmarkedCall {
    name: String,
    /// The offset of the name.
    at: u64,
    /// The brackets of its arguments that are open.
    open: usize,
    /// The quotes that a text in the arguments begins with.
    quotes: Option<char>,
    is_escaped: bool,
    behind: Behind,
}

/// What follows the arguments of a call, apart from signs that close something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    WhiteSpace,
    Comma,
    /// Another key of the same object, another call, or a marker.
    Call,
}

#[derive(Clone, Debug)]
struct OpenArguments {
    before: NameBefore,
    /// The offset of the name.
    at: u64,
    /// Whether a call comes before it, so that it needs no arguments to be one.
    follows_call: bool,
    /// The arguments without their first bracket.
    arguments: String,
}

/// The most bytes of arguments up to the end of their first key.
const LONGEST: usize = 128;

impl NamedArguments {
    /// Adds text of the content, which ends at an offset.
    pub fn add(&mut self, end: u64, text: &str, tools: &[Tool]) {
        self.offsets.add(self.length, end.saturating_sub(text.len() as u64));
        let ends = *self.ends.get_or_insert_with(|| Ends::of(tools));
        let names = Names { tools, ends };
        let (mut at, mut pushed) = (0, 0);
        while let Some(next) = text[at..].chars().next() {
            if let Some(found) = &mut self.found {
                if found.takes(next) {
                    at += next.len_utf8();
                    continue;
                }
                // A sentence goes on, which speaks of a call. A block of code around it has ended.
                (self.found, self.is_code, self.follows_call) = (None, false, true);
            }
            if let Some(open) = self.open.take()
                && self.goes_on(open, next, tools)
            {
                at += next.len_utf8();
                continue;
            }
            let is_sign = |byte: &u8| matches!(byte, b'{' | b'(' | b'`' | b'\n');
            let Some(plain) = text.as_bytes()[at..].iter().position(is_sign) else { break };
            let sign = text.as_bytes()[at + plain];
            at += plain + 1;
            if sign == b'\n' {
                (self.skips, self.is_quoted) = (false, false);
                continue;
            }
            // What comes before the sign, or up to its end.
            let to = if sign == b'`' { at } else { at - 1 };
            if to < KEPT {
                self.tail.push(&text[pushed..to]);
                pushed = to;
            }
            let near = if to < KEPT { self.tail.text() } else { last(&text[..to]) };
            let is_all = near.len() == self.length + to;
            if sign == b'`' {
                self.is_code ^= is_fence(near, is_all);
                // Three of them are no quote.
                self.is_quoted ^= !near.ends_with("```");
            } else if !self.skips && !self.is_quoted {
                let before = match sign {
                    b'{' if self.is_code != fence(near.trim_end()).is_some() => None,
                    b'{' => before_object(near, is_all, names),
                    _ => before_keyword(near, is_all, self.is_code, names),
                };
                self.open = before.map(|before| OpenArguments {
                    at: self.offsets.offset(self.length + to - before.length),
                    before,
                    follows_call: self.follows_call,
                    arguments: String::new(),
                });
            }
        }
        self.tail.push(&text[pushed..]);
        self.length += text.len();
    }

    /// Goes on with arguments by a character, if they may be those of the tool.
    fn goes_on(&mut self, mut open: OpenArguments, next: char, tools: &[Tool]) -> bool {
        open.arguments.push(next);
        let is_call = open.is_call(tools);
        if is_call == Some(false) || open.arguments.len() > LONGEST {
            return false;
        }
        match is_call {
            Some(_) => {
                let OpenArguments { before, at, arguments, .. } = open;
                let mut found = UnmarkedCall::new(before.name, at);
                arguments.chars().for_each(|c| _ = found.takes(c));
                self.found = Some(found);
            }
            None => self.open = Some(open),
        }
        true
    }

    /// Forgets what the line has so far, and the rest of it.
    pub fn skip_line(&mut self) {
        (self.open, self.skips) = (None, true);
        self.tail.push("\0");
        self.length += 1;
    }

    /// Returns the name of the tool in the call that was found, with its offset.
    pub fn found(&self) -> Option<(u64, &str)> {
        self.found.as_ref().map(|found| (found.at, found.name.as_str()))
    }

    /// Returns the name of the tool whose call the content ends in before its arguments, with its offset.
    pub fn cut(&self, tools: &[Tool]) -> Option<(u64, String)> {
        if let Some(open) = &self.open {
            return Some((open.at, open.before.name.clone()));
        }
        if self.found.is_some() || self.is_code || self.is_quoted || self.skips {
            return None;
        }
        let text = self.tail.text();
        let names = Names { tools, ends: self.ends? };
        let (name, start) = cut_json(text, tools).or_else(|| cut_python(text, names))?;
        Some((self.offsets.offset(self.length - (text.len() - start)), name))
    }
}

/// Reports whether a content ends with the sign of a block of code at the beginning of a line, of a quotation or of an
/// item of a list. Its end may be all of it.
fn is_fence(end: &str, is_all: bool) -> bool {
    end.strip_suffix("```").is_some_and(|before| {
        let line = before.trim_end_matches(|c: char| " \t>-*+.".contains(c) || c.is_ascii_digit());
        line.ends_with('\n') || line.is_empty() && is_all
    })
}

impl UnmarkedCall {
    fn new(name: String, at: u64) -> UnmarkedCall {
        UnmarkedCall { name, at, open: 1, quotes: None, is_escaped: false, behind: Behind::Nothing }
    }

    /// Takes the next character of the arguments or behind them, unless it belongs to a sentence.
    fn takes(&mut self, next: char) -> bool {
        if self.open == 0 {
            self.behind = match (self.behind, next) {
                (Behind::Call, _) | (Behind::Comma, '"') | (_, '{' | '[' | '<') => Behind::Call,
                (_, ',') => Behind::Comma,
                (behind, '}' | ']' | ')' | '"' | '\'' | '`' | ';' | '.') => behind,
                (Behind::Comma, _) if next.is_whitespace() => Behind::Comma,
                _ if next.is_whitespace() => Behind::WhiteSpace,
                (Behind::Nothing, _) => Behind::Call,
                _ => return false,
            };
            return true;
        }
        match (self.quotes, next) {
            _ if self.is_escaped => self.is_escaped = false,
            (Some(_), '\\') => self.is_escaped = true,
            (Some(quotes), _) => self.quotes = self.quotes.filter(|_| next != quotes),
            (None, '"' | '\'') => self.quotes = Some(next),
            (None, '{' | '[' | '(') => self.open += 1,
            (None, '}' | ']' | ')') => self.open -= 1,
            _ => {}
        }
        true
    }
}

impl OpenArguments {
    /// Reports whether the arguments have a parameter of the tool. Returns `None` if they do not tell yet.
    fn is_call(&self, tools: &[Tool]) -> Option<bool> {
        let arguments = self.arguments.trim_start();
        if self.before.is_python {
            let end = arguments.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            let behind = arguments[end..].trim_start();
            let mut signs = behind.chars();
            return match (end, signs.next()) {
                (0, first) => Some(self.follows_call && first == Some(')')),
                (_, None) => None,
                (_, Some('=')) => signs.find(|next| !next.is_whitespace()).map(|next| {
                    let is_literal = next.is_ascii_digit() || "\"'-[{TFN".contains(next);
                    is_literal && self.has_parameter(&arguments[..end], tools)
                }),
                _ => Some(false),
            };
        }
        let first = arguments.chars().next()?;
        if first != '"' {
            return Some((self.before.may_be_empty || self.follows_call) && first == '}');
        }
        let mut is_escaped = false;
        let is_end = |byte: u8| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        };
        let end = 1 + arguments[1..].bytes().position(is_end)?;
        if arguments[end + 1..].trim_start().chars().next()? != ':' {
            return Some(false);
        }
        let Ok(Json::String(key)) = json::parse(&arguments[..=end]) else { return Some(false) };
        // What has a type may be the definition of a tool.
        let is_schema = self.before.may_be_empty && key == "type";
        Some(!is_schema && self.has_parameter(&key, tools))
    }

    /// Reports whether the tool has a parameter, or has no list of them.
    fn has_parameter(&self, key: &str, tools: &[Tool]) -> bool {
        Schema::of_function(tools, &self.before.name)
            .is_none_or(|schema| schema.property(key).is_some() || schema.keyword("properties").is_none())
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::{Tool, json};

    use super::NamedArguments;

    fn tools() -> Vec<Tool> {
        let tool = |text| Tool::from_json(json::parse(text).expect("it is JSON")).expect("a tool");
        [
            r#"{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {}}}}}"#,
            r#"{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {"type": {}}}}}"#,
            r#"{"type": "function", "function": {"name": "any"}}"#,
        ]
        .map(tool)
        .into()
    }

    fn ended(pieces: &[&str]) -> NamedArguments {
        let (mut search, mut end) = (NamedArguments::default(), 0);
        for piece in pieces {
            end += piece.len() as u64;
            search.add(end, piece, &tools());
        }
        search
    }

    /// Asserts where a name is found and where a cut begins, however the text is divided.
    fn expect(text: &str, at: Option<usize>, cut: Option<usize>) {
        let places = |search: NamedArguments| {
            let found = search.found().map(|(at, _)| at as usize);
            (found, search.cut(&tools()).map(|(at, _)| at as usize))
        };
        assert_eq!(places(ended(&text.split_inclusive(|_| true).collect::<Vec<_>>())), (at, cut), "{text}");
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert_eq!(places(ended(&[&text[..end], &text[end..]])), (at, cut), "{text} cut at {end}");
        }
    }

    #[test]
    fn a_name_with_arguments_is_found_anywhere_in_a_line() {
        for (text, at) in [
            (r#"Sure! {"name": "get_weather", "arguments": {"city": "Oslo"}}"#, 16),
            (r#"Sure! {"name": "any", "parameters": {}}"#, 16),
            (r#"Suré{"name": "get", "arguments": {"type": 1}}"#, usize::MAX),
            (r#"Sureget_weather{"city": "Oslo"}"#, 4),
            (r#"get_weatherabcdefghi{"city": "Oslo"}"#, 0),
            (r#"Okay. functions.get_weather:0{"city": "Oslo"}"#, 16),
            ("Okayfunctionget_weather\n```json\n{\"city\": \"Oslo\"}\n```", 12),
            ("So\n```\nx\n```\nget_weather\n{\n  \"city\" : 1", 13),
            (r#"Sure[any(), get_weather(city="Oslo")]"#, 12),
            (r#"Sure[get_weather({"city": "Oslo"})]"#, 5),
            (r#"Sure[any(x_1 = "Oslo")]"#, 5),
            (r#"Sure[any(x_1 = "Oslo"), get_weather()]"#, 24),
            (r#"So to=functions.get_weathercommentary json{"city": "Oslo"}"#, 16),
            ("Yes.get_weather\n```python\ntool_call(city='Oslo')\n```", 4),
            ("Yes:get_weather\n```python\ntool_call(city='Oslo')\n```", 4),
            ("\"Yes\"get_weather\n```python\ntool_call(city='Oslo')\n```", 5),
            (r#"Ok: any{"a\"b": 1}"#, 4),
            (r#"{"a": "b"}; get_weather{"city": 1}get_weather{"city": 2}."#, 12),
            (r#"any{"a": 1} is not it, but get_weather{"city": 1}"#, 27),
            ("functionany\n```json\n{\"a\": 1}\n```\nfunctionget_weather\n```json\n{}\n```", 41),
            ("functionget\n```json\n{\"type\": 1}\n```", 8),
            (r#"Ok: any{"a": "b"#, 4),
            (r#"Ok: any{"a": {"}": ["#, 4),
            (r#"Ok: any{"a": "} it is."}get_weather{"city": 1}"#, 4),
        ] {
            expect(text, Some(at).filter(|at| *at < usize::MAX), None);
        }
    }

    #[test]
    fn a_name_within_which_the_output_has_a_marker_begins_where_its_first_letter_stands() {
        let mut search = NamedArguments::default();
        search.add(10, "So get_we", &tools());
        search.add(45, "ather{\"city\": 1}", &tools());
        assert_eq!(search.found(), Some((4, "get_weather")));
        search.add(90, ". It is.\n[get_weather(", &tools());
        assert_eq!(search.cut(&tools()).map(|(at, _)| at), Some(78));
    }

    #[test]
    fn other_objects_are_none() {
        let spaces = " ".repeat(200);
        for text in [
            r#"You can use get_weather with {"city": "Oslo"}"#,
            r#"The arguments of get_weather: {"city": "Oslo"}"#,
            r#"`get_weather {"city": "Oslo"}` does it"#,
            "So:\n```\nget_weather{\"city\": \"Oslo\"}\n```\n",
            "So:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": 1}}\n```\n",
            r#"I have {"name": "get_weather", "parameters": {"type": "object"}}"#,
            r#"{"name": "get_weather", "parameters": {"other": 1}}"#,
            r#"I would call {"name": "get_weather", "arguments": {"city": "Oslo"}} for that."#,
            r#"my_get_weather{"city": "Oslo"}"#,
            r#"get_weather_now {"city": "Oslo"}"#,
            r#"budget{"type": 1}"#,
            r#"get_weather{city}"#,
            r#"get_weather{"city"}"#,
            r#"get_weather{}"#,
            r#"You can call get_weather(city="Oslo")"#,
            r#"I call get_weather({"city": "Oslo"})"#,
            r#"{"get_weather": {"city": "Oslo"}}"#,
            "### get_weather\n```json\n{\"city\": \"Oslo\"}\n```",
            "An example for get_weather:\n\n```json\n{\"city\": \"Oslo\"}\n```",
            "POST /get_weather\n```json\n{\"city\": \"Oslo\"}\n```",
            r#"INFO get_weather {"city": "Oslo"}"#,
            "> ```json\n> {\"name\": \"get_weather\", \"arguments\": {\"city\": 1}}\n> ```",
            r#"results = [get_weather(city=c) for c in cities]"#,
            r#"Use `x` and `y {"name": "any", "arguments": {"a": 1}}` (or not)"#,
            r#"I used get_weather{"city": "Oslo"} for that (see above)"#,
            r#"[get_weather(town="Oslo")]"#,
            r#"[get_weather(city == 1)]"#,
            "So:\n```python\nget_weather(city='Oslo')\n```\n",
            &format!("get_weather{{{spaces}\"city\": 1}}"),
        ] {
            expect(text, None, None);
        }
    }

    #[test]
    fn a_call_that_is_cut_before_its_arguments_is_known() {
        let whole = r#"{"name": "get_weather", "parameters": "#;
        for end in whole.find("get_weather").expect("the name") + 1..=whole.len() {
            expect(&whole[..end], None, Some(10));
        }
        expect(r#"{"name":"any","argum"#, None, Some(9));
        expect("[get_weather(", None, Some(1));
        expect("[get_weather(ci", None, Some(1));
        for text in [
            r#"{"name": ""#,
            r#"{"name": "Oslo", "par"#,
            r#"{"name": "get_weather"}"#,
            r#"{"name": "get_weather", "about"#,
            r#"{"title": "get_weather", "#,
            "\"get_weather\"",
            "[get_weather",
            "See get_weather(",
            "```\n[get_weather(",
        ] {
            expect(text, None, None);
        }
    }
}
