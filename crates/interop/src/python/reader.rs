use std::collections::HashSet;
use std::ops::Range;

use rolecall_format::LoadError;

use super::{behind_space, is_name, mistake, text};

/// The names of functions whose calls are dictionary literals.
const CALLS: [&str; 2] = ["dict", "ConfigDict"];

/// The maximum nesting of lists, dictionaries and parentheses.
const DEPTH: usize = 32;

const LITERALS: &str =
    "use only literals: strings, True, False, None, numbers, lists and dict(..); the file is never evaluated";

/// A value and its span in the file.
pub(super) struct Node {
    pub start: usize,
    pub end: usize,
    pub kind: TokenKind,
}

pub(super) enum TokenKind {
    /// A string: its characters, each with its byte offset in the file.
    Text(Vec<(usize, char)>),
    /// A number, or `true`, `false` or `null`.
    Word(String),
    List(Vec<Node>),
    /// The keys, which are strings, and their values.
    Dict(Vec<(Node, Node)>),
}

/// Parses a file with one value, and returns it with the span of the name that it is assigned to.
pub(super) fn read_file(source: &str) -> Result<(Option<Range<usize>>, Node), LoadError> {
    let mut reader = Reader { source, at: 0 };
    reader.skip_space();
    let start = reader.at;
    let word = reader.word();
    reader.skip_space();
    let name = (is_name(word) && reader.takes('=')).then(|| start..start + word.len());
    if name.is_none() {
        reader.at = start;
    }
    let value = reader.value(0)?;
    reader.skip_space();
    reader.takes(',');
    reader.skip_space();
    match (&value.kind, reader.rest()) {
        (TokenKind::Dict(_), "") => Ok((name, value)),
        (TokenKind::Dict(_), _) => Err(reader.unexpected("the end of the file")),
        _ => Err(mistake(
            "wrong_type",
            "expected a template's fields in `dict(..)` or `{..}`".into(),
            value.start..value.end,
            "write, for example, dict(INSTRUCTION='{input}')",
        )),
    }
}

/// Reports whether a text begins like a dictionary.
pub(super) fn begins_dict(text: &str) -> bool {
    let call = text.split_once('(').map(|(name, _)| name.trim_end());
    text.starts_with('{') || call.is_some_and(|name| CALLS.contains(&name))
}

/// Parses the dictionary at an offset, which a statement ends with.
pub(super) fn read_dict(source: &str, at: usize) -> Result<Node, LoadError> {
    let mut reader = Reader { source, at };
    let value = reader.value(0)?;
    let rest = reader.rest().trim_start_matches([' ', '\t']);
    if rest.is_empty() || rest.starts_with(['\n', '\r', '#', ';']) {
        return Ok(value);
    }
    Err(reader.unexpected("the end of the statement"))
}

