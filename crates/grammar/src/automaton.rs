//! Automata for free texts, for engines whose grammars cannot express "any text without".

use std::collections::HashMap;

use crate::Class;
use crate::node::FreeText;

/// The transitions of a state: sets of next characters, each with the state that follows. A text
/// may end in any state.
pub(crate) type Moves = Vec<(Class, usize)>;

/// The state of matching a text.
#[derive(Clone, PartialEq, Eq, Hash)]
struct AutomatonState {
    /// The longest prefix of a marker that the text ends with.
    partial: String,
    /// Whether the text contains more than whitespace.
    begun: bool,
}

/// Returns the states of a free text, with the start state first.
pub(crate) fn states(text: &FreeText) -> Vec<Moves> {
    let marks: Vec<&str> = text.avoid.iter().map(String::as_str).filter(|mark| !mark.is_empty()).collect();
    let start = AutomatonState { partial: String::new(), begun: text.not_first.is_empty() };
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let mut waiting = vec![start];
    let mut states: Vec<Moves> = Vec::new();
    while let Some(state) = waiting.get(states.len()).cloned() {
        let mut telling: Vec<char> = marks.iter().flat_map(|mark| mark.chars()).collect();
        if !state.begun {
            telling.extend(&text.not_first);
            telling.extend(" \t\n\r".chars());
        }
        telling.sort_unstable();
        telling.dedup();
        let usual = AutomatonState { partial: String::new(), begun: true };
        let mut moves: Vec<(Class, AutomatonState)> = Vec::new();
        let mut others = Class::any();
        for character in &telling {
            let range = (*character, *character);
            let next = step(&state, *character, &marks, &text.not_first);
            if next.as_ref() != Some(&usual) {
                others.ranges.push(range);
            }
            let Some(next) = next.filter(|next| *next != usual) else { continue };
            match moves.iter_mut().find(|(_, known)| *known == next) {
                Some((class, _)) => class.ranges.push(range),
                None => moves.push((Class::of(&[range]), next)),
            }
        }
        moves.push((others, usual));
        let numbered = moves.into_iter().map(|(class, next)| {
            let number = *numbers.entry(next.clone()).or_insert_with(|| {
                waiting.push(next);
                waiting.len() - 1
            });
            (class, number)
        });
        states.push(numbered.collect());
    }
    states
}

/// Returns the state after a character, or `None` if the text may not contain the character there.
fn step(state: &AutomatonState, character: char, marks: &[&str], not_first: &[char]) -> Option<AutomatonState> {
    let begun = state.begun || !character.is_whitespace();
    if !state.begun && begun && not_first.contains(&character) {
        return None;
    }
    let mut partial = state.partial.clone();
    partial.push(character);
    if marks.iter().any(|mark| partial.ends_with(mark)) {
        return None;
    }
    while !partial.is_empty() && !marks.iter().any(|mark| mark.starts_with(partial.as_str())) {
        partial.remove(0);
    }
    Some(AutomatonState { partial, begun })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(text: &FreeText, found: &str) -> bool {
        let states = states(text);
        let mut at = 0;
        for character in found.chars() {
            match states[at].iter().find(|(class, _)| class.holds(character)) {
                Some((_, next)) => at = *next,
                None => return false,
            }
        }
        true
    }

    #[test]
    fn an_automaton_takes_the_texts_without_marks() {
        let text = FreeText { avoid: vec!["aab".into(), "<t>".into()], not_first: vec!['['] };
        for found in ["", "aa", "aaa", "ab", "<t", "<<t", " x[", "\n", "a<ta", "<t <t"] {
            assert!(takes(&text, found) && text.takes(found) && text.most(found) == found.len(), "{found}");
        }
        for found in ["aab", "aaab", "x<t>", "<<t>", "[", " \n[", "aa<t>b"] {
            assert!(!takes(&text, found) && !text.takes(found), "{found}");
            let most = text.most(found);
            assert!(text.takes(&found[..most]) && !text.takes(&found[..=most]), "{found}");
        }
    }
}
