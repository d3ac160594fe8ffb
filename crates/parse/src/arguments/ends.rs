//! The ends of values between markers.

use super::{ArgumentReading, Callee, How, schema_of};
use crate::Stop;
use crate::cursor::Cursor;
use crate::literal::Literal;
use crate::marks::{MarkSearch, Marks, PendingInput};
use crate::reply::{Between, List, ValueEnd, ValueForm, ValueLayout};

/// The number of bytes to look at after a quote, to decide whether it closes the value.
const AHEAD: usize = 256;

/// Where the text of a value ends, as far as the input goes.
pub(super) struct End {
    /// The byte up to which the input belongs to the value.
    pub text: usize,
    /// The byte after the closing marker, if the value ends here.
    pub after: Option<usize>,
    /// Whether the closing marker is missing.
    pub is_broken: bool,
}

/// Finds the end of a value between markers.
pub(super) fn find_end(
    reading: &ArgumentReading,
    callee: &Callee<'_>,
    kind: &ValueLayout,
    cursor: &Cursor<'_, '_>,
) -> End {
    let (text, after) = match kind.form {
        ValueForm::Bare => bare_end(callee, cursor),
        _ => marked_end(reading, callee, kind, cursor),
    };
    match find_break(callee, cursor, text) {
        Some((start, is_over)) => End { text: start, after: is_over.then_some(start), is_broken: is_over },
        None => End { text, after, is_broken: false },
    }
}

/// Finds the end of the call or the next argument before `to`, although the value has not been closed, and reports
/// whether it is certain. A value may contain the marker that ends a call, or that opens one or an argument. It is the
/// layout's if a control token wrote it, if another call, the end of the turn or the name of a tool follows, or if the
/// function has the argument.
pub(super) fn find_break(callee: &Callee<'_>, cursor: &Cursor<'_, '_>, to: usize) -> Option<(usize, bool)> {
    let Callee { list, shared, .. } = *callee;
    let input = cursor.input();
    let mut from = cursor.at;
    loop {
        let (start, is_over) = match list.breaks.find(input, from, cursor.is_last()) {
            MarkSearch::Mark(start, end, action) => {
                let is_token = input.is_control(start + usize::from(input.text[start..end].starts_with('\n')));
                let ahead = &input.up_to(end + AHEAD).text[end..];
                let is_all = cursor.is_last() || end + AHEAD < input.text.len();
                let is_over = match list.breaks.action(action) {
                    Between::Open => begins_known_argument(callee, ahead, is_all),
                    _ if is_token => Some(true),
                    Between::Call => {
                        begins_with_tool(callee, ahead.trim_start(), is_all, |rest| !rest.starts_with(is_of_name))
                    }
                    _ => shared.begins_after_call(input, end, cursor.is_last()),
                };
                (start, is_over)
            }
            MarkSearch::Open(start) => (start, None),
            MarkSearch::Nothing => return None,
        };
        if start >= to {
            return None;
        }
        match is_over {
            Some(true) => return Some((start, true)),
            None => return Some((start, false)),
            Some(false) => from = start + input.text[start..].chars().next().map_or(1, char::len_utf8),
        }
    }
}

/// Reports whether the text behind the marker that opens an argument begins with the key of one of the function.
/// Returns `None` if that is not known yet, as it can be if the text goes on.
fn begins_known_argument(callee: &Callee<'_>, text: &str, is_all: bool) -> Option<bool> {
    let mut found = Some(false);
    for kind in &callee.list.kinds {
        match text.find(kind.middle.text()) {
            Some(at) if schema_of(callee, text[..at].trim()).is_some() => return Some(true),
            Some(_) => {}
            None if is_all => {}
            None => found = None,
        }
    }
    found
}

