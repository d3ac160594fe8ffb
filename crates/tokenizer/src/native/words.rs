use std::ops::ControlFlow;

use super::automaton::{Automaton, TooHard};
use super::block_words;
use super::char_classes::CharClasses;
use super::lanes::{Lanes, Scan};
use super::pattern::RegexPattern;
use super::proved_rules::ProvedRules;
use super::scanner::{Automata, Scanner};

/// The number of bytes, per byte of text, that may be examined in vain before the text is left to
/// the reference crate.
const PATIENCE: usize = 64;

/// The number of words to hand over together.
pub(super) const RUN: usize = 256;

/// Splits a text into words that are merged separately, with one pattern or several nested
/// patterns.
pub(crate) struct Words {
    classes: CharClasses,
    splits: Vec<Split>,
    /// All patterns in one table, if they allow it.
    scanner: Option<Box<Scanner>>,
    /// How most text is split, if the patterns are like published ones.
    proved: Option<Box<ProvedRules>>,
}

/// A pattern that splits a text into its matches and the text between them.
struct Split {
    automaton: Automaton,
    /// Whether the text between matches is dropped.
    drops_gaps: bool,
}

impl Words {
    /// Compiles patterns, each with whether the text between its matches is dropped. The error
    /// names what no automaton can run.
    pub fn new(patterns: &[(RegexPattern, bool)]) -> Result<Self, String> {
        let classes = CharClasses::new(patterns.iter().flat_map(|(pattern, _)| &pattern.sets))?;
        let mut first_set = 0;
        let mut splits = Vec::with_capacity(patterns.len());
        for (pattern, drops_gaps) in patterns {
            splits.push(Split { automaton: Automaton::new(pattern, &classes, first_set)?, drops_gaps: *drops_gaps });
            first_set += pattern.sets.len();
        }
        let mut words = Self { classes, splits, scanner: None, proved: None };
        words.scanner = words.automata().and_then(|automata| Scanner::new(&automata)).map(Box::new);
        words.proved =
            words.automata().filter(|_| words.scanner.is_some()).as_ref().and_then(ProvedRules::of).map(Box::new);
        Ok(words)
    }

