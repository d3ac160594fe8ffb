use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::{Model, Request};

use crate::{Fault, FaultCode};

/// How much the model is to reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effort(pub String);

/// A switch of a chat template, with its value.
type Switch = (&'static str, Json);

/// The levels. Source: OpenAI's API reference.
const LEVELS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The levels that OpenAI's API had first. Models whose templates copy any level were trained on these.
const FIRST: [&str; 3] = ["low", "medium", "high"];

/// A level that no template knows.
const UNKNOWN: &str = "unheard-of";

/// The switch of chat templates that takes a level.
const LEVEL: &str = "reasoning_effort";

/// The switches of chat templates that turn the reasoning on and off.
const THINKING: [&str; 2] = ["enable_thinking", "thinking"];

impl Effort {
    /// Reads a level. `field` is its name in the request.
    pub fn read(level: &str, field: &str) -> Result<Effort, Fault> {
        if LEVELS.contains(&level) {
            return Ok(Effort(level.to_owned()));
        }
        Err(Fault::at(field, FaultCode::WrongValue, format!("{field}: expected one of {}", LEVELS.join(", "))))
    }

    /// Sets the switches of the model's template that it means in a chat completion.
    pub fn set(&self, model: &Model, field: &str, chat: &mut Object) -> Result<(), Fault> {
        const SWITCHES: &str = "chat_template_kwargs";
        let mut switches = match chat.remove(SWITCHES) {
            None => Object::new(),
            Some(Json::Object(switches)) => switches,
            Some(_) => {
                return Err(Fault::at(SWITCHES, FaultCode::WrongType, format!("{SWITCHES}: expected an object")));
            }
        };
        self.add_to(model, field, &mut switches)?;
        chat.insert(SWITCHES, switches.into());
        Ok(())
    }

    /// Adds the switches of the model's template that it means to those of the client.
    pub fn add_to(&self, model: &Model, field: &str, switches: &mut Object) -> Result<(), Fault> {
        let meant = self.switches(model, field, switches)?;
        // Another switch may stand for the level.
        let level = (LEVEL, self.0.as_str().into());
        let differs = |(name, value): &&Switch| switches.get(name).is_some_and(|given| given != value);
        if let Some((name, _)) = meant.iter().chain([&level]).find(differs) {
            let message = format!("`{field}` and `chat_template_kwargs.{name}` differ");
            return Err(Fault::at(field, FaultCode::Conflict, message));
        }
        meant.into_iter().for_each(|(name, value)| switches.insert(name, value));
        Ok(())
    }

    /// Returns the switches of the model's template that it means, beside those that are `given`. A level that
    /// has no effect is an error.
    fn switches(&self, model: &Model, field: &str, given: &Object) -> Result<Vec<Switch>, Fault> {
        let trial = Trial { model, given };
        if let Some(switches) = trial.switches(&self.0) {
            return Ok(switches);
        }
        let known: Vec<&str> = LEVELS.into_iter().filter(|level| trial.switches(level).is_some()).collect();
        let help = match known[..] {
            [] => "the model's template has no such switch".to_owned(),
            [level] => format!("the model's template has only the level \"{level}\""),
            _ => format!("the model's template has only the levels {}", known.join(", ")),
        };
        Err(Fault { help: Some(help.into()), ..Fault::unsupported(field) })
    }
}

/// Finds out what levels do by the prompt of a short conversation.
struct Trial<'a> {
    model: &'a Model,
    /// The switches that the client gives.
    given: &'a Object,
}

impl Trial<'_> {
    /// Returns the switches that a level means, or `None` if the template does not recognise it.
    fn switches(&self, level: &str) -> Option<Vec<Switch>> {
        if level == "none"
            && let Some(name) = THINKING.into_iter().find(|name| self.turns_off(name))
        {
            return Some(vec![(name, false.into())]);
        }
        let beside = match level {
            "none" => &[][..],
            _ => &THINKING,
        };
        // Some templates write a level only if the reasoning is turned on.
        let beside = [vec![]].into_iter().chain(beside.iter().map(|name| vec![(*name, Json::from(true))]));
        let mut switches = beside.into_iter().find(|beside| self.recognises(level, beside))?;
        switches.push((LEVEL, level.into()));
        Some(switches)
    }

    fn turns_off(&self, name: &'static str) -> bool {
        let prompt = |value: bool| self.prompt(&[(name, value.into())]);
        prompt(false).is_some_and(|off| prompt(true).is_some_and(|on| on != off))
    }

    /// Reports whether the template does something with a level that it does not do with any other text.
    fn recognises(&self, level: &str, beside: &[Switch]) -> bool {
        let prompt = |level: &str| self.prompt(&[beside, &[(LEVEL, level.into())]].concat());
        let Some(own) = prompt(level) else { return false };
        let Some(other) = prompt(UNKNOWN) else { return true };
        if count_word(&other, UNKNOWN) > count_word(&own, UNKNOWN) {
            // It copies the level.
            return FIRST.contains(&level);
        }
        // The template's default is the same, but it is written out, unlike with another level.
        let is_default = || {
            let count = count_word(&own, level);
            count > 0 && LEVELS.into_iter().filter_map(prompt).any(|other| count_word(&other, level) < count)
        };
        own != other || is_default()
    }

    /// Returns the prompt with these switches, or `None` if the template refuses them.
    fn prompt(&self, switches: &[Switch]) -> Option<String> {
        let mut all = self.given.clone();
        switches.iter().for_each(|(name, value)| all.insert(*name, value.clone()));
        let message: Json = object! { "role" => "user", "content" => "Hello" }.into();
        let body = object! { "messages" => vec![message], "chat_template_kwargs" => all };
        Some(self.model.prompt(Request::from_json(body.into()).ok()?).ok()?.text().to_owned())
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