/// Reports whether a text begins with the name of an offered tool, and a text behind it that `follows` accepts. Returns
/// `None` if that is not known yet, as it can be if the text goes on.
fn begins_with_tool(callee: &Callee<'_>, text: &str, is_all: bool, follows: impl Fn(&str) -> bool) -> Option<bool> {
    let mut found = Some(false);
    for tool in &callee.shared.options.tools {
        match text.strip_prefix(tool.name()) {
            Some("") if !is_all => found = None,
            Some(rest) if follows(rest) => return Some(true),
            None if !is_all && tool.name().starts_with(text) => found = None,
            _ => {}
        }
    }
    found
}

/// Reports whether a character may be a part of the name of a tool or an argument.
pub(super) fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Returns the byte up to which the input belongs to a value between markers, and the byte after
/// the closing marker if the value ends there.
fn marked_end(
    reading: &ArgumentReading,
    callee: &Callee<'_>,
    kind: &ValueLayout,
    cursor: &Cursor<'_, '_>,
) -> (usize, Option<usize>) {
    let is_section = matches!(reading.how, How::Cdata(_));
    let (closes, is_strong) = match (&reading.close, is_section) {
        (Some(close), true) => (&close.cdata_closes, true),
        (Some(close), false) => (&close.closes, close.is_strong),
        (None, true) => (&kind.cdata_closes, true),
        (None, false) => (&kind.closes, kind.close.is_strong() || matches!(kind.end, ValueEnd::Next)),
    };
    let input = cursor.input();
    let mut from = cursor.at;
    loop {
        return match cursor.find_marker(closes, from) {
            MarkSearch::Mark(start, end, own) if is_strong => {
                (start, Some(if *closes.action(own) { end } else { start }))
            }
            MarkSearch::Mark(start, end, _) => match shows_end(callee, input, end, cursor.is_last()) {
                Some(true) => (start, Some(end)),
                Some(false) => {
                    from = start + input.text[start..].chars().next().map_or(1, char::len_utf8);
                    continue;
                }
                None => (start, None),
            },
            MarkSearch::Open(start) => (start, None),
            MarkSearch::Nothing => match begun_end(callee, closes, cursor, from) {
                Some(start) => (start, Some(start)),
                None => (input.text.len(), None),
            },
        };
    }
}

/// Returns where the markers after a value begin if the model stopped after the first of them.
fn begun_end(callee: &Callee<'_>, closes: &Marks<bool>, cursor: &Cursor<'_, '_>, from: usize) -> Option<usize> {
    let stopped = cursor.is_last() && callee.shared.stop == Some(Stop::End);
    let MarkSearch::Open(start) = closes.find(cursor.input(), from, false) else { return None };
    let begun = cursor.text()[start..].trim();
    (stopped && !begun.is_empty() && callee.list.end.core().text().starts_with(begun) && begun.ends_with(['>', ']']))
        .then_some(start)
}

/// Returns the byte up to which the input belongs to a value without quotes, and the same byte
/// again if the value ends there.
fn bare_end(callee: &Callee<'_>, cursor: &Cursor<'_, '_>) -> (usize, Option<usize>) {
    let input = cursor.input();
    let firsts = [&callee.list.separator, &callee.list.end].map(|literal| literal.byte(0).map(|(byte, _)| byte));
    for (at, byte) in input.text.bytes().enumerate().skip(cursor.at) {
        if !(firsts.contains(&Some(byte)) && input.text.is_char_boundary(at)) {
            continue;
        }
        match shows_end(callee, input, at, cursor.is_last()) {
            Some(true) => return (at, Some(at)),
            Some(false) => {}
            None => return (at, None),
        }
    }
    (input.text.len(), None)
}

