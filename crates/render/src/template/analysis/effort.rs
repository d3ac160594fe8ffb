//! The switches by which a template is told how much to reason, found by the origins of short conversations.

use std::rc::Rc;

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;

use super::FormProbe;
use super::probe::{Probe, ProbedPrompt};
use crate::Origin;

/// The levels of reasoning, from none to the most. Source: OpenAI's API reference.
pub const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The levels that OpenAI's API had first. Models whose templates copy any level were trained on these.
const FIRST: [&str; 3] = ["low", "medium", "high"];

/// A level that no template knows.
const UNKNOWN: &str = "unheard-of";

/// The switch that takes a level.
pub const EFFORT_SWITCH: &str = "reasoning_effort";

/// The switches that turn the reasoning on and off.
const THINKING: [&str; 2] = ["enable_thinking", "thinking"];

/// Finds out what levels do in a conversation with these switches.
pub(in crate::template) struct EffortProbe<'p, 't> {
    probe: &'p Probe<'t>,
    given: &'p Object,
    /// A message of the user in a form that the template writes.
    user: String,
}

impl<'p, 't> EffortProbe<'p, 't> {
    pub(in crate::template::analysis) fn new(probe: &'p Probe<'t>, given: &'p Object) -> EffortProbe<'p, 't> {
        EffortProbe { probe, given, user: FormProbe::new(probe, false).into_user() }
    }

    /// Returns the switches that a level means beside the given ones, or `None` if the template does not know it.
    pub fn switches(&self, level: &str) -> Option<Object> {
        if level == "none"
            && let Some(name) = THINKING.into_iter().find(|name| self.turns_off(name))
        {
            return Some([(name.to_owned(), false.into())].into_iter().collect());
        }
        let beside = if level == "none" { &[][..] } else { &THINKING };
        // Some templates write a level only if the reasoning is turned on.
        let mut beside = [None].into_iter().chain(beside.iter().copied().map(Some));
        let beside = beside.find(|beside| self.knows(level, *beside))?;
        let switches = beside.map(|name| (name.to_owned(), true.into())).into_iter();
        Some(switches.chain([(EFFORT_SWITCH.to_owned(), level.into())]).collect())
    }

    fn turns_off(&self, name: &str) -> bool {
        let text = |value: bool| Some(self.prompt(&[(name, value.into())])?.text.clone());
        text(false).is_some_and(|off| text(true).is_some_and(|on| on != off))
    }

    /// Reports whether the template does something with a level that it does not do with any other text.
    fn knows(&self, level: &str, beside: Option<&str>) -> bool {
        let prompt = |level: &str| {
            let beside = beside.map(|name| (name, Json::from(true))).into_iter();
            self.prompt(&beside.chain([(EFFORT_SWITCH, level.into())]).collect::<Vec<_>>())
        };
        let Some(own) = prompt(level) else { return false };
        let Some(other) = prompt(UNKNOWN) else { return true };
        if other.prints(|origin| matches!(origin, Origin::Option { name } if name == EFFORT_SWITCH)) {
            // It copies the level.
            return FIRST.contains(&level);
        }
        // The template's default is the same, but the template writes its name, unlike with another level.
        let names = |prompt: &ProbedPrompt| count_word(&prompt.own_text(), level);
        let is_default = || {
            names(&own) > 0 && EFFORTS.iter().filter_map(|other| prompt(other)).any(|other| names(&other) < names(&own))
        };
        own.text != other.text || is_default()
    }

    /// Returns the prompt with these switches, or `None` if the template refuses them.
    fn prompt(&self, switches: &[(&str, Json)]) -> Option<Rc<ProbedPrompt>> {
        let mut all = self.given.clone();
        switches.iter().for_each(|(name, value)| all.insert(*name, value.clone()));
        self.probe.run_with(&[&self.user], r#""add_generation_prompt": true"#, &all).ok()
    }
}

/// Counts how often a text has a word, whatever its case.
fn count_word(text: &str, word: &str) -> usize {
    let (text, is_of_word) = (text.to_lowercase(), |char: char| char.is_alphanumeric() || char == '_');
    let is_whole = |(at, _): &(usize, &str)| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    };
    text.match_indices(word).filter(is_whole).count()
}

#[cfg(test)]
mod tests {
    use super::count_word;

    #[test]
    fn a_word_is_counted_only_whole() {
        for (text, word, count) in [
            ("Reasoning Effort: Max", "max", 1),
            ("the maximum", "max", 0),
            ("climax, max_tokens", "max", 0),
            ("xhigh, high; HIGH", "high", 2),
            ("<|effort|>none<|end|>", "none", 1),
            ("", "low", 0),
        ] {
            assert_eq!(count_word(text, word), count, "{text}");
        }
    }
}
