//! Tags: markers that are recognized by their brackets alone.

use std::ops::Range;

/// The maximum length of a tag.
const LONGEST: usize = 64;

/// Returns the length of the tag that a text begins with: letters in angle brackets, or capitals in
/// square brackets. At the end of a text, where a hole follows, the closing bracket may be missing.
///
/// ```
/// use rolecall_format::tag_length;
/// assert_eq!(tag_length("<call>x"), Some(6));
/// assert_eq!(tag_length("[CALLS]"), Some(7));
/// assert_eq!(tag_length("[x]"), None);
/// assert_eq!(tag_length("<f="), Some(3));
/// ```
pub fn tag_length(text: &str) -> Option<usize> {
    let open = text.chars().next()?;
    let close = match open {
        '<' => '>',
        '＜' => '＞',
        '[' => ']',
        _ => return None,
    };
    let inside = &text[open.len_utf8()..];
    let end = inside.find(|c: char| c == close || ['<', '[', '{', '\n', '`'].contains(&c));
    let (inside, length) = match end {
        Some(end) if inside[end..].starts_with(close) => (&inside[..end], open.len_utf8() + end + close.len_utf8()),
        // The closing bracket may follow a hole.
        None if open != '[' => (inside, text.len()),
        _ => return None,
    };
    let is_mark = match open {
        '[' => inside.chars().filter(char::is_ascii_uppercase).count() >= 2 && !inside.contains(char::is_lowercase),
        _ => inside.contains(char::is_alphabetic) && !inside.starts_with(char::is_whitespace),
    };
    (is_mark && inside.trim_end() == inside.trim() && length <= LONGEST).then_some(length)
}

/// Returns the places of all tags in a text.
pub fn tags(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(first) = text[at..].chars().next() {
            let start = at;
            match tag_length(&text[at..]) {
                Some(length) => {
                    at += length;
                    return Some(start..at);
                }
                None => at += first.len_utf8(),
            }
        }
        None
    })
}

/// Reports whether a tag is a marker wherever it occurs. A single word in lowercase may be an element
/// of HTML or XML, or a placeholder.
pub fn is_clear_tag(tag: &str) -> bool {
    let inside = tag.trim_start_matches(['<', '＜', '[', '/']).trim_end_matches(['>', '＞', ']']);
    if inside.starts_with('|') || inside.ends_with('|') || inside.contains(['｜', '▁']) {
        return true;
    }
    let is_closed = tag.ends_with(['>', '＞', ']']);
    let is_word = !inside.contains(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    let is_capitals =
        inside.chars().filter(char::is_ascii_uppercase).count() >= 2 && !inside.contains(char::is_lowercase);
    is_word && (inside.ends_with('=') || (is_closed && (is_capitals || inside.contains(['_', '=']))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_between_other_text() {
        let found = |text: &'static str| tags(text).map(|span| &text[span]).collect::<Vec<_>>();
        assert_eq!(found("say <|a|>b<c>, 1 < 2 > 0, [GO] [x]"), ["<|a|>", "<c>", "[GO]"]);
        assert_eq!(found("é <f="), ["<f="]);
    }

    #[test]
    fn an_element_of_html_is_not_clear() {
        for tag in ["<|go|>", "<｜go｜>", "<tool_go>", "</tool_go>", "<GO>", "[GO]", "[/GO]", "<f=", "<f=x>", "<|go"]
        {
            assert!(is_clear_tag(tag), "{tag}");
        }
        for tag in ["<p>", "</table>", "<a href=\"", "<my-element>", "<xs:item>", "<Name>", "<h1>", "<tool_go", "<x y>"]
        {
            assert!(!is_clear_tag(tag), "{tag}");
        }
    }
}
