//! Honest texts, and the honest twins of hostile texts.

use fastrand::Rng;

/// Words of many scripts, code, numbers, emoji, letters with combining characters. None contains
/// part of a marker or of a text that templates look for.
const WORDS: [&str; 60] = [
    "the",
    "The",
    "of",
    "hello",
    "world",
    "don't",
    "I'LL",
    "we've",
    "naïve",
    "façade",
    "E=mc2",
    "foo_bar()",
    "x+=1;",
    "self.items",
    "a/b.c",
    "http://a.b/c?d=e",
    "#include",
    "--flag",
    "==",
    "=>",
    "&&",
    "**bold**",
    "1234567",
    "3.14",
    "42%",
    "$9.99",
    "0x1F",
    "2026-11-22",
    "ТЕСТ",
    "привет",
    "мир",
    "Ελληνικά",
    "ς",
    "שלום",
    "مرحبا",
    "العالم",
    "हिन्दी",
    "नमस्ते",
    "ไทยแลนด์",
    "你好",
    "世界",
    "上海人工智能",
    "日本語",
    "カタカナ",
    "ﾊﾝｶｸ",
    "한국어",
    "e\u{301}te\u{301}",
    "o\u{308}\u{323}",
    "👍🏽",
    "👩‍👩‍👧",
    "🇫🇷",
    "☕️",
    "½",
    "ﬁne",
    "①",
    "Ångström",
    "½\u{2044}",
    "ﷺ",
    "\u{1d538}",
    "...",
];

/// Makes a harmless text.
pub fn honest(plain: &[String], rng: &mut Rng) -> String {
    const GAPS: [&str; 12] = [" ", " ", " ", " ", " ", "\n", "\n\n", "  ", "\r\n", "\t", "", "   \n"];
    let mut text = String::new();
    if rng.u8(..6) == 0 {
        text.push_str(GAPS[rng.usize(..GAPS.len())]);
    }
    for at in 0..rng.usize(1..8) {
        if at > 0 {
            text.push_str(GAPS[rng.usize(..GAPS.len())]);
        }
        text.push_str(word(plain, rng));
    }
    if rng.u8(..6) == 0 {
        text.push_str(GAPS[rng.usize(..GAPS.len())]);
    }
    text
}

/// Picks a word, or sometimes an added token that is ordinary text.
fn word<'a>(plain: &'a [String], rng: &mut Rng) -> &'a str {
    match plain {
        [] => WORDS[rng.usize(..WORDS.len())],
        plain if rng.u8(..4) == 0 => &plain[rng.usize(..plain.len())],
        _ => WORDS[rng.usize(..WORDS.len())],
    }
}

/// Makes an honest text with the same white space as another text and a word in place of everything
/// else.
pub fn twin(text: &str, plain: &[String], rng: &mut Rng) -> String {
    let mut twin = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        // Python's `strip` also removes these four characters.
        let is_space = c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
        if is_space {
            twin.push(c);
        } else if !in_word {
            twin.push_str(word(plain, rng));
        }
        in_word = !is_space;
    }
    twin
}

/// Makes the twin of a text, given other texts with their twins. Templates compare texts, so twins
/// are equal where the texts are equal and differ where they differ (as far as words of that shape
/// allow).
pub fn twin_beside<'a>(
    text: &str,
    others: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    plain: &[String],
    rng: &mut Rng,
) -> String {
    if let Some((_, twin)) = others.clone().find(|(other, _)| *other == text) {
        return twin.to_owned();
    }
    let mut found = twin(text, plain, rng);
    for _ in 0..40 {
        if !others.clone().any(|(_, twin)| twin == found) {
            break;
        }
        found = twin(text, plain, rng);
    }
    found
}

/// Makes an honest text, given other texts with their twins. It is its own twin, so it must not be
/// the twin of another text or a text with another twin (as far as the words allow).
pub fn honest_beside<'a>(
    others: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    plain: &[String],
    rng: &mut Rng,
) -> String {
    let mut found = honest(plain, rng);
    for _ in 0..40 {
        if !others.clone().any(|(text, twin)| (text == found) != (twin == found)) {
            break;
        }
        found = honest(plain, rng);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_equal_where_texts_are() {
        let mut rng = Rng::with_seed(1);
        let mut known: Vec<(String, String)> = Vec::new();
        for text in ["a", "b", "c", "d", "e", "a", "f", "g", "h", "b"] {
            let others = known.iter().map(|(text, twin)| (text.as_str(), twin.as_str()));
            let twin = twin_beside(text, others, &[], &mut rng);
            for (other, others) in &known {
                assert_eq!(other == text, *others == twin, "{other} {text} {twin}");
            }
            known.push((text.to_owned(), twin));
        }
    }

    #[test]
    fn an_honest_text_is_no_twin_of_another() {
        for seed in 0..200 {
            let mut rng = Rng::with_seed(seed);
            let expected = honest(&[], &mut rng.clone());
            for others in [[("<s>", expected.as_str())], [(expected.as_str(), "other")]] {
                assert_ne!(honest_beside(others.into_iter(), &[], &mut rng.clone()), expected);
            }
            let same = [(expected.as_str(), expected.as_str())];
            assert_eq!(honest_beside(same.into_iter(), &[], &mut rng), expected);
        }
    }

    #[test]
    fn a_twin_has_the_white_space_and_nothing_else_of_a_text() {
        let spaces = |text: &str| text.split(|c: char| !c.is_whitespace()).collect::<String>();
        for seed in 0..50 {
            let twin = twin(" <|im_end|>\n\nb ", &[], &mut Rng::with_seed(seed));
            assert_eq!(spaces(&twin), " \n\n ");
            assert_eq!(twin.split_whitespace().count(), 2);
            assert!(twin.starts_with(' ') && twin.ends_with(' '), "{twin:?}");
        }
    }
}
