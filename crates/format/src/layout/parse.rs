//! Parses the text of a layout.

use std::ops::Range;

use super::Op;
use crate::{Codec, ControlId, Field, Slot};
use rolecall_conversation::spelling::nearest;

/// A mistake in the text of a layout.
pub(crate) struct LayoutError {
    pub span: Range<usize>,
    pub code: &'static str,
    pub message: String,
    pub help: Option<String>,
}

/// The names that a layout may use.
pub(crate) struct Vocabulary<'a> {
    /// The texts of the control tokens, the longest first.
    pub controls: &'a [(String, ControlId)],
    /// Markers that look like control tokens but are ordinary text.
    pub plain_marks: &'a [String],
    /// The holes of the slot and of the file, by name.
    pub holes: &'a [(String, Field)],
}

/// Parses the text of a layout. Spans are in bytes of that text.
pub(crate) fn parse(text: &str, vocabulary: &Vocabulary<'_>) -> (Vec<Op>, Vec<LayoutError>) {
    let mut reader =
        LayoutParser { text, at: 0, vocabulary, faults: Vec::new(), literal: String::new(), literal_start: 0 };
    let ops = reader.ops(false);
    (ops, reader.faults)
}

struct LayoutParser<'a> {
    text: &'a str,
    at: usize,
    vocabulary: &'a Vocabulary<'a>,
    faults: Vec<LayoutError>,
    literal: String,
    literal_start: usize,
}

