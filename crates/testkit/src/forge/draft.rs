use rolecall::conversation::Json;
use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::render::Options;

/// The characters before and after the number of a text.
const MARK: (char, char) = ('\u{f0000}', '\u{f0001}');

/// A conversation with numbers in place of its texts, and the texts: hostile ones and their honest
/// twins.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The request. Each text in it (value, key or JSON text) is a placeholder.
    pub request: Json,
    /// How a format renders the request. The choices hold placeholders too.
    pub options: Options,
    /// The texts, by number.
    pub words: Vec<Words>,
}

/// A hostile text and an honest text of the same shape.
#[derive(Clone, Debug)]
pub struct Words {
    /// The common beginning, which makes the text unlike all others.
    pub before: String,
    pub hostile: String,
    pub twin: String,
    /// The common ending.
    pub behind: String,
}

/// Selects which of the two texts is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Hostile,
    Twin,
}

/// Returns the placeholder for a text in a draft.
pub fn placeholder(number: usize) -> String {
    format!("{}{number}{}", MARK.0, MARK.1)
}

impl Draft {
    /// Returns the request with its texts filled in.
    pub fn filled(&self, side: Side) -> Json {
        self.fill(&self.request, side)
    }

    /// Returns the options with their texts filled in.
    pub fn options(&self, side: Side) -> Options {
        let mut options = self.options.clone();
        for (_, value) in &mut options.choices {
            *value = self.fill_text(value, side, false);
        }
        options
    }

    /// Returns the hostile request as readable text.
    pub fn shown(&self) -> String {
        let mut text = json::write(&self.filled(Side::Hostile), &Layout::default());
        if !self.options.choices.is_empty() {
            text.push_str(&format!("\n  options: {:?}", self.options(Side::Hostile).choices));
        }
        text
    }

    fn fill(&self, value: &Json, side: Side) -> Json {
        match value {
            // The arguments of a call, or a tool's answer, as JSON text.
            Json::String(text) => self.fill_text(text, side, text.starts_with('{')).into(),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.fill(item, side)).collect()),
            Json::Object(object) => {
                let entries =
                    object.iter().map(|(key, item)| (self.fill_text(key, side, false), self.fill(item, side)));
                Json::Object(entries.collect::<Object>())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    fn fill_text(&self, text: &str, side: Side, is_json: bool) -> String {
        let mut filled = String::with_capacity(text.len() + 32);
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once(MARK.0) {
            filled.push_str(before);
            let (number, next) = behind.split_once(MARK.1).unwrap_or((behind, ""));
            if let Some(words) = number.parse().ok().and_then(|number: usize| self.words.get(number)) {
                let said = words.on(side);
                match is_json {
                    true => {
                        let quoted = json::write(&Json::from(said), &Layout::compact());
                        filled.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
                    }
                    false => filled.push_str(&said),
                }
            }
            rest = next;
        }
        filled.push_str(rest);
        filled
    }
}

impl Words {
    fn on(&self, side: Side) -> String {
        let middle = match side {
            Side::Hostile => &self.hostile,
            Side::Twin => &self.twin,
        };
        [self.before.as_str(), middle, &self.behind].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_stands_where_its_number_stood() {
        let words = |hostile: &str, twin: &str| Words {
            before: String::new(),
            hostile: hostile.into(),
            twin: twin.into(),
            behind: String::new(),
        };
        let (zero, one) = (placeholder(0), placeholder(1));
        let request = json::parse(&format!(r#"{{"{zero}": ["a{one}b{one}"], "text": "{{\"{zero}\": 1}}"}}"#)).unwrap();
        let draft = Draft { request, options: Options::default(), words: vec![words("\"", "k"), words("<s>", "x")] };
        let shown = |side| json::write(&draft.filled(side), &Layout::compact());
        assert_eq!(shown(Side::Hostile), r#"{"\"":["a<s>b<s>"],"text":"{\"\\\"\": 1}"}"#);
        assert_eq!(shown(Side::Twin), r#"{"k":["axbx"],"text":"{\"k\": 1}"}"#);
    }
}
