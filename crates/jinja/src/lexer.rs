//! Splits source into tokens as jinja2's lexer does with `trim_blocks` and `lstrip_blocks` enabled.

mod literal;

use literal::{float_length, integer_length, unescape};
use std::borrow::Cow;

use num_bigint::BigInt;

use crate::error::Fault;
use crate::parser::ast::{BinaryOp, CompareOp};

/// A token with its position.
#[derive(Clone, Debug)]
pub(crate) struct Token<'s> {
    pub(crate) kind: TokenKind<'s>,
    pub(crate) at: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind<'s> {
    Data(&'s str),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(&'s str),
    Str(Cow<'s, str>),
    Int(i64),
    BigInt(Box<BigInt>),
    Float(f64),
    Op(Op),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Binary(BinaryOp),
    /// `in` and `not in` are names, not operators.
    Compare(CompareOp),
    Tilde,
    Assign,
    Dot,
    Colon,
    Comma,
    Semicolon,
    Pipe,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
}

/// The spelling of each operator.
const OPERATORS: [(&str, Op); 26] = [
    ("//", Op::Binary(BinaryOp::FloorDiv)),
    ("**", Op::Binary(BinaryOp::Pow)),
    ("==", Op::Compare(CompareOp::Eq)),
    ("!=", Op::Compare(CompareOp::Ne)),
    (">=", Op::Compare(CompareOp::Ge)),
    ("<=", Op::Compare(CompareOp::Le)),
    ("+", Op::Binary(BinaryOp::Add)),
    ("-", Op::Binary(BinaryOp::Sub)),
    ("/", Op::Binary(BinaryOp::Div)),
    ("*", Op::Binary(BinaryOp::Mul)),
    ("%", Op::Binary(BinaryOp::Mod)),
    ("~", Op::Tilde),
    ("[", Op::OpenBracket),
    ("]", Op::CloseBracket),
    ("(", Op::OpenParen),
    (")", Op::CloseParen),
    ("{", Op::OpenBrace),
    ("}", Op::CloseBrace),
    (">", Op::Compare(CompareOp::Gt)),
    ("<", Op::Compare(CompareOp::Lt)),
    ("=", Op::Assign),
    (".", Op::Dot),
    (":", Op::Colon),
    ("|", Op::Pipe),
    (",", Op::Comma),
    (";", Op::Semicolon),
];

/// Returns the operator at the start of the text, with its length.
fn operator_of(bytes: &[u8]) -> Option<(usize, Op)> {
    let next = bytes.get(1).copied();
    Some(match (bytes.first()?, next) {
        (b'/', Some(b'/')) => (2, Op::Binary(BinaryOp::FloorDiv)),
        (b'*', Some(b'*')) => (2, Op::Binary(BinaryOp::Pow)),
        (b'=', Some(b'=')) => (2, Op::Compare(CompareOp::Eq)),
        (b'!', Some(b'=')) => (2, Op::Compare(CompareOp::Ne)),
        (b'>', Some(b'=')) => (2, Op::Compare(CompareOp::Ge)),
        (b'<', Some(b'=')) => (2, Op::Compare(CompareOp::Le)),
        (b'+', _) => (1, Op::Binary(BinaryOp::Add)),
        (b'-', _) => (1, Op::Binary(BinaryOp::Sub)),
        (b'/', _) => (1, Op::Binary(BinaryOp::Div)),
        (b'*', _) => (1, Op::Binary(BinaryOp::Mul)),
        (b'%', _) => (1, Op::Binary(BinaryOp::Mod)),
        (b'~', _) => (1, Op::Tilde),
        (b'[', _) => (1, Op::OpenBracket),
        (b']', _) => (1, Op::CloseBracket),
        (b'(', _) => (1, Op::OpenParen),
        (b')', _) => (1, Op::CloseParen),
        (b'{', _) => (1, Op::OpenBrace),
        (b'}', _) => (1, Op::CloseBrace),
        (b'>', _) => (1, Op::Compare(CompareOp::Gt)),
        (b'<', _) => (1, Op::Compare(CompareOp::Lt)),
        (b'=', _) => (1, Op::Assign),
        (b'.', _) => (1, Op::Dot),
        (b':', _) => (1, Op::Colon),
        (b'|', _) => (1, Op::Pipe),
        (b',', _) => (1, Op::Comma),
        (b';', _) => (1, Op::Semicolon),
        _ => return None,
    })
}