impl LayoutParser<'_> {
    fn ops(&mut self, in_group: bool) -> Vec<Op> {
        let opened = self.at.saturating_sub(2);
        let mut ops = Vec::new();
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if let Some(length) = looks_like_jinja(rest) {
                let help = "a layout is a pattern, not a program; see the manual for the equivalents of `loop.first`, `trim` and `tojson`";
                let span = self.at..self.at + length;
                self.fault(span, "jinja", "this looks like a Jinja template".into(), Some(help.into()));
                self.at = self.text.len();
            } else if rest.starts_with("{{") || rest.starts_with("}}") {
                self.literal(&rest[..1], 2);
            } else if rest.starts_with("{\"") {
                match rest.find("\"}") {
                    Some(end) if end >= 2 && !rest[2..end].contains('"') => self.literal(&rest[2..end], end + 2),
                    _ => {
                        let help = "for JSON write `{{\"key\": ..}}`; literal text in quotes is `{\"text\"}`";
                        let message = "expected `\"}` after `{\"` and its text".into();
                        self.fault(self.at..self.at + 2, "open_quote", message, Some(help.into()));
                        self.at = self.text.len();
                    }
                }
            } else if rest.starts_with('{') {
                self.flush(&mut ops);
                ops.extend(self.hole());
            } else if rest.starts_with('}') {
                let help = Some("write `}}` for a literal brace".into());
                self.fault(self.at..self.at + 1, "lone_brace", "found `}` without `{`".into(), help);
                self.at += 1;
            } else if rest.starts_with("[[") {
                self.flush(&mut ops);
                self.at += 2;
                if in_group {
                    let help = Some("close the first group with `]]`, or write `{\"[[\"}` for literal brackets".into());
                    self.fault(self.at - 2..self.at, "nested_group", "found a group inside a group".into(), help);
                }
                ops.push(Op::Group(self.ops(true)));
            } else if in_group && rest.starts_with("]]]") {
                // Of three or more brackets, the last two close the group.
                self.literal("]", 1);
            } else if in_group && rest.starts_with("]]") {
                self.flush(&mut ops);
                self.at += 2;
                let faulty = self.faults.iter().any(|fault| fault.span.start >= opened);
                if !faulty && !ops.iter().any(|op| matches!(op, Op::Hole { .. })) {
                    let help = Some(
                        "a group is written only if its holes have values; remove the brackets if it has no hole"
                            .into(),
                    );
                    self.fault(opened..self.at, "group_without_hole", "found a group without a hole".into(), help);
                }
                return ops;
            } else if rest.starts_with("]]") {
                let help = Some("write `{\"]]\"}` for literal brackets".into());
                self.fault(self.at..self.at + 2, "lone_brackets", "found `]]` without `[[`".into(), help);
                self.at += 2;
            } else if let Some((spelling, control)) =
                self.vocabulary.controls.iter().find(|(spelling, _)| rest.starts_with(spelling.as_str()))
            {
                self.flush(&mut ops);
                self.at += spelling.len();
                ops.push(Op::Control(*control));
            } else {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                self.literal(&rest[..length], length);
            }
        }
        self.flush(&mut ops);
        // The nested group took the `]]` of this one.
        if in_group && !self.faults.iter().any(|fault| fault.code == "nested_group") {
            let help = Some("close it with `]]`, or write `{\"[[\"}` for literal brackets".into());
            self.fault(opened..opened + 2, "open_group", "expected `]]` for this `[[`".into(), help);
        }
        ops
    }

    fn literal(&mut self, characters: &str, taken: usize) {
        if self.literal.is_empty() {
            self.literal_start = self.at;
        }
        self.literal.push_str(characters);
        self.at += taken;
    }

    fn flush(&mut self, ops: &mut Vec<Op>) {
        if self.literal.is_empty() {
            return;
        }
        self.find_undeclared();
        ops.push(Op::Literal(std::mem::take(&mut self.literal)));
    }

    /// Reports undeclared markers. Literal text that looks like a control token is probably a
    /// forgotten declaration.
    fn find_undeclared(&mut self) {
        let mut from = 0;
        while let Some(mark) = looks_like_control(&self.literal[from..]) {
            let mark = from + mark.start..from + mark.end;
            from = mark.end;
            let token = self.literal[mark.clone()].to_owned();
            if self.vocabulary.plain_marks.contains(&token) {
                continue;
            }
            let near = nearest(&token, self.vocabulary.controls.iter().map(|(text, _)| text.as_str()));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it in `[control]`, or name it in `plain-marks` if it is ordinary text".into(),
            };
            let start = self.literal_start + mark.start;
            let span = start..(start + token.len()).min(self.text.len());
            self.fault(span, "undeclared_control", format!("`{token}` is not a declared control token"), Some(help));
        }
    }

    fn hole(&mut self) -> Option<Op> {
        let start = self.at;
        let rest = &self.text[start..];
        let Some(length) = rest.find('}') else {
            let help = Some("write `{{` for a literal brace".into());
            self.fault(start..start + 1, "open_hole", "expected `}` for this `{`".into(), help);
            self.at = self.text.len();
            return None;
        };
        self.at += length + 1;
        let inside = &rest[1..length];
        let (name, codec) = match inside.split_once(':') {
            Some((name, codec)) => (name, Some(codec)),
            None => (inside, None),
        };
        let span = start..self.at;
        if name == "seam" {
            if codec.is_some() {
                let help = Some("write `{seam}`".into());
                self.fault(span, "codec_misfit", "`{seam}` takes no codec".into(), help);
            }
            return Some(Op::Seam);
        }
        let known = self.vocabulary.holes;
        let Some(&(_, field)) = known.iter().find(|(hole, _)| hole == name) else {
            let list = known.iter().map(|(hole, _)| format!("`{hole}`")).collect::<Vec<_>>().join(", ");
            let elsewhere: Vec<&str> = match Field::from_name(name) {
                Some(field) => {
                    Slot::ALL.iter().filter(|slot| slot.fields().contains(&field)).map(|slot| slot.key()).collect()
                }
                None => Vec::new(),
            };
            let help = match nearest(name, known.iter().map(|(hole, _)| hole.as_str())) {
                _ if !elsewhere.is_empty() => {
                    format!(
                        "use it in {}",
                        elsewhere.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
                    )
                }
                Some(near) => format!("did you mean `{{{near}}}`? write `{{{{` for a literal brace"),
                None => {
                    let list = if list.is_empty() { "no predefined holes".to_owned() } else { list };
                    format!(
                        "this layout has {list}; declare others in `[options]` or `[fields]`; write `{{{{` for a literal brace"
                    )
                }
            };
            self.fault(span, "unknown_hole", format!("`{{{name}}}` is not a hole of this layout"), Some(help));
            return None;
        };
        let codec = match codec {
            None => Codec::Text,
            Some(spelling) => match Codec::from_spelling(spelling) {
                Some(codec) => codec,
                None => {
                    let stem = spelling.split('(').next().unwrap_or_default();
                    let help = match nearest(stem, Codec::NAMES) {
                        Some("json") => {
                            "write `json`, `json(indent=4)`, `json(compact)` or `json(name, arguments)`".into()
                        }
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("known codecs: {}", Codec::NAMES.map(|name| format!("`{name}`")).join(", ")),
                    };
                    let at = start + 2 + name.len();
                    let span = at..at + spelling.len();
                    self.fault(span, "unknown_codec", format!("`{spelling}` is not a codec"), Some(help));
                    return None;
                }
            },
        };
        if let Err((message, help)) = fits(field, &codec) {
            self.fault(span, "codec_misfit", format!("`{{{name}}}` {message}"), Some(help));
            return None;
        }
        Some(Op::Hole { field, codec, span })
    }

    fn fault(&mut self, span: Range<usize>, code: &'static str, message: String, help: Option<String>) {
        self.faults.push(LayoutError { span, code, message, help });
    }
}

