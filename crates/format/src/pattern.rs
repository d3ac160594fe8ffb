/// A model-name pattern: `*` stands for anything, letter case is ignored.
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
    /// The pattern that is written so.
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), lower: text.to_lowercase() }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How much it says: its letters that are not `*`. A pattern without `*` says all.
    pub fn specificity(&self) -> usize {
        match self.lower.contains('*') {
            true => self.lower.chars().filter(|c| *c != '*').count(),
            false => usize::MAX,
        }
    }

    /// Whether a model's name fits.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let mut pieces = self.lower.split('*');
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
        ];
        for (pattern, name, fits) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }
}
