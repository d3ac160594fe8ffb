//! Stretches of a turn: characters that belong to the template, and holes for values.

use rolecall_format::Field;
use rolecall_text::common_items;

/// A character or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Char(char),
    Hole(Field),
    /// Nothing is written, but the enclosing group depends on this field.
    Present(Field),
}

pub(crate) type Sequence = [Item];

/// Returns the items of a literal text.
pub(crate) fn items(text: &str) -> Vec<Item> {
    text.chars().map(Item::Char).collect()
}

/// Returns the items of a literal text in which each occurrence of a key is a hole.
pub(crate) fn items_with_key(text: &str, key: &str) -> Vec<Item> {
    let mut found: Vec<Item> = Vec::new();
    for (at, part) in text.split(key).enumerate() {
        if at > 0 {
            found.push(Item::Hole(Field::Key));
        }
        found.extend(part.chars().map(Item::Char));
    }
    found
}

/// Returns the text of items with a key in its holes.
pub(crate) fn text_with_key(items: &Sequence, key: &str) -> String {
    let mut text = String::new();
    for item in items {
        match item {
            Item::Char(character) => text.push(*character),
            Item::Hole(Field::Key) => text.push_str(key),
            _ => {}
        }
    }
    text
}

/// Returns the literal text of items, without holes.
pub(crate) fn literal(items: &Sequence) -> String {
    let characters = items.iter().filter_map(|item| match item {
        Item::Char(character) => Some(*character),
        Item::Hole(_) | Item::Present(_) => None,
    });
    characters.collect()
}

pub(crate) fn hole_at(items: &Sequence, field: Field) -> Option<usize> {
    items.iter().position(|item| *item == Item::Hole(field))
}

pub(crate) fn common_start(a: &Sequence, b: &Sequence) -> usize {
    common_items(a, b)
}

pub(crate) fn common_end(a: &Sequence, b: &Sequence) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// The positions where a sequence may be cut: not inside a word, not inside angle brackets
/// (`<|im_end|>`, `<parameter=`), and not inside a name in square brackets (`[TOOL_CALLS]`).
#[derive(Debug)]
pub(crate) struct Cuts(Vec<bool>);

/// The maximum length of a marker. Longer text in brackets is plain text.
const LONGEST_MARK: usize = 80;

impl Cuts {
    pub fn of(items: &Sequence) -> Cuts {
        let mut allowed = vec![true; items.len() + 1];
        for at in 1..items.len() {
            let is_word = |item: &Item| matches!(item, Item::Char(c) if c.is_alphanumeric() || *c == '_');
            allowed[at] = !(is_word(&items[at - 1]) && is_word(&items[at]));
        }
        let mut marks: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while at < items.len() {
            let end = match items[at] {
                Item::Char('<') => mark_end(items, at, '>', |c| c != '<' && c != '\n'),
                Item::Char('[') => {
                    let is_name = |c: char| c.is_ascii_uppercase() || c == '_' || c == '/';
                    mark_end(items, at, ']', is_name).filter(|end| items[*end - 1] == Item::Char(']'))
                }
                _ => None,
            };
            match end {
                Some(end) => {
                    allowed[at + 1..end].fill(false);
                    marks.push((at, end));
                    at = end;
                }
                None => at += 1,
            }
        }
        join(items, &marks, &mut allowed);
        Cuts(allowed)
    }

    pub fn allow(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(false)
    }

    /// Returns the last cut position at or before this one.
    pub fn at_most(&self, at: usize) -> usize {
        (0..=at.min(self.0.len().saturating_sub(1))).rev().find(|at| self.0[*at]).unwrap_or(0)
    }

    /// Returns the first cut position at or after this one.
    pub fn at_least(&self, at: usize) -> usize {
        (at..self.0.len()).find(|at| self.0[*at]).unwrap_or(self.0.len().saturating_sub(1))
    }
}

/// Joins markers with a word between them: `<|open|>think<|sep|>`. In
/// `<|start|>model<|kind|>say<|text|>`, only the last two are joined.
fn join(items: &Sequence, marks: &[(usize, usize)], allowed: &mut [bool]) {
    let is_word = |item: &Item| matches!(item, Item::Char(c) if c.is_alphanumeric() || matches!(c, '_' | '-'));
    let word_behind = |end: usize| items[end..].iter().take_while(|item| is_word(item)).count();
    for pair in marks.windows(2) {
        let ((_, end), (next, next_end)) = (pair[0], pair[1]);
        if next > end && word_behind(end) == next - end && word_behind(next_end) == 0 {
            allowed[end..=next].fill(false);
        }
    }
    // If different words follow a marker, it stays joined to them.
    for (at, (start, end)) in marks.iter().enumerate() {
        let word = |end: usize| &items[end..end + word_behind(end)];
        let differs = |(other, (from, to)): (usize, &(usize, usize))| {
            other != at && items[*from..*to] == items[*start..*end] && !word(*to).is_empty() && word(*to) != word(*end)
        };
        if !word(*end).is_empty() && marks.iter().enumerate().any(differs) {
            allowed[*end] = false;
        }
    }
}

/// Returns the end of a marker that opens here: after its closing bracket, or at the end of the
/// literal text.
fn mark_end(items: &Sequence, start: usize, close: char, inside: impl Fn(char) -> bool) -> Option<usize> {
    for (at, item) in items.iter().enumerate().skip(start + 1).take(LONGEST_MARK) {
        match item {
            Item::Char(c) if *c == close => return (at > start + 1).then_some(at + 1),
            Item::Char(c) if inside(*c) => {}
            Item::Char(_) => return None,
            Item::Hole(_) | Item::Present(_) => return (at > start + 1).then_some(at),
        }
    }
    (items.len() - start <= LONGEST_MARK && items.len() > start + 1).then_some(items.len())
}

pub(crate) fn is_space(item: &Item) -> bool {
    matches!(item, Item::Char(c) if c.is_whitespace())
}
