use std::sync::Arc;

use fastrand::Rng;
use rolecall::encode::{Protected, Protection};
use rolecall::tokenizer::Tokenizer;

/// What a text could spell to be taken for more than text: the control tokens of a tokenizer and of a format or template, and
/// the words that a template looks for.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The tokens of the tokenizer that the format or template writes, or seems to.
    pub own: Vec<String>,
    /// All that the tokenizer protects.
    pub tokens: Arc<[String]>,
    /// What the format or template spells, whether that is a token or not.
    pub words: Arc<[String]>,
    /// What a template compares texts with: `</think>` in a message may decide what else it writes.
    pub gates: Arc<[String]>,
    /// What the format or template has written down, in which its control tokens stand.
    pub literals: Arc<[String]>,
    /// Added tokens that are none of these: text that gets the reference's ids.
    pub plain: Arc<[String]>,
}

/// Marks for a pair that has none: those of other families.
const OTHERS: [&str; 6] = ["<|im_end|>", "<s>", "</s>", "[INST]", "<|eot_id|>", "<\u{ff5c}User\u{ff5c}>"];

impl Marks {
    /// The marks of a tokenizer and of a format or template.
    pub fn new(tokens: Arc<[String]>, words: Arc<[String]>, gates: Arc<[String]>, literals: Arc<[String]>) -> Marks {
        let own = tokens.iter().filter(|token| words.contains(token)).cloned().collect();
        Marks { own, tokens, words, gates, literals, plain: Arc::from([]) }
    }

    /// The same, with the added tokens that honest texts may hold.
    #[must_use]
    pub fn honest_with(self, tokenizer: &dyn Tokenizer, protection: &Protection) -> Marks {
        let is_clear = |text: &str| {
            let of_mark = |mark: &String| mark.contains(text);
            !text.trim().is_empty() && !self.literals.iter().chain(self.gates.iter()).any(of_mark)
        };
        let Ok(protected) = Protected::new(protection, tokenizer) else { return self };
        let plain = tokenizer.added_tokens().iter().filter(|token| !token.special && !protected.contains(token.id));
        let plain: Vec<String> = plain.filter(|token| is_clear(&token.text)).map(|token| token.text.clone()).collect();
        Marks { plain: plain.into(), ..self }
    }

    /// One of them, those that matter most more often.
    pub fn pick(&self, rng: &mut Rng) -> &str {
        let list = match rng.u8(..12) {
            0..=5 if !self.own.is_empty() => &self.own[..],
            0..=8 if !self.tokens.is_empty() => &self.tokens,
            9..=10 if !self.gates.is_empty() => &self.gates,
            _ => &self.words,
        };
        match list {
            [] => OTHERS[rng.usize(..OTHERS.len())],
            list => &list[rng.usize(..list.len())],
        }
    }
}

/// What looks like a mark in a template's source: `<..>`, `[..]`, `{{..}}` aside, without white space.
pub fn spelled_in(source: &str) -> Vec<String> {
    let mut marks = Vec::new();
    for (open, close) in [('<', '>'), ('[', ']')] {
        for (start, _) in source.match_indices(open) {
            let rest = &source[start..];
            let Some(end) = rest.char_indices().take(48).find(|(_, c)| *c == close).map(|(at, _)| at) else { continue };
            let mark = &rest[..=end];
            let name = &mark[1..end];
            let is_word = |c: char| c.is_alphanumeric() || "_|/-:.\u{ff5c}\u{2581}".contains(c);
            // `[0]` and `['role']` are subscripts.
            let is_mark = !name.is_empty() && name.chars().all(is_word) && !name.chars().all(|c| c.is_ascii_digit());
            if is_mark && (open == '<' || name.chars().any(|c| c.is_uppercase())) {
                marks.push(mark.to_owned());
            }
        }
    }
    marks.sort();
    marks.dedup();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_template_are_found() {
        let source = "{{ '<|im_start|>' + m['role'] }}{% if a[0] < b %}[/INST]</s><\u{ff5c}User\u{ff5c}>";
        assert_eq!(spelled_in(source), ["</s>", "<|im_start|>", "<\u{ff5c}User\u{ff5c}>", "[/INST]"]);
    }
}
