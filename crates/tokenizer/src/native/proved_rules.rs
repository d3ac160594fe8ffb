//! Which rules split text as patterns do, and what other characters are like ASCII characters to them.

use std::collections::{BTreeSet, HashSet};

use super::automaton::{Automaton, DEAD, START};
use super::char_block::{EITHER_CASE, FAR_MARK, ISLAND, UNKNOWN};
use super::char_classes::{CharClasses, CharTable};
use super::pattern::RegexPattern;
use super::scanner::Automata;
use super::word_rules::{Contractions, Digits, FAR_MARK_CHAR, ISLAND_CHAR, ISLANDS, Tail, WordRules};

/// Rules that split text as patterns do, as long as it has only characters of known kinds.
pub(super) struct ProvedRules {
    pub rules: WordRules,
    /// The kind of each character.
    pub kinds: CharTable,
}

/// An automaton for which the rules are known to be right.
struct RulesModel {
    automaton: Automaton,
    classes: CharClasses,
}

/// The class of a character in two automata, and its kind.
type ClassPair = (usize, usize, u8);

impl ProvedRules {
    /// Returns the rules that split text as these patterns do, if there are such rules.
    pub fn of(automata: &Automata<'_>) -> Option<Self> {
        let (outer, islands): (Vec<&Automaton>, Vec<&Automaton>) =
            automata.outer.iter().partition(|outer| reads_ascii(outer, automata.classes));
        let digits_first = !outer.is_empty();
        let rules = guess(automata, outer.first().copied(), !islands.is_empty());
        let (outer_pattern, inner_pattern) = rules.patterns();
        let pairs = |model: &RulesModel, with_digits| ascii_pairs(automata.classes, &model.classes, with_digits);

        let digits = RulesModel::new(outer_pattern)?;
        if let [outer] = outer[..] {
            agree(outer, &digits.automaton, &pairs(&digits, true)).then_some(())?;
        }
        (outer.len() < 2).then_some(())?;
        let inner = RulesModel::new(&inner_pattern)?;
        agree(automata.inner, &inner.automaton, &pairs(&inner, !digits_first)).then_some(())?;
        (!digits_first || keep_digits_together(rules, automata)).then_some(())?;

        let kinds = find_kinds(automata, (&outer, &islands), (&digits, &inner), digits_first)
            .unwrap_or_else(|| vec![UNKNOWN; automata.classes.count()]);
        let kinds = automata.classes.table().map(|class| kinds.get(usize::from(class)).copied().unwrap_or(UNKNOWN));
        Some(Self { rules, kinds })
    }
}

impl RulesModel {
    fn new(pattern: &str) -> Option<Self> {
        let pattern = RegexPattern::parse(pattern).ok()?;
        let classes = CharClasses::new(pattern.sets.iter()).ok()?;
        let automaton = Automaton::new(&pattern, &classes, 0).ok()?;
        Some(Self { automaton, classes })
    }

    /// Returns the class of what stands for a kind of characters.
    fn class(&self, kind: u8) -> Option<usize> {
        let character = match kind {
            EITHER_CASE => 'a',
            ISLAND => ISLAND_CHAR,
            FAR_MARK => FAR_MARK_CHAR,
            _ => char::from(kind),
        };
        self.classes.of(character as usize)
    }
}

/// Asks the automata for what rules differ in.
fn guess(automata: &Automata<'_>, outer: Option<&Automaton>, islands_first: bool) -> WordRules {
    let length =
        |automaton: &Automaton, text: &str| automaton.find(automata.classes, text, 0, text.len()).0.unwrap_or_default();
    let ends = |text| length(automata.inner, text);
    WordRules {
        after_any: ends("(a") == 2,
        cases: ends("aA") == 1,
        contractions: match (ends("a's"), ends("'sa"), ends("'Sa")) {
            (3, ..) => Contractions::Endings,
            (_, 2, 2) => Contractions::AnyCaseWords,
            (_, 2, _) => Contractions::Words,
            _ => Contractions::Nothing,
        },
        digits: match outer.map_or_else(|| ends("1234"), |outer| length(outer, "1234")) {
            1 => Digits::One,
            3 => Digits::UpToThree,
            _ => Digits::All,
        },
        digits_first: outer.is_some(),
        islands_first,
        tail: match ends("(\n/") {
            3 => Tail::BreaksAndSlashes,
            2 => Tail::Breaks,
            _ => Tail::Nothing,
        },
        breaks: ends("\n\na") == 2,
    }
}

/// Reports whether the digits that are split off together are not split again.
fn keep_digits_together(rules: WordRules, automata: &Automata<'_>) -> bool {
    let longest = match rules.digits {
        Digits::One => 1,
        Digits::UpToThree => 3,
        Digits::All => return false,
    };
    let is_one_word = |digits: &str| {
        let find = |at| automata.inner.find(automata.classes, digits, at, digits.len()).0;
        // Without a match, it is text between matches.
        find(0).map_or_else(|| (1..digits.len()).all(|at| find(at).is_none()), |end| end == digits.len())
    };
    let bound = 10usize.pow(longest);
    (1..=longest as usize)
        .all(|length| (0..bound).map(|number| format!("{number:03}")).all(|digits| is_one_word(&digits[3 - length..])))
}