/// Reports whether a marker that ends here closes the value. A quote does so only if another
/// argument or the end of the call follows. Returns `None` if that is not known yet.
fn shows_end(callee: &Callee<'_>, input: PendingInput<'_>, end: usize, is_last: bool) -> Option<bool> {
    let Callee { list, shared, .. } = *callee;
    // Look no further than this, so that every chunking gives the same result.
    let ahead = input.up_to(end + AHEAD);
    let is_cut = ahead.text.len() < input.text.len();
    let (input, is_last) = (ahead, is_last && !is_cut);
    let rest = &input.text[end..];
    let open = if is_cut || is_last { Some(false) } else { None };
    let behind = |text: &str, literal: &Literal| -> Option<Option<usize>> {
        // `Some(Some(n))`: found, ends at byte `n`. `Some(None)`: not found. `None`: not known yet.
        let spaces = text.len() - text.trim_start().len();
        let text = &text[spaces..];
        let core = literal.core();
        if text.starts_with(core.text()) {
            return Some(Some(spaces + core.text().len()));
        }
        if core.text().starts_with(text) { None } else { Some(None) }
    };
    if !list.separator.is_empty() {
        match behind(rest, &list.separator) {
            None if !is_last => return open,
            Some(Some(used)) => {
                let after = rest[used..].trim_start();
                let after = match list.open.is_empty() {
                    true => after,
                    false => match after.strip_prefix(list.open.text()) {
                        Some(after) => after,
                        None if list.open.text().starts_with(after) => return open,
                        None => return Some(false),
                    },
                };
                return match begins_argument(list, after, open) {
                    Some(false) => begins_call(callee, after, is_last || is_cut),
                    known => known,
                };
            }
            _ => {}
        }
    }
    // Arguments with only white space between them, such as the attributes of a tag.
    if list.separator.is_empty() && list.open.is_empty() && rest.starts_with(char::is_whitespace) {
        match begins_argument(list, rest.trim_start(), open) {
            Some(false) => {}
            known => return known,
        }
    }
    match behind(rest, &list.end) {
        Some(Some(used)) => match shared.ends_call(input, end + used, is_last) {
            None => open,
            // What separates the calls may be missing.
            Some(false) => match begins_call(callee, rest[used..].trim_start(), is_last || is_cut) {
                Some(false) => ends_twice(callee, input, end + used, is_last || is_cut),
                known => known,
            },
            known => known,
        },
        Some(None) => Some(false),
        None if is_last => Some(rest.trim().is_empty()),
        None => open,
    }
}

/// Reports whether a call of an offered tool in Python begins here, where an argument should. Returns `None` if that
/// is not known yet.
pub(super) fn begins_call(callee: &Callee<'_>, text: &str, is_last: bool) -> Option<bool> {
    match callee.list.is_python {
        true => begins_with_tool(callee, text, is_last, |rest| rest.starts_with('(')),
        false => Some(false),
    }
}

/// Reports whether closing brackets of which there are too many follow the end of a call in Python, and then another
/// call or the end of the turn. Returns `None` if that is not known yet.
fn ends_twice(callee: &Callee<'_>, input: PendingInput<'_>, at: usize, is_last: bool) -> Option<bool> {
    let rest = &input.text[at..];
    let behind = rest.trim_start_matches(|c: char| matches!(c, ')' | ']' | '}') || c.is_whitespace());
    if !callee.list.is_python || !rest.trim_start().starts_with([')', ']', '}']) {
        return Some(false);
    }
    if behind.is_empty() {
        return is_last.then_some(true);
    }
    match behind.strip_prefix(',') {
        Some(next) => begins_call(callee, next.trim_start(), is_last),
        None => callee.shared.begins_after_call(input, input.text.len() - behind.len(), is_last),
    }
}

/// Reports whether a text begins with a key and the text after it. Returns `open` if the text is
/// too short to tell.
fn begins_argument(list: &List, text: &str, open: Option<bool>) -> Option<bool> {
    match text.find(|c: char| !is_of_name(c)) {
        None => open,
        Some(0) => Some(false),
        Some(at) => {
            let begins = |middle: &str| text[at..].starts_with(middle.get(..1).unwrap_or(middle));
            Some(list.kinds.iter().any(|kind| begins(kind.middle.text())))
        }
    }
}
