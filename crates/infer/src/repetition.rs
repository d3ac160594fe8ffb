//! Decomposition of the text around the elements of a row: the text that belongs to each element,
//! between two elements, and around all of them.

use rolecall_format::Field;

use crate::sequence::{Cuts, Item, Sequence, common_end, common_start, hole_at, is_space};

/// The parts of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The text before all elements.
    pub open: Vec<Item>,
    /// The text before each element.
    pub prefix: Vec<Item>,
    /// The text between two elements.
    pub separator: Vec<Item>,
    /// The text after each element.
    pub suffix: Vec<Item>,
    /// The text after all elements.
    pub close: Vec<Item>,
}

/// The quality of a decomposition, compared in this order: whether it explains the empty row, the
/// length of the text that the tags around a value begin with, the length of the suffix, whether
/// the prefix does not begin with white space, and the length of the prefix. Higher is better.
type Score = (bool, usize, usize, bool, usize);

/// Decomposes a row, so that its parts join to the given text, and to the text of an empty row if
/// any decomposition does.
///
/// Each element gets as much of the text after it as possible, so that `\n</p>\n<p>` is a closing
/// line and an opening line.
pub(crate) fn take_apart(before: &Sequence, between: &Sequence, after: &Sequence, empty: Option<&Sequence>) -> Row {
    let cuts = [Cuts::of(before), Cuts::of(between), Cuts::of(after)];
    let most_suffix = common_start(between, after);
    let most_prefix = common_end(between, before);
    let mut best: Option<(Score, usize, usize)> = None;
    for suffix in 0..=most_suffix {
        if !(cuts[1].allow(suffix) && cuts[2].allow(suffix)) {
            continue;
        }
        for prefix in 0..=most_prefix.min(between.len() - suffix) {
            if !(cuts[1].allow(between.len() - prefix) && cuts[0].allow(before.len() - prefix)) {
                continue;
            }
            let (open, close) = (&before[..before.len() - prefix], &after[suffix..]);
            let is_met = empty.is_none_or(|empty| {
                empty.len() == open.len() + close.len() && empty.starts_with(open) && empty.ends_with(close)
            });
            let begins_with_space = is_indented(&before[before.len() - prefix..]);
            // If the text after a value repeats the key, it is a tag like the one before the value.
            let (first, last) = (&before[before.len() - prefix..], &after[..suffix]);
            let lead =
                if hole_at(last, Field::Key).is_some() || has_prefix(last) { common_start(first, last) } else { 0 };
            let score = (is_met, lead, suffix, !begins_with_space, prefix);
            if best.is_none_or(|(known, ..)| score > known) {
                best = Some((score, suffix, prefix));
            }
        }
    }
    let (suffix, prefix) = best.map_or((0, 0), |(_, suffix, prefix)| (suffix, prefix));
    Row {
        open: before[..before.len() - prefix].to_vec(),
        prefix: before[before.len() - prefix..].to_vec(),
        separator: between[suffix..between.len() - prefix].to_vec(),
        suffix: after[..suffix].to_vec(),
        close: after[suffix..].to_vec(),
    }
}

/// Reports whether a text begins with a prefix before a tag, such as `#` in `#</f>`. What closes a
/// value, such as `"}` in `"}</f>`, is no prefix.
fn has_prefix(text: &Sequence) -> bool {
    let closes = |c: char| matches!(c, '"' | '\'' | '}' | ']' | ')' | '<');
    let is_prefix = |item: &Item| matches!(item, Item::Char(c) if c.is_ascii_punctuation() && !closes(*c));
    let length = text.iter().take_while(|item| is_prefix(item)).count();
    length > 0 && text.get(length) == Some(&Item::Char('<'))
}

/// Reports whether the prefix begins with more whitespace than the single space before a word.
fn is_indented(prefix: &Sequence) -> bool {
    match prefix {
        [Item::Char(' '), Item::Char(next), ..] if next.is_alphanumeric() => false,
        [first, ..] => is_space(first),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::{items, literal};

    fn parts(before: &str, between: &str, after: &str, empty: Option<&str>) -> [String; 5] {
        let row = take_apart(&items(before), &items(between), &items(after), empty.map(items).as_deref());
        [row.open, row.prefix, row.separator, row.suffix, row.close].map(|part| literal(&part))
    }

    #[test]
    fn a_list_of_objects_has_brackets_around_and_commas_between() {
        let found = parts("[CALLS] [{\"name\": \"", "}, {\"name\": \"", "}]</s>", None);
        assert_eq!(found, ["[CALLS] [", "{\"name\": \"", ", ", "}", "]</s>"]);
    }

    #[test]
    fn a_prefix_before_a_tag_stays_with_it() {
        let found = parts("#<uses>\n#<use n=\"", "#</use>\n#<use n=\"", "#</use>\n#</uses>", None);
        assert_eq!(found, ["#<uses>\n", "#<use n=\"", "", "#</use>\n", "#</uses>"]);
    }

    #[test]
    fn a_mark_is_never_cut() {
        let found = parts("\"><param name=\"", "</param><param name=\"", "</param></call>", Some("\"></call>"));
        assert_eq!(found, ["\">", "<param name=\"", "", "</param>", "</call>"]);
    }

    #[test]
    fn what_an_empty_row_leaves_decides() {
        let row = ("\">\n<p name=\"", "</p>\n<p name=\"", "</p>\n</call>");
        assert_eq!(parts(row.0, row.1, row.2, Some("\">\n</call>")), ["\">\n", "<p name=\"", "", "</p>\n", "</call>"]);
        let found = parts(row.0, row.1, row.2, Some("\">\n\n</call>"));
        assert_eq!(found, ["\">\n", "<p name=\"", "\n", "</p>", "\n</call>"]);
    }
}