struct Reader<'t> {
    source: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.source.len() - behind_space(self.rest()).len();
    }

    fn takes(&mut self, mark: char) -> bool {
        let takes = self.rest().starts_with(mark);
        self.at += if takes { mark.len_utf8() } else { 0 };
        takes
    }

    /// Consumes the letters, digits and underscores at the current position.
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn unexpected(&self, expected: &str) -> LoadError {
        let found = match self.rest().chars().next() {
            Some(found) => format!("`{}`", found.escape_debug()),
            None => "the end of the file".into(),
        };
        let width = self.rest().chars().next().map_or(0, char::len_utf8);
        let message = format!("expected {expected}, found {found}");
        mistake("not_a_literal", message, self.at..self.at + width, LITERALS)
    }

    fn value(&mut self, depth: usize) -> Result<Node, LoadError> {
        self.skip_space();
        let start = self.at;
        if depth > DEPTH {
            let message = format!("expected at most {DEPTH} levels of nested brackets");
            return Err(mistake("too_deep", message, start..start, "remove levels of nesting; a template needs few"));
        }
        let kind = match self.rest().chars().next() {
            Some('(') => {
                self.at += 1;
                self.parenthesized(depth)?
            }
            Some('[') => {
                self.at += 1;
                let mut items = Vec::new();
                while !self.ends(']') {
                    items.push(self.value(depth + 1)?);
                    self.separates(']')?;
                }
                TokenKind::List(items)
            }
            Some('{') => {
                self.at += 1;
                TokenKind::Dict(self.entries('}', depth)?)
            }
            Some('\'' | '"') => self.text()?,
            Some('0'..='9' | '-') => TokenKind::Word(self.number()?),
            Some(first) if first.is_alphabetic() || first == '_' => self.named(depth)?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { start, end: self.at, kind })
    }

    /// Parses a value in parentheses, or a tuple, which becomes a list.
    fn parenthesized(&mut self, depth: usize) -> Result<TokenKind, LoadError> {
        let mut items = Vec::new();
        let mut is_tuple = true;
        while !self.ends(')') {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            // Python: a comma makes a tuple, not the parentheses.
            is_tuple = items.len() > 1 || self.rest().starts_with(',');
            match is_tuple {
                true => self.separates(')')?,
                false => {
                    self.closes(')')?;
                    break;
                }
            }
        }
        match items.pop() {
            Some(only) if !is_tuple => Ok(only.kind),
            last => {
                items.extend(last);
                Ok(TokenKind::List(items))
            }
        }
    }

    /// Parses a value that starts with a word: a constant, a call of `dict`, or a string with a
    /// prefix.
    fn named(&mut self, depth: usize) -> Result<TokenKind, LoadError> {
        let start = self.at;
        let word = self.word();
        let constant = match word {
            "True" => Some("true"),
            "False" => Some("false"),
            "None" => Some("null"),
            _ => None,
        };
        if let Some(constant) = constant {
            return Ok(TokenKind::Word(constant.to_owned()));
        }
        if self.rest().starts_with(['\'', '"']) {
            self.at = start;
            return self.text();
        }
        self.skip_space();
        if CALLS.contains(&word) && self.takes('(') {
            return Ok(TokenKind::Dict(self.entries(')', depth)?));
        }
        let message = format!("expected a literal, found `{word}`");
        Err(mistake("not_a_literal", message, start..start + word.len(), LITERALS))
    }

    /// Parses the entries of a dictionary and its closing bracket: `KEY=value` in a call,
    /// `'KEY': value` in braces.
    fn entries(&mut self, closing: char, depth: usize) -> Result<Vec<(Node, Node)>, LoadError> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        let mut known = HashSet::new();
        while !self.ends(closing) {
            let start = self.at;
            let (key, between) = if closing == ')' {
                let word = self.word();
                if !is_name(word) {
                    self.at = start;
                    return Err(self.unexpected("a field name"));
                }
                let characters = word.char_indices().map(|(at, character)| (start + at, character)).collect();
                (Node { start, end: self.at, kind: TokenKind::Text(characters) }, '=')
            } else {
                let key = self.value(depth + 1)?;
                if !matches!(key.kind, TokenKind::Text(_)) {
                    self.at = start;
                    return Err(self.unexpected("a field name in quotes"));
                }
                (key, ':')
            };
            self.skip_space();
            if !self.takes(between) {
                return Err(self.unexpected(&format!("`{between}`")));
            }
            if !known.insert(spelled(&key).collect::<String>()) {
                let message = format!("duplicate field `{}`", spelled(&key).collect::<String>());
                return Err(mistake("duplicate_key", message, key.start..key.end, "remove one of the two"));
            }
            entries.push((key, self.value(depth + 1)?));
            self.separates(closing)?;
        }
        Ok(entries)
    }

    /// Parses a string. Adjacent strings are joined.
    fn text(&mut self) -> Result<TokenKind, LoadError> {
        let mut characters = Vec::new();
        self.at = text::read(self.source, self.at, &mut characters)?;
        self.more_text(&mut characters)?;
        Ok(TokenKind::Text(characters))
    }

    fn more_text(&mut self, characters: &mut Vec<(usize, char)>) -> Result<(), LoadError> {
        loop {
            let end = self.at;
            self.skip_space();
            if text::begins(self.rest()) {
                self.at = text::read(self.source, self.at, characters)?;
                continue;
            }
            self.at = end;
            return Ok(());
        }
    }

    fn number(&mut self) -> Result<String, LoadError> {
        let start = self.at;
        let rest = self.rest();
        let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '+' | '.' | '_');
        let length = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let number = &rest[..length];
        if rolecall_conversation::json::parse(number).is_err() {
            let message = format!("expected a plain number, found `{number}`");
            return Err(mistake("not_a_literal", message, start..start + length, LITERALS));
        }
        self.at += length;
        Ok(number.to_owned())
    }

    fn ends(&mut self, closing: char) -> bool {
        self.skip_space();
        self.takes(closing)
    }

    fn closes(&mut self, closing: char) -> Result<(), LoadError> {
        if self.ends(closing) { Ok(()) } else { Err(self.unexpected(&format!("`{closing}`"))) }
    }

    /// Consumes the comma after an item, unless the closing bracket follows.
    fn separates(&mut self, closing: char) -> Result<(), LoadError> {
        self.skip_space();
        match self.takes(',') || self.rest().starts_with(closing) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`,` or `{closing}`"))),
        }
    }
}

/// Returns the characters of a key.
pub(super) fn spelled(key: &Node) -> impl Iterator<Item = char> + '_ {
    let characters: &[(usize, char)] = match &key.kind {
        TokenKind::Text(characters) => characters,
        _ => &[],
    };
    characters.iter().map(|(_, character)| *character)
}