/// Describes a token for error messages.
pub(crate) fn describe(kind: &TokenKind<'_>) -> String {
    match kind {
        TokenKind::Data(_) => "template text".to_owned(),
        TokenKind::VariableBegin => "`{{`".to_owned(),
        TokenKind::VariableEnd => "`}}`".to_owned(),
        TokenKind::BlockBegin => "`{%`".to_owned(),
        TokenKind::BlockEnd => "`%}`".to_owned(),
        TokenKind::Name(name) => format!("`{name}`"),
        TokenKind::Str(_) => "a string".to_owned(),
        TokenKind::Int(_) | TokenKind::BigInt(_) | TokenKind::Float(_) => "a number".to_owned(),
        TokenKind::Op(op) => describe_op(*op),
        TokenKind::End => "the end of the template".to_owned(),
    }
}

pub(crate) fn describe_op(op: Op) -> String {
    let spelling = OPERATORS.iter().find(|(_, known)| *known == op).map_or("", |(spelling, _)| spelling);
    format!("`{spelling}`")
}

/// Reports whether Python's `str.isspace` and `\s` treat a character as white space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// Converts line breaks to `\n` and removes the last one, as jinja2 does with its source.
pub(crate) fn normalize(source: &str) -> String {
    // Folding without an early exit processes several bytes at a time.
    let has_return = source.bytes().fold(false, |found, byte| found | (byte == b'\r'));
    let mut source = match has_return {
        true => source.replace("\r\n", "\n").replace('\r', "\n"),
        false => source.to_owned(),
    };
    if source.ends_with('\n') {
        source.pop();
    }
    source
}

/// Returns all tokens of a normalized source, or the error and its position.
pub(crate) fn tokenize(source: &str) -> Result<Vec<Token<'_>>, (Fault, usize)> {
    let mut lexer = Lexer {
        source,
        position: 0,
        tokens: Vec::with_capacity(source.len() / 6 + 8),
        line_starting: true,
        open: Vec::new(),
    };
    while lexer.position < source.len() {
        lexer.text()?;
    }
    lexer.push(source.len(), TokenKind::End);
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    position: usize,
    tokens: Vec<Token<'s>>,
    /// Whether the last text consumed ended with a line break.
    line_starting: bool,
    /// The closing brackets still expected inside the tag.
    open: Vec<Op>,
}

type LexResult = Result<(), (Fault, usize)>;