    /// Returns the automata, if all text belongs to a word.
    fn automata(&self) -> Option<Automata<'_>> {
        let (inner, outer) = self.splits.split_last()?;
        (!self.drop_text()).then(|| Automata {
            outer: outer.iter().map(|split| &split.automaton).collect(),
            inner: &inner.automaton,
            classes: &self.classes,
        })
    }

    pub fn drop_text(&self) -> bool {
        self.splits.iter().any(|split| split.drops_gaps)
    }

    /// Returns a place between two positions at which a word begins, whatever precedes it.
    pub fn find_place(&self, text: &str, from: usize, to: usize) -> Option<usize> {
        self.scanner.as_ref()?.find_word_start(&self.classes, text, from, to).map(|(place, _)| place)
    }

    /// Calls `visit` with runs of neighboring words, left to right: the start of the first word and
    /// the end of each.
    pub fn split(
        &self,
        text: &str,
        (start, end): (usize, usize),
        lanes: &mut Lanes,
        visit: &mut impl FnMut(usize, &[u32]) -> ControlFlow<()>,
    ) -> Result<(), TooHard> {
        let mut patience = (end - start).saturating_add(64).saturating_mul(PATIENCE);
        if let (Some(scanner), Some(automata)) = (&self.scanner, self.automata()) {
            let mut scan = Scan { scanner, automata, text, end, patience };
            return match &self.proved {
                Some(rules) => block_words::split(rules, &mut scan, start, lanes, visit),
                None => lanes.split(&mut scan, start, scanner.first_row(), visit).map(|_| ()),
            };
        }
        let mut run = WordRun { start, ends: Vec::new(), visit };
        let done = self.split_by(&self.splits, text, (start, end), &mut patience, &mut run)?;
        if done.is_continue() {
            // Whether there is more to come no longer matters.
            let _ = run.hand_over();
        }
        Ok(())
    }

    fn split_by<V: FnMut(usize, &[u32]) -> ControlFlow<()>>(
        &self,
        splits: &[Split],
        text: &str,
        (start, end): (usize, usize),
        patience: &mut usize,
        run: &mut WordRun<'_, V>,
    ) -> Result<ControlFlow<()>, TooHard> {
        let Some((split, inner)) = splits.split_first() else {
            return Ok(run.push(start, end));
        };
        let (mut at, mut open) = (start, start);
        while at < end {
            let (found, looked) = split.automaton.find(&self.classes, text, at, end);
            if let Some(behind) = found {
                if open < at && !split.drops_gaps && self.split_by(inner, text, (open, at), patience, run)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if self.split_by(inner, text, (at, behind), patience, run)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                *patience = patience.checked_sub(looked.saturating_sub(behind)).ok_or(TooHard)?;
                (at, open) = (behind, behind);
            } else {
                *patience = patience.checked_sub(looked - at).ok_or(TooHard)?;
                at += 1;
                while !text.is_char_boundary(at) {
                    at += 1;
                }
            }
        }
        if open < end && !split.drops_gaps {
            return self.split_by(inner, text, (open, end), patience, run);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The words that have not been handed over.
struct WordRun<'a, V> {
    start: usize,
    ends: Vec<u32>,
    visit: &'a mut V,
}

impl<V: FnMut(usize, &[u32]) -> ControlFlow<()>> WordRun<'_, V> {
    /// Adds a word. Words are handed over together if each begins where the one before it ends.
    fn push(&mut self, start: usize, end: usize) -> ControlFlow<()> {
        let reached = self.ends.last().map_or(self.start, |&end| end as usize);
        if (start != reached || self.ends.len() >= RUN) && self.hand_over().is_break() {
            return ControlFlow::Break(());
        }
        if self.ends.is_empty() {
            self.start = start;
        }
        self.ends.push(end as u32);
        ControlFlow::Continue(())
    }

    fn hand_over(&mut self) -> ControlFlow<()> {
        if self.ends.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = (self.visit)(self.start, &self.ends);
        self.ends.clear();
        flow
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::super::char_block::{EITHER_CASE, FAR_MARK, ISLAND, UNKNOWN};
    use super::super::lanes::Lanes;
    use super::super::pattern::RegexPattern;
    use super::super::proved_rules::ProvedRules;
    use super::super::word_rules::WordRules;
    use super::Words;

    /// Patterns of published tokenizers, from the first to the last that splits.
    const PATTERNS: [&[&str]; 15] = [
        &[r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        &[
            r"\p{N}{1,3}",
            r"[一-龥぀-ゟ゠-ヿ]+",
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
        ],
        &[
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        &[r"\p{N}", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
        // Digits that are split off, and then again.
        &[
            r"\p{N}+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        &[r"\p{N}{1,3}", r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
        &[r" ?\p{N}+", r" ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
        // Text between matches, and a pattern that looks ahead before another.
        &[r"[a-z]+|\s+x"],
        &[r"\s?\p{L}+", r"[a-m]+"],
        &[r"[\r\n]+", r" {2,}(?! )|[^ ]x"],
        // A match that is certain only behind its end, after text between matches.
        &[r"\s+(?!\S)"],
        &[r"\p{N}+", r"[a-z]+|\s+(?!\S)"],
    ];

    fn split(words: &Words, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let done = words.split(text, (0, text.len()), &mut Lanes::default(), &mut |mut start, ends| {
            for &end in ends {
                found.push((start, end as usize));
                start = end as usize;
            }
            ControlFlow::Continue(())
        });
        assert!(done.is_ok(), "too hard");
        found
    }

    #[test]
    fn one_pass_over_all_patterns_finds_what_they_find_one_after_the_other() {
        let mut state = 1u64;
        let mut random = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let parts: Vec<&str> =
            "the| of|ABC|don't|'S| |  |     |\n|\r\n|\n    |\t|1|23|4567|, |...|/|x|-->| =|中|文字|。|\u{3000}|\
             \u{a0}|é|e\u{301}|\u{1f600}|ß|K|ſ|١|क्|\n\n\n| \n |  x|'ll|É|ʰ|々|〇|゛|，|A中|中A|（(|中's"
                .split('|')
                .collect();
        let (mut scanned, mut by_rules) = (0, 0);
        for patterns in PATTERNS {
            let patterns: Vec<_> =
                patterns.iter().map(|pattern| (RegexPattern::parse(pattern).unwrap(), false)).collect();
            let words = Words::new(&patterns).unwrap();
            scanned += usize::from(words.scanner.is_some());
            let mut step_by_step = Words::new(&patterns).unwrap();
            step_by_step.scanner = None;
            by_rules += usize::from(words.proved.is_some());
            for round in 0..3_000 {
                let few = 1 + random(parts.len());
                let length = if round % 50 == 0 { 2_000 } else { random(150) };
                let text: String = (0..length).map(|_| parts[random(few)]).collect();
                assert_eq!(split(&words, &text), split(&step_by_step, &text), "{text:?}");
            }
        }
        assert_eq!(scanned, PATTERNS.len() - 2, "the others are in one table");
        assert_eq!(by_rules, 7, "the published ones");
    }

    #[test]
    fn each_set_of_rules_splits_ascii_text_as_its_patterns_do() {
        // With some characters that the rules do not know, which are marks and white space here.
        let characters: Vec<char> = "aabBsStrelvdm'''''12345  \t\n\n\r((/-.~é\u{a0}".chars().collect();
        let mut state = 7u64;
        let mut random = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let mut found = 0;
        for rules in WordRules::all() {
            let (first, rest) = rules.patterns();
            let patterns = if rules.digits_first { vec![first, &*rest] } else { vec![&*rest] };
            let patterns: Vec<_> =
                patterns.into_iter().map(|pattern| (RegexPattern::parse(pattern).unwrap(), false)).collect();
            let mut words = Words::new(&patterns).unwrap();
            found += usize::from(words.proved.as_ref().is_some_and(|proved| proved.rules == rules));
            let mut step_by_step = Words::new(&patterns).unwrap();
            step_by_step.scanner = None;
            words.proved = words.proved.take().map(|proved| Box::new(ProvedRules { rules, ..*proved }));
            for _ in 0..20 {
                let (first, few) = (random(characters.len()), 2 + random(characters.len() - 1));
                let text: String =
                    (0..random(300)).map(|_| characters[(first + random(few)) % characters.len()]).collect();
                assert_eq!(split(&words, &text), split(&step_by_step, &text), "{rules:?} {text:?}");
            }
        }
        assert_eq!(found, WordRules::all().len(), "all are found again");
    }

    #[test]
    fn other_characters_are_of_the_kind_with_which_all_patterns_do_the_same() {
        let characters = ['中', 'é', 'É', '，', '١', '\u{3000}', '\u{301}'];
        let letters_alike = [b'A', b'A', b'A', b'!', b'0', b'\t', b'!'];
        let with_cases = |letter| [letter, b'a', b'A', b'!', b'0', b'\t', UNKNOWN];
        let with_latin_apart = [ISLAND, UNKNOWN, UNKNOWN, FAR_MARK, b'0', b'\t', UNKNOWN];
        let expected = [
            letters_alike,
            letters_alike,
            with_cases(EITHER_CASE),
            with_latin_apart,
            with_cases(ISLAND),
            with_cases(EITHER_CASE),
            letters_alike,
        ];
        for (patterns, expected) in PATTERNS.iter().zip(expected) {
            let patterns: Vec<_> =
                patterns.iter().map(|pattern| (RegexPattern::parse(pattern).unwrap(), false)).collect();
            let proved = Words::new(&patterns).unwrap().proved.unwrap();
            assert_eq!(characters.map(|c| proved.kinds.of(c as usize).unwrap()), expected, "{:?}", proved.rules);
        }
    }

    #[test]
    fn a_lane_has_room_for_all_words_of_a_run_that_is_read_again() {
        let words = || Words::new(&[(RegexPattern::parse("a+b|a").unwrap(), false)]).unwrap();
        let (words, mut step_by_step) = (words(), words());
        step_by_step.scanner = None;
        for count in [1_000, 1_023, 1_024, 1_025, 2_000] {
            // The rest gives the text the patience to read the run again for each of its words.
            let text = "a".repeat(count) + &"c".repeat(100_000);
            assert_eq!(split(&words, &text), split(&step_by_step, &text), "{count}");
        }
    }

    #[test]
    fn a_match_that_is_sought_in_vain_at_each_place_is_too_hard() {
        let words = Words::new(&[(RegexPattern::parse("a+b").unwrap(), false)]).unwrap();
        assert!(words.scanner.is_some());
        let text = "a".repeat(100_000);
        let done = words.split(&text, (0, text.len()), &mut Lanes::default(), &mut |_, _| ControlFlow::Continue(()));
        assert!(done.is_err());
    }
}
