use std::sync::Arc;

use fastrand::Rng;
use rolecall::encode::{ProtectedTokens, Protection};
use rolecall::tokenizer::Tokenizer;

/// Everything that a text could spell to be mistaken for more than text: the control tokens of a
/// tokenizer and of a format or template, and the words that a template looks for.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The tokenizer's added tokens that the format or template spells.
    pub own: Vec<String>,
    /// All added tokens of the tokenizer; for a format also the texts of its control tokens.
    pub tokens: Arc<[String]>,
    /// Markers that the format or template spells, whether tokens or not.
    pub words: Arc<[String]>,
    /// The texts that a template compares texts with: `</think>` in a message may decide what else
    /// it writes.
    pub gates: Arc<[String]>,
    /// The literal text of the format or template, which contains its control tokens.
    pub literals: Arc<[String]>,
    /// Added tokens that are none of the above: in a message they get the reference's ids.
    pub plain: Arc<[String]>,
}

/// Markers of other families, for a pair that has none.
const OTHERS: [&str; 6] = ["<|im_end|>", "<s>", "</s>", "[INST]", "<|eot_id|>", "<\u{ff5c}User\u{ff5c}>"];

impl Marks {
    /// Collects the markers of a tokenizer and of a format or template.
    pub fn new(tokens: Arc<[String]>, words: Arc<[String]>, gates: Arc<[String]>, literals: Arc<[String]>) -> Marks {
        let own = tokens.iter().filter(|token| words.contains(token)).cloned().collect();
        Marks { own, tokens, words, gates, literals, plain: Arc::from([]) }
    }

    /// Adds the added tokens that honest texts may contain.
    #[must_use]
    pub fn honest_with(self, tokenizer: &dyn Tokenizer, protection: &Protection) -> Marks {
        let is_clear = |text: &str| {
            let of_mark = |mark: &String| mark.contains(text);
            !text.trim().is_empty() && !self.literals.iter().chain(self.gates.iter()).any(of_mark)
        };
        let Ok(protected) = ProtectedTokens::new(protection, tokenizer) else { return self };
        let plain = tokenizer.added_tokens().iter().filter(|token| !token.special && !protected.contains(token.id));
        let plain: Vec<String> = plain.filter(|token| is_clear(&token.text)).map(|token| token.text.clone()).collect();
        Marks { plain: plain.into(), ..self }
    }

    /// Picks a marker; the most relevant ones come up more often.
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

/// Finds everything in a template's source that looks like a marker: `<..>` and `[..]` without
/// white space.
pub fn spelled_in(source: &str) -> Vec<String> {
    let mut marks = Vec::new();
    for (open, close) in [('<', '>'), ('[', ']')] {
        for (start, _) in source.match_indices(open) {
            let rest = &source[start..];
            let Some(end) = rest.char_indices().take(48).find(|(_, c)| *c == close).map(|(at, _)| at) else { continue };
            let mark = &rest[..=end];
            let name = &mark[1..end];
            let is_word = |c: char| c.is_alphanumeric() || "_|/-:.\u{ff5c}\u{2581}".contains(c);
            // `[0]` and `['role']` are subscripts, not markers.
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