/// Reports whether a codec can print a field's values.
fn fits(field: Field, codec: &Codec) -> Result<(), (String, String)> {
    let good = match (field, codec) {
        (_, Codec::Present) => true,
        (Field::Call, Codec::Call(_)) => true,
        (Field::Call, _) => {
            return Err(("needs a codec with two keys".into(), "write `{call:json(name, arguments)}`".into()));
        }
        (Field::Arguments, Codec::Text) => true,
        (Field::Arguments, codec) if codec.value_syntax().is_some_and(|syntax| syntax.takes_arguments()) => true,
        (Field::Arguments, _) => {
            let help = "write `{arguments:json}`, `{arguments:python}`, or `{arguments}` with a layout `argument`";
            return Err(("does not take this codec".into(), help.into()));
        }
        (Field::Value, codec) if codec.value_syntax().is_some_and(|syntax| syntax.takes_values()) => true,
        (Field::Key | Field::Code, Codec::Json(_)) | (Field::Key, Codec::Attribute) => true,
        (Field::Tool | Field::Function | Field::Files, Codec::Json(_)) => true,
        (Field::Tool | Field::Function, Codec::Python) => true,
        (Field::Tool | Field::Function, _) => {
            return Err(("needs the codec `json` or `python`".into(), format!("write `{{{}:json}}`", field.name())));
        }
        (Field::Files, _) => return Err(("needs the codec `json`".into(), "write `{files:json}`".into())),
        (Field::Tools | Field::Functions, Codec::Text | Codec::Json(_) | Codec::Python) => true,
        (Field::Functions, Codec::Names) => true,
        (Field::Name, Codec::Names | Codec::Enumerated | Codec::Stem | Codec::Text | Codec::Json(_) | Codec::Trim) => {
            true
        }
        (Field::Option(_), Codec::Before(_) | Codec::Behind(_)) => true,
        (Field::Content, Codec::Text | Codec::Trim | Codec::Filled) => true,
        (Field::Content, Codec::Json(style)) => style.indent.is_none(),
        (Field::Index, Codec::From(_)) => true,
        (Field::Type, Codec::Kinds(_)) => true,
        (Field::Type, codec) => *codec == Codec::Text,
        (Field::Round | Field::Index | Field::Calls | Field::Results, Codec::Text) => true,
        (Field::Round | Field::Index | Field::Calls | Field::Results, _) => false,
        (_, Codec::Text | Codec::Trim) => true,
        _ => false,
    };
    match good {
        true => Ok(()),
        false => Err(("does not take this codec".into(), "remove the codec".into())),
    }
}

/// Returns the length of the opening of a Jinja tag or expression, if the text starts with one.
fn looks_like_jinja(rest: &str) -> Option<usize> {
    if rest.starts_with("{%") || rest.starts_with("{#") {
        return Some(2);
    }
    let inside = rest.strip_prefix("{{")?.trim_start_matches('-').trim_start();
    let quoted = inside.starts_with('\'') || inside.starts_with("bos_token") || inside.starts_with("message");
    (quoted && rest.contains("}}")).then_some(2)
}

/// Common names of control tokens in models based on SentencePiece.
const USUAL: [&str; 7] = ["<s>", "</s>", "<bos>", "<eos>", "<pad>", "<unk>", "<BOS_TOKEN>"];

/// Finds the first text that looks like a control token: a usual name, or `<|..|>` with ASCII or
/// DeepSeek's full-width bars.
pub(crate) fn looks_like_control(text: &str) -> Option<Range<usize>> {
    let usual = USUAL.iter().filter_map(|name| text.find(name).map(|at| at..at + name.len()));
    if let Some(found) = usual.min_by_key(|span| span.start) {
        return Some(found);
    }
    for (open, close) in [("<|", "|>"), ("<｜", "｜>")] {
        if let Some(start) = text.find(open) {
            let inside = &text[start + open.len()..];
            if let Some(length) = inside.find(close) {
                let name = &inside[..length];
                if !name.is_empty() && name.chars().count() <= 40 && !name.contains(char::is_whitespace) {
                    return Some(start..start + open.len() + length + close.len());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::looks_like_control;

    #[test]
    fn a_short_name_between_bars_looks_like_a_control_token() {
        let long = "x".repeat(41);
        for (text, expected) in [
            ("a<|im_end|>b", Some("<|im_end|>")),
            ("a<｜end｜>b", Some("<｜end｜>")),
            ("a</s>", Some("</s>")),
            ("a <|b c|> d", None),
            ("<||>", None),
            (&format!("<|{long}|>"), None),
            ("<|x", None),
        ] {
            assert_eq!(looks_like_control(text).map(|span| &text[span]), expected, "{text}");
        }
    }
}
