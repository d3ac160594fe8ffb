/// A pattern for model names. `*` matches any text, and letter case is ignored.
///
/// ```
/// use rolecall_format::Pattern;
/// assert!(Pattern::new("acme/tiny-chat-*").matches("Acme/Tiny-Chat-7B"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    lower: String,
}

impl Pattern {
    /// Creates a pattern from its text.
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), lower: text.to_lowercase() }
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reports whether a model's name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.fit(name).is_some()
    }

    /// Returns the specificity of a match: the number of characters that are not `*`, or
    /// `usize::MAX` for a pattern without `*`. If the name has no maker (`tiny-chat-7b`), the maker
    /// in the pattern is ignored.
    ///
    /// ```
    /// use rolecall_format::Pattern;
    /// let pattern = Pattern::new("acme/tiny-*");
    /// assert_eq!(pattern.fit("acme/tiny-7b"), Some(10));
    /// assert_eq!(pattern.fit("tiny-7b"), Some(5));
    /// assert_eq!(pattern.fit("other/tiny-7b"), None);
    /// ```
    pub fn fit(&self, name: &str) -> Option<usize> {
        let name = name.to_lowercase();
        let asked = match self.lower.split_once('/') {
            Some((_, model)) if !name.contains('/') => model,
            _ => self.lower.as_str(),
        };
        fits(asked, &name).then(|| match asked.contains('*') {
            true => asked.chars().filter(|c| *c != '*').count(),
            false => usize::MAX,
        })
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything_and_case_is_ignored() {
        let cases = [
            ("internlm/internlm2-chat-*", "InternLM/internlm2-chat-7b", true),
            ("internlm/internlm2-chat-*", "internlm/internlm2-7b", false),
            ("*-chat", "qwen-7b-chat", true),
            ("*-chat", "qwen-7b-chat-int4", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("ab*ba", "aba", false),
            ("acme/tiny-*", "tiny-7b", true),
            ("acme/tiny-*", "home/tiny-7b", false),
            ("tiny-*", "acme/tiny-7b", false),
        ];
        for (pattern, name, fits) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }
}
