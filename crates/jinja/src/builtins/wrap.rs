//! `wordwrap`, implemented like Python's `textwrap`.

use super::{Args, FilterFn, flag, html, int_arg, strings};
use crate::error::{Fault, Res};
use crate::lexer::is_space;
use crate::value::builder::{Builder, Pieces};
use crate::value::text::Str;
use crate::value::{Value, char_count};
use crate::vm::World;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[("wordwrap", word_wrap)];

fn word_wrap<'a>(world: &World<'a>, args: Args<'_, 'a>) -> Res<Value<'a>> {
    let [width, break_long, wrap_string, on_hyphens] =
        args.bind("wordwrap", ["width", "break_long_words", "wrapstring", "break_on_hyphens"])?;
    let Value::Str(text) = args.subject() else {
        return Err(match args.subject() {
            Value::Undefined(absence) => absence.fault(),
            other => Fault::type_error(format!("'{}' object has no attribute 'splitlines'", other.kind())),
        });
    };
    let width = int_arg(width, 79)?;
    let Ok(width) = usize::try_from(width) else {
        return Err(Fault::value(format!("invalid width {width} (must be > 0)")));
    };
    if width == 0 {
        return Err(Fault::value("invalid width 0 (must be > 0)"));
    }
    let wrap_string = match wrap_string {
        None | Some(Value::None) => Str::engine("\n"),
        Some(other) => super::str_arg(other)?.clone(),
    };
    let (break_long, on_hyphens) = (flag(world, break_long, true), flag(world, on_hyphens, true));
    let plain = text.plain();
    world.work(plain.len() * 16)?;
    strings::check_lines(world, plain)?;
    // Words, the blanks between them, and the parts around hyphens.
    strings::check_parts(world, plain, |c| is_blank(c) || c == '-')?;
    let mut builder = Builder::new(world);
    for (index, line) in strings::lines(plain, false).into_iter().enumerate() {
        if index > 0 {
            builder.push_str(&wrap_string)?;
        }
        for (index, wrapped) in wrap(line, width, break_long, on_hyphens).into_iter().enumerate() {
            world.work(64 + wrap_string.plain().len())?;
            if index > 0 {
                builder.push_str(&wrap_string)?;
            }
            let range = text.range_of(wrapped);
            if wrap_string.is_markup() {
                let part = text.slice(world, range)?.with_markup(world, false)?;
                builder.push_str(&html::escape(world, &part)?)?;
            } else {
                builder.push_range(text, range)?;
            }
        }
    }
    // jinja2: the result is safe HTML if the string that joins the lines is.
    builder.finish_as(wrap_string.is_markup()).map(Value::Str)
}

/// Reports whether a text has more than this many characters, without counting further.
fn is_longer(text: &str, characters: usize) -> bool {
    text.char_indices().nth(characters).is_some()
}

/// textwrap splits at ASCII white space, but drops any white space at the ends of lines.
fn is_blank(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

/// Wraps a paragraph into lines, each a verbatim part of it.
fn wrap(text: &str, width: usize, break_long: bool, on_hyphens: bool) -> Vec<&str> {
    let start_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let mut chunks: Vec<&str> = chunks(text, on_hyphens);
    chunks.reverse();
    let mut lines: Vec<&str> = Vec::new();
    while !chunks.is_empty() {
        if !lines.is_empty() && chunks.last().is_some_and(|chunk| chunk.chars().all(is_space)) {
            chunks.pop();
        }
        let mut line: Vec<&str> = Vec::new();
        let mut used = 0;
        while let Some(chunk) = chunks.last() {
            if is_longer(chunk, width - used) {
                break;
            }
            used += char_count(chunk);
            line.push(chunk);
            chunks.pop();
        }
        let mut is_full = false;
        if let Some(chunk) = chunks.last().copied()
            && is_longer(chunk, width)
        {
            let space = width - used;
            if break_long {
                let mut end = space;
                if on_hyphens && is_longer(chunk, space) {
                    let head: String = chunk.chars().take(space).collect();
                    if let Some(hyphen) = head.rfind('-').map(|at| char_count(&head[..at]))
                        && hyphen > 0
                        && head.chars().take(hyphen).any(|c| c != '-')
                    {
                        end = hyphen + 1;
                    }
                }
                let at = chunk.char_indices().nth(end).map_or(chunk.len(), |(at, _)| at);
                chunks.pop();
                if at < chunk.len() {
                    chunks.push(&chunk[at..]);
                }
                if at > 0 {
                    line.push(&chunk[..at]);
                }
                is_full = at == 0;
            } else if line.is_empty() {
                line.push(chunk);
                chunks.pop();
            }
        }
        // textwrap: the part of a long word that fits ends the line, even if it is empty.
        if !is_full && line.last().is_some_and(|chunk| chunk.chars().all(is_space)) {
            line.pop();
        }
        if let (Some(first), Some(last)) = (line.first(), line.last()) {
            lines.push(&text[start_of(first)..start_of(last) + last.len()]);
        }
    }
    lines
}

/// Splits into words, white space and the parts of words around hyphens, as textwrap's `wordsep_re`
/// does.
fn chunks(text: &str, on_hyphens: bool) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut from = 0;
    while let Some(first) = text[from..].chars().next() {
        let is_space = is_blank(first);
        let end = if is_space || !on_hyphens {
            text[from..].find(|c| is_blank(c) != is_space).map_or(text.len(), |at| from + at)
        } else {
            word_end(text, from)
        };
        chunks.push(&text[from..end]);
        from = end;
    }
    chunks
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_letter(c: Option<char>) -> bool {
    c.is_some_and(|c| is_word(c) && strings::decimal_value(c).is_none())
}

/// Reports whether a character may precede a dash.
fn is_word_or_mark(c: Option<char>) -> bool {
    c.is_some_and(|c| is_word(c) || matches!(c, '!' | '"' | '\'' | '&' | '.' | ',' | '?'))
}

/// Returns the end of two or more hyphens that are followed by a word.
fn dash_end(text: &str, at: usize) -> Option<usize> {
    let behind = text[at..].trim_start_matches('-');
    let end = text.len() - behind.len();
    (end - at >= 2 && behind.starts_with(is_word)).then_some(end)
}

/// Returns the end of the part of a word that starts at `from`: at white space, after a hyphen
/// between letters, or around a dash.
fn word_end(text: &str, from: usize) -> usize {
    let mut before = [None; 3];
    for (place, c) in before.iter_mut().zip(text[..from].chars().rev()) {
        *place = Some(c);
    }
    for (at, c) in text[from..].char_indices() {
        let at = from + at;
        if is_blank(c) {
            return at;
        }
        let [last, second, third] = before;
        if c == '-' {
            let mut ahead = text[at + 1..].chars();
            let next = [ahead.next(), ahead.next(), ahead.next()];
            let is_between = is_letter(last) && (is_letter(second) || (second == Some('-') && is_letter(third)));
            let goes_on = is_letter(next[0]) && (is_letter(next[1]) || (next[1] == Some('-') && is_letter(next[2])));
            if at > from && is_between && goes_on {
                return at + 1;
            }
            if let (true, Some(end)) = (is_word_or_mark(last), dash_end(text, at)) {
                return if at == from { end } else { at };
            }
        }
        before = [Some(c), last, second];
    }
    text.len()
}
