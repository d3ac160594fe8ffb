//! Regular expressions in schemas, as far as they are simple: classes, groups, alternatives and
//! counts.

use crate::{Class, Pattern};

/// The maximum count of a repetition.
const MOST: usize = 2000;
/// The maximum nesting depth of groups.
const MAX_DEPTH: usize = 50;

/// Parses an expression. Without `^` or `$`, it may match anywhere in the string.
pub(super) fn read(expression: &str) -> Option<Pattern> {
    let characters: Vec<char> = expression.chars().collect();
    let from = usize::from(characters.first() == Some(&'^'));
    let escapes = characters.iter().rev().skip(1).take_while(|c| **c == '\\').count();
    let closed = characters.last() == Some(&'$') && escapes % 2 == 0;
    let to = characters.len() - usize::from(closed && characters.len() > from);
    let mut reader = ExpressionParser { characters: &characters[from..to], at: 0 };
    let mut inner = reader.sequence(0)?;
    // `^a|b$` anchors each alternative on only one side, which is not supported.
    while from == 0 && !closed && reader.take('|') {
        inner = Pattern::Choice(vec![inner, reader.sequence(0)?]);
    }
    if reader.at < reader.characters.len() {
        return None;
    }
    let mut parts = Vec::new();
    if from == 0 {
        parts.push(Pattern::any());
    }
    parts.push(inner);
    if !closed {
        parts.push(Pattern::any());
    }
    Some(if parts.len() == 1 { parts.remove(0) } else { Pattern::Sequence(parts) })
}

struct ExpressionParser<'a> {
    characters: &'a [char],
    at: usize,
}

impl ExpressionParser<'_> {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += 1;
        Some(character)
    }

    fn take(&mut self, character: char) -> bool {
        let there = self.peek() == Some(character);
        self.at += usize::from(there);
        there
    }

    fn choice(&mut self, depth: usize) -> Option<Pattern> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut ways = vec![self.sequence(depth)?];
        while self.take('|') {
            ways.push(self.sequence(depth)?);
        }
        Some(if ways.len() == 1 { ways.remove(0) } else { Pattern::Choice(ways) })
    }

    fn sequence(&mut self, depth: usize) -> Option<Pattern> {
        let mut parts = Vec::new();
        while let Some(character) = self.peek() {
            if matches!(character, '|' | ')') {
                break;
            }
            let part = self.atom(depth)?;
            parts.push(self.counted(part)?);
        }
        Some(if parts.len() == 1 { parts.remove(0) } else { Pattern::Sequence(parts) })
    }

    fn atom(&mut self, depth: usize) -> Option<Pattern> {
        match self.next()? {
            '.' => Some(Pattern::Class(Class { negated: true, ranges: vec![('\n', '\n')] })),
            '[' => self.class().map(Pattern::Class),
            '(' => {
                if self.take('?') && !self.take(':') {
                    return None;
                }
                let inner = self.choice(depth + 1)?;
                self.take(')').then_some(inner)
            }
            '\\' => Some(Pattern::Class(self.escape()?)),
            '^' | '$' | '*' | '+' | '?' | '{' => None,
            character => Some(Pattern::Class(Class::of(&[(character, character)]))),
        }
    }

    fn counted(&mut self, part: Pattern) -> Option<Pattern> {
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let end = self.characters[self.at..].iter().position(|c| *c == '}')?;
                let inside: String = self.characters[self.at + 1..self.at + end].iter().collect();
                self.at += end;
                match inside.split_once(',') {
                    None => {
                        let count = inside.parse().ok()?;
                        (count, Some(count))
                    }
                    Some((min, "")) => (min.parse().ok()?, None),
                    Some((min, max)) => (min.parse().ok()?, Some(max.parse().ok()?)),
                }
            }
            _ => return Some(part),
        };
        self.at += 1;
        // A lazy or possessive count accepts the same texts, but is not supported.
        let odd = matches!(self.peek(), Some('*' | '+' | '?' | '{'));
        let fits = min <= max.unwrap_or(MOST) && max.unwrap_or(min) <= MOST;
        (fits && !odd).then(|| part.repeated(min, max))
    }

    fn escape(&mut self) -> Option<Class> {
        let class = match self.next()? {
            'd' => Class::of(&[('0', '9')]),
            'D' => Class { negated: true, ranges: vec![('0', '9')] },
            'w' => Class::of(&WORD),
            'W' => Class { negated: true, ranges: WORD.to_vec() },
            's' => Class::chars(" \t\n\r\u{b}\u{c}"),
            'S' => Class { negated: true, ..Class::chars(" \t\n\r\u{b}\u{c}") },
            'n' => Class::chars("\n"),
            'r' => Class::chars("\r"),
            't' => Class::chars("\t"),
            letter if letter.is_alphanumeric() => return None,
            character => Class::of(&[(character, character)]),
        };
        Some(class)
    }

    fn class(&mut self) -> Option<Class> {
        let negated = self.take('^');
        let mut ranges = Vec::new();
        loop {
            let character = match self.next()? {
                ']' => break,
                '[' if self.peek() == Some(':') => return None,
                '\\' => {
                    let escaped = self.escape()?;
                    match escaped.ranges.as_slice() {
                        [(one, same)] if one == same && !escaped.negated => *one,
                        _ if escaped.negated => return None,
                        several => {
                            ranges.extend_from_slice(several);
                            continue;
                        }
                    }
                }
                character => character,
            };
            let is_range = self.peek() == Some('-') && self.characters.get(self.at + 1) != Some(&']');
            if !is_range {
                ranges.push((character, character));
                continue;
            }
            self.at += 1;
            let last = match self.next()? {
                '\\' => match self.escape()?.ranges.as_slice() {
                    [(one, same)] if one == same => *one,
                    _ => return None,
                },
                last => last,
            };
            if last < character {
                return None;
            }
            ranges.push((character, last));
        }
        Some(Class { negated, ranges })
    }
}

const WORD: [(char, char); 4] = [('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_expressions_are_read() {
        for plain in ["^[a-z]+$", r"^\d{3}-\d{4}$", "abc", "^(a|b)?c*$", r"^[^\s/]{1,5}$", r"^\$$", "", "^(?:x|y)$"] {
            assert!(read(plain).is_some(), "{plain}");
        }
    }

    #[test]
    fn others_are_not() {
        for odd in [r"(?=a)b", r"\bword", r"^a|b$", "a**", "a+?", "[z-a]", "(", "a{3,1}", "a{99999}", r"\p{L}"] {
            assert!(read(odd).is_none(), "{odd}");
        }
    }
}