impl<'s> Lexer<'s> {
    fn push(&mut self, at: usize, kind: TokenKind<'s>) {
        self.tokens.push(Token { kind, at: at as u32 });
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    fn advance(&mut self, to: usize) {
        self.line_starting = self.source[self.position..to].ends_with('\n');
        self.position = to;
    }

    /// Reads text up to the next tag, and then the tag.
    fn text(&mut self) -> LexResult {
        let start = self.position;
        let Some((tag_at, opener)) = find_tag(self.source, start) else {
            self.push(start, TokenKind::Data(self.rest()));
            self.position = self.source.len();
            return Ok(());
        };
        let text = &self.source[start..tag_at];
        let inside = tag_at + 2;
        let sign = self.source.as_bytes().get(inside).copied().filter(|sign| matches!(sign, b'-' | b'+'));
        let text = self.strip_before_tag(text, sign, opener != b'{');
        if !text.is_empty() {
            self.push(start, TokenKind::Data(text));
        }
        self.advance(inside + usize::from(sign.is_some()));
        match opener {
            b'#' => self.comment(tag_at),
            b'%' => match self.raw_begin() {
                Some(raw_start) => {
                    self.advance(raw_start);
                    self.raw(tag_at)
                }
                None => {
                    self.push(tag_at, TokenKind::BlockBegin);
                    self.tag(true)
                }
            },
            _ => {
                self.push(tag_at, TokenKind::VariableBegin);
                self.tag(false)
            }
        }
    }

    fn strip_before_tag(&self, text: &'s str, sign: Option<u8>, lstrip: bool) -> &'s str {
        match sign {
            Some(b'-') => text.trim_end_matches(is_space),
            Some(_) => text,
            None if lstrip => {
                let line = text.rfind('\n').map_or(0, |at| at + 1);
                let blank = line < text.len() && text[line..].chars().all(is_space);
                if blank && (line > 0 || self.line_starting) { &text[..line] } else { text }
            }
            None => text,
        }
    }

    /// Returns where the text after a tag starts; `after` is the position of the two closing
    /// characters, and `sign` the sign before them.
    fn after_close(&self, after: usize, sign: Option<u8>, trim_newline: bool) -> usize {
        let behind = after + 2;
        match sign {
            Some(b'-') => self.source.len() - trim_start(&self.source[behind..]).len(),
            None if trim_newline && self.source[behind..].starts_with('\n') => behind + 1,
            _ => behind,
        }
    }

    fn comment(&mut self, tag_at: usize) -> LexResult {
        if self.rest().is_empty() {
            // jinja2 reports a missing end only if something follows the opening.
            return Ok(());
        }
        let Some(close) = self.rest().find("#}").map(|at| self.position + at) else {
            return Err((
                Fault::syntax("expected `#}` at the end of the comment, found the end of the template"),
                tag_at,
            ));
        };
        let sign = match &self.source[self.position..close] {
            body if body.ends_with('-') => Some(b'-'),
            body if body.ends_with('+') => Some(b'+'),
            _ => None,
        };
        let end = self.after_close(close, sign, true);
        self.advance(end);
        Ok(())
    }

    /// Returns where the text of a raw block begins if the `{%` just read opens one.
    fn raw_begin(&self) -> Option<usize> {
        let name = self.rest();
        let name = name.strip_prefix(' ').unwrap_or(name);
        if name.as_bytes().first().is_some_and(|first| first.is_ascii_alphabetic() && *first != b'r') {
            // Fast path: another tag name.
            return None;
        }
        let rest = trim_start(trim_start(name).strip_prefix("raw")?);
        let close = self.source.len() - rest.len();
        if rest.starts_with("-%}") {
            return Some(self.after_close(close + 1, Some(b'-'), false));
        }
        rest.starts_with("%}").then_some(close + 2)
    }

    fn raw(&mut self, tag_at: usize) -> LexResult {
        let start = self.position;
        let mut search = start;
        while let Some(at) = self.source[search..].find("{%").map(|at| search + at) {
            search = at + 2;
            let sign = self.source.as_bytes().get(search).copied().filter(|sign| matches!(sign, b'-' | b'+'));
            let name = trim_start(&self.source[search + usize::from(sign.is_some())..]);
            let Some(rest) = name.strip_prefix("endraw").map(trim_start) else { continue };
            let close_sign = rest.bytes().next().filter(|sign| matches!(sign, b'-' | b'+'));
            let rest = &rest[usize::from(close_sign.is_some())..];
            if !rest.starts_with("%}") {
                continue;
            }
            let text = self.strip_before_tag(&self.source[start..at], sign, true);
            if !text.is_empty() {
                self.push(start, TokenKind::Data(text));
            }
            let end = self.after_close(self.source.len() - rest.len(), close_sign, true);
            self.advance(end);
            return Ok(());
        }
        if self.rest().is_empty() {
            return Ok(());
        }
        Err((Fault::syntax("expected `{% endraw %}`, found the end of the template"), tag_at))
    }

    /// Reads the tokens of a tag, including its end.
    fn tag(&mut self, is_block: bool) -> LexResult {
        loop {
            self.skip_space();
            let start = self.position;
            let Some(&first) = self.source.as_bytes().get(start) else { return Ok(()) };
            if self.open.is_empty() && matches!(first, b'-' | b'+' | b'%' | b'}') && self.tag_end(is_block) {
                return Ok(());
            }
            match first {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.name()?,
                b'\'' | b'"' => self.string()?,
                b'0'..=b'9' => self.number()?,
                _ => self.operator(start)?,
            }
        }
    }

    fn skip_space(&mut self) {
        let bytes = self.source.as_bytes();
        while let Some(b' ' | b'\n' | b'\t') = bytes.get(self.position) {
            self.position += 1;
        }
        if bytes.get(self.position).is_some_and(|byte| !byte.is_ascii_graphic()) {
            self.position = self.source.len() - trim_start(self.rest()).len();
        }
    }

    fn tag_end(&mut self, is_block: bool) -> bool {
        let rest = self.rest();
        let close = if is_block { "%}" } else { "}}" };
        let sign = match rest.as_bytes()[0] {
            b'-' => Some(b'-'),
            b'+' if is_block => Some(b'+'),
            _ => None,
        };
        if !rest[usize::from(sign.is_some())..].starts_with(close) {
            return false;
        }
        let start = self.position;
        let end = self.after_close(start + usize::from(sign.is_some()), sign, is_block);
        self.push(start, if is_block { TokenKind::BlockEnd } else { TokenKind::VariableEnd });
        self.advance(end);
        true
    }

    fn name(&mut self) -> LexResult {
        let start = self.position;
        let bytes = &self.source.as_bytes()[start..];
        let mut length = bytes.iter().position(|byte| !IS_NAME[usize::from(*byte)]).unwrap_or(bytes.len());
        if bytes.get(length).is_some_and(|byte| !byte.is_ascii()) {
            let rest = self.rest();
            let is_end = |c: char| !(c.is_alphanumeric() || c == '_' || is_name_mark(c));
            length = rest.find(is_end).unwrap_or(rest.len());
            if length == 0 {
                let c = rest.chars().next().unwrap_or_default();
                return Err((Fault::syntax(format!("unexpected character {c:?}")), start));
            }
            if !rest.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                return Err((Fault::syntax("invalid character in a name"), start));
            }
        }
        self.push(start, TokenKind::Name(&self.source[start..start + length]));
        self.position += length;
        Ok(())
    }

    fn number(&mut self) -> LexResult {
        let start = self.position;
        let rest = self.rest();
        if let Some(length) = float_length(rest)
            && !self.source[..start].ends_with('.')
        {
            let value = rest[..length].replace('_', "").parse().unwrap_or(f64::INFINITY);
            self.push(start, TokenKind::Float(value));
            self.position += length;
            return Ok(());
        }
        let (length, radix) = integer_length(rest);
        let digits = &rest[if radix == 10 { 0 } else { 2 }..length];
        let digits = if digits.contains('_') { Cow::Owned(digits.replace('_', "")) } else { Cow::Borrowed(digits) };
        let kind = match i64::from_str_radix(&digits, radix) {
            Ok(value) => TokenKind::Int(value),
            Err(_) if digits.len() > crate::limits::INTEGER_DIGITS => {
                return Err((Fault::limit(crate::LimitKind::Digits, crate::limits::INTEGER_DIGITS), start));
            }
            Err(_) => match BigInt::parse_bytes(digits.as_bytes(), radix) {
                Some(value) => TokenKind::BigInt(Box::new(value)),
                None => return Err((Fault::syntax("invalid number"), start)),
            },
        };
        self.push(start, kind);
        self.position += length;
        Ok(())
    }

    /// Reads a string literal.
    fn string(&mut self) -> LexResult {
        let start = self.position;
        let rest = self.rest();
        let quote = rest.as_bytes()[0];
        let mut at = 1;
        let mut has_escape = false;
        let end = loop {
            match rest.as_bytes().get(at) {
                None => {
                    return Err((
                        Fault::syntax("expected the end of the string, found the end of the template"),
                        start,
                    ));
                }
                Some(&byte) if byte == quote => break at,
                Some(b'\\') => {
                    has_escape = true;
                    at += 2;
                }
                Some(_) => at += 1,
            }
        };
        let value = if has_escape {
            Cow::Owned(unescape(&rest[1..end]).map_err(|message| (Fault::syntax(message), start))?)
        } else {
            Cow::Borrowed(&rest[1..end])
        };
        self.push(start, TokenKind::Str(value));
        self.position += end + 1;
        Ok(())
    }

    fn operator(&mut self, start: usize) -> LexResult {
        let rest = self.rest();
        let Some((length, op)) = operator_of(rest.as_bytes()) else {
            let c = rest.chars().next().unwrap_or_default();
            return Err((Fault::syntax(format!("unexpected character {c:?}")), start));
        };
        match op {
            Op::OpenBrace => self.open.push(Op::CloseBrace),
            Op::OpenParen => self.open.push(Op::CloseParen),
            Op::OpenBracket => self.open.push(Op::CloseBracket),
            Op::CloseBrace | Op::CloseParen | Op::CloseBracket => match self.open.pop() {
                None => return Err((Fault::syntax(format!("unexpected {}", describe_op(op))), start)),
                Some(expected) if expected != op => {
                    let message = format!("expected {}, found {}", describe_op(expected), describe_op(op));
                    return Err((Fault::syntax(message), start));
                }
                Some(_) => {}
            },
            _ => {}
        }
        self.push(start, TokenKind::Op(op));
        self.position += length;
        Ok(())
    }
}

/// Returns the position of the next `{{`, `{%` or `{#`, with its second character.
fn find_tag(source: &str, from: usize) -> Option<(usize, u8)> {
    let bytes = source.as_bytes();
    let mut at = from;
    loop {
        at += source[at..].find('{')?;
        match bytes.get(at + 1) {
            Some(&opener @ (b'{' | b'%' | b'#')) => return Some((at, opener)),
            Some(_) => at += 1,
            None => return None,
        }
    }
}

/// Whether each byte belongs to an ASCII name.
const IS_NAME: [bool; 256] = {
    let mut is_name = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        is_name[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    is_name
};

/// Reports whether a character is a combining mark or joiner allowed inside a Python identifier.
fn is_name_mark(c: char) -> bool {
    matches!(c, '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{387}' | '\u{203f}' | '\u{2040}' | '\u{fe00}'..='\u{fe0f}')
}