/// Returns the kind of each class of characters: that of an ASCII character if they are in the same
/// sets; otherwise the first with which the automata do the same as the rules' own.
fn find_kinds(
    automata: &Automata<'_>,
    (outer, islands): (&[&Automaton], &[&Automaton]),
    (digits, inner): (&RulesModel, &RulesModel),
    digits_first: bool,
) -> Option<Vec<u8>> {
    let mut kinds = vec![UNKNOWN; automata.classes.count()];
    for (byte, class) in known_characters(automata.classes) {
        if kinds[class] == UNKNOWN {
            kinds[class] = byte;
        }
    }
    let is_split_off = |class| automata.outer.iter().any(|outer| reads(outer, class));
    let mut pairs = ascii_pairs(automata.classes, &inner.classes, !digits_first);
    for class in (0..kinds.len()).filter(|&class| kinds[class] == UNKNOWN && !is_split_off(class)).collect::<Vec<_>>() {
        for kind in [b'a', EITHER_CASE, b'(', b'\t', ISLAND, FAR_MARK] {
            let pair = (class, inner.class(kind)?, kind);
            if (kind != ISLAND || islands.is_empty()) && pairs.insert(pair) {
                if agree(automata.inner, &inner.automaton, &pairs) {
                    kinds[class] = kind;
                    break;
                }
                pairs.remove(&pair);
            }
        }
    }
    // What the other patterns do with all these characters is proved last.
    let all_pairs = |model: &RulesModel, kinds: &[u8]| {
        let mut pairs = ascii_pairs(automata.classes, &model.classes, true);
        for (class, &kind) in kinds.iter().enumerate().filter(|(_, kind)| **kind != UNKNOWN) {
            pairs.insert((class, model.class(kind)?, kind));
        }
        Some(pairs)
    };
    if let &[islands] = islands {
        let model = RulesModel::new(ISLANDS)?;
        // The last pattern must not split them again.
        let mut pairs = BTreeSet::new();
        for class in (0..kinds.len()).filter(|&class| reads(islands, class)) {
            let pair = (class, model.class(ISLAND)?, ISLAND);
            pairs.insert(pair);
            kinds[class] = ISLAND;
            let is_island = !outer.iter().any(|outer| reads(outer, class))
                && agree(automata.inner, &model.automaton, &pairs)
                && agree(islands, &model.automaton, &all_pairs(&model, &kinds)?);
            if !is_island {
                pairs.remove(&pair);
                kinds[class] = UNKNOWN;
            }
        }
        agree(islands, &model.automaton, &all_pairs(&model, &kinds)?).then_some(())?;
    }
    (islands.len() < 2).then_some(())?;
    outer
        .iter()
        .all(|outer| all_pairs(digits, &kinds).is_some_and(|pairs| agree(outer, &digits.automaton, &pairs)))
        .then_some(())?;
    Some(kinds)
}

/// Returns the ASCII characters of which blocks know the kind, each with its class.
fn known_characters(classes: &CharClasses) -> impl Iterator<Item = (u8, usize)> + '_ {
    let known = |byte: &u8| matches!(byte, 9..=13 | b' '..=b'~');
    (0..128).filter(known).map(|byte| (byte, usize::from(classes.ascii()[usize::from(byte)])))
}

fn ascii_pairs(left: &CharClasses, right: &CharClasses, with_digits: bool) -> BTreeSet<ClassPair> {
    let pairs = known_characters(left).zip(known_characters(right));
    let pairs = pairs.map(|((byte, class), (_, other))| (class, other, byte));
    pairs.filter(|(.., byte)| with_digits || !byte.is_ascii_digit()).collect()
}

fn reads_ascii(automaton: &Automaton, classes: &CharClasses) -> bool {
    known_characters(classes).any(|(_, class)| reads(automaton, class))
}

fn reads(automaton: &Automaton, class: usize) -> bool {
    let mut states = std::iter::once(START).chain(automaton.later_states());
    states.any(|state| automaton.step(state, class).next != DEAD)
}

/// Reports whether two automata do the same with all text of these characters, but for text with a
/// capital after a letter of either case.
fn agree(left: &Automaton, right: &Automaton, pairs: &BTreeSet<ClassPair>) -> bool {
    // Kinds do not matter but for those.
    let kind = |kind: u8| (kind == EITHER_CASE, kind.is_ascii_uppercase());
    let pairs = pairs.iter().map(|&(class, other, byte)| (class, other, kind(byte)));
    let pairs: BTreeSet<_> = pairs.chain([(left.end(), right.end(), (false, false))]).collect();
    let mut seen = HashSet::from([(START, START, false)]);
    let mut open = vec![(START, START, false)];
    while let Some((state, other, after_either)) = open.pop() {
        for &(class, other_class, (is_either, is_capital)) in &pairs {
            if after_either && is_capital {
                continue;
            }
            let (step, other_step) = (left.step(state, class), right.step(other, other_class));
            if step.matched != other_step.matched || (step.next == DEAD) != (other_step.next == DEAD) {
                return false;
            }
            let next = (step.next, other_step.next, is_either);
            if step.next != DEAD && seen.insert(next) {
                open.push(next);
            }
        }
    }
    true
}
