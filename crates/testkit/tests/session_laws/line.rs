//! The place that a rewrite names: what the template has there is replaced by a mark, and the mark
//! must appear where the rewrite says.

use rolecall::Request;
use rolecall::session::Rewrite;
use rolecall_testkit::sessions::{Subject, Vocabulary};

const MARK: &str = "MARK9151";

/// Whether the place wrote the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Wrote,
    DidNot,
    /// A place that is no text and no expression.
    Unknown,
}

/// Renders a conversation with and without the mark.
pub fn check(subject: &Subject, earlier: &Request, rewrite: &Rewrite) -> Place {
    let (Some(source), Some(spot)) = (&subject.source, rewrite.line) else { return Place::DidNot };
    let offset = spot.offset as usize;
    let Some(marked) = marked(source, offset) else { return Place::Unknown };
    let opened = Subject::of_template(&subject.name, &marked, &subject.tokens, &Vocabulary::Bytes);
    let text = |subject: &Subject| subject.model.prompt(earlier.clone()).map(|prompt| prompt.text().to_owned());
    let (Ok(opened), Ok(plain)) = (opened, text(subject)) else { return Place::Unknown };
    let Ok(with_mark) = text(&opened) else { return Place::Unknown };
    assert_eq!(line_of(source, offset), spot.line, "{}: {spot:?}", subject.name);
    match wrote(&plain, &with_mark, rewrite.byte) {
        true => Place::Wrote,
        false => Place::DidNot,
    }
}

fn line_of(source: &str, offset: usize) -> u32 {
    let lines = source.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
    u32::try_from(lines).unwrap()
}

/// Replaces a literal or the expression at an offset by the mark, or adds it to the text there.
fn marked(source: &str, offset: usize) -> Option<String> {
    let rest = source.get(offset..)?;
    let before = &source[..offset];
    if let Some(quote) = rest.chars().next().filter(|first| matches!(first, '\'' | '"')) {
        let end = rest[1..].find(quote)? + 2;
        return Some(format!("{before}'{MARK}'{}", &rest[end..]));
    }
    let last = |open: &str, close: &str| {
        let start = before.rfind(open).or_else(|| rest.starts_with(open).then_some(offset))?;
        (!source[start + open.len()..].split(close).next()?.is_empty()
            && source[start..].find(close)? + start + close.len() > offset)
            .then_some(start)
    };
    if let Some(start) = last("{{", "}}") {
        let end = start + source[start..].find("}}")?;
        let (open, close) = (source[start..].starts_with("{{-"), source[..end].ends_with('-'));
        let dash = |is: bool| if is { "-" } else { "" };
        return Some(format!("{}{{{{{} '{MARK}' {}{}", &source[..start], dash(open), dash(close), &source[end..]));
    }
    if last("{%", "%}").is_some() {
        return None;
    }
    Some(format!("{before}{MARK}{rest}"))
}

/// Reports whether one of the marks can stand for the byte: the text between the marks is that of
/// the plain text, in this order.
fn wrote(plain: &str, with_mark: &str, byte: usize) -> bool {
    let between: Vec<&str> = with_mark.split(MARK).collect();
    let mut earliest = Vec::new();
    let mut at = 0;
    for text in &between {
        let Some(found) = plain[at..].find(text).filter(|found| !earliest.is_empty() || *found == 0) else {
            return false;
        };
        at += found + text.len();
        earliest.push(at);
    }
    let mut latest = Vec::new();
    let mut at = plain.len();
    for text in between.iter().rev() {
        let Some(found) = plain[..at].rfind(text) else { return false };
        at = found;
        latest.push(found);
    }
    latest.reverse();
    (1..between.len()).any(|mark| earliest[mark - 1] <= byte && byte <= latest[mark])
}

#[test]
fn a_mark_shows_what_wrote_a_byte() {
    assert!(wrote("a12b34c", &format!("a{MARK}b{MARK}c"), 1));
    assert!(wrote("a12b34c", &format!("a{MARK}b{MARK}c"), 5));
    assert!(!wrote("a12b34c", &format!("a{MARK}b{MARK}c"), 0));
    assert!(!wrote("a12b34cd", &format!("a{MARK}b{MARK}cd"), 7));
    assert!(!wrote("abc", "abc", 1));
    let marks = |source: &str, offset| marked(source, offset).unwrap();
    assert_eq!(marks("a{{- m.x }}b", 5), format!("a{{{{- '{MARK}' }}}}b"));
    assert_eq!(marks("a{{ 'x' ~ y }}b", 4), format!("a{{{{ '{MARK}' ~ y }}}}b"));
    assert_eq!(marks("a{{ x }}bc", 9), format!("a{{{{ x }}}}b{MARK}c"));
    assert_eq!(marked("a{% if x %}bc", 5), None);
}
