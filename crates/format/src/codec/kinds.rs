//! The words with which a format names the kind of a value: `string`, `number`, `boolean`.

use rolecall_conversation::Json;

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A string.
    String,
    /// A number without a fraction.
    Integer,
    /// A number with a fraction or an exponent.
    Fraction,
    /// `true` or `false`.
    Boolean,
    /// `null`.
    Null,
    /// A list.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] =
        [Kind::String, Kind::Integer, Kind::Fraction, Kind::Boolean, Kind::Null, Kind::Array, Kind::Object];

    /// Returns the kind of a value.
    pub fn of(value: &Json) -> Kind {
        match value {
            Json::Null => Kind::Null,
            Json::Bool(_) => Kind::Boolean,
            Json::Number(number) if number.spelling().contains(['.', 'e', 'E']) => Kind::Fraction,
            Json::Number(_) => Kind::Integer,
            Json::String(_) => Kind::String,
            Json::Array(_) => Kind::Array,
            Json::Object(_) => Kind::Object,
        }
    }

    /// Returns the kind's word in JSON Schema, where a number may have a fraction or not.
    fn usual(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer | Kind::Fraction => "number",
            Kind::Boolean => "boolean",
            Kind::Null => "null",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }

    /// Returns the key of the kind in a layout.
    fn key(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Fraction => "fraction",
            other => other.usual(),
        }
    }
}

/// The words for the kinds of values.
///
/// ```
/// use rolecall_format::codec::kinds::{Kind, Words};
/// let words = Words::from_text("integer=int, fraction=float").expect("well formed");
/// assert_eq!(words.of(Kind::Integer), "int");
/// assert_eq!(words.of(Kind::Array), "array");
/// assert_eq!(words.kinds("float").collect::<Vec<_>>(), [Kind::Fraction]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words([Box<str>; Kind::ALL.len()]);

impl Default for Words {
    fn default() -> Words {
        Words(Kind::ALL.map(|kind| kind.usual().into()))
    }
}

impl Words {
    /// Creates the words from a function. No word may be empty or contain a character that a layout
    /// uses in this place.
    pub fn new(word: impl Fn(Kind) -> String) -> Option<Words> {
        let words = Kind::ALL.map(word);
        let is_plain = |word: &String| !word.is_empty() && !word.contains([',', '=', '(', ')', '{', '}']);
        let is_trimmed = |word: &String| word.trim() == word;
        words.iter().all(|word| is_plain(word) && is_trimmed(word)).then(|| Words(words.map(String::into_boxed_str)))
    }

    /// Parses the words that differ from the usual ones, such as `integer=int, array=list`.
    /// `number` stands for both kinds of numbers.
    pub fn from_text(text: &str) -> Option<Words> {
        let mut words = Words::default().0;
        for pair in text.split(',') {
            let (key, word) = pair.split_once('=')?;
            let is_it = |kind: Kind| kind.key() == key.trim() || kind.usual() == key.trim();
            let mut is_known = false;
            for (at, kind) in Kind::ALL.into_iter().enumerate().filter(|(_, kind)| is_it(*kind)) {
                words[at] = word.trim().into();
                is_known |= Kind::ALL[at] == kind;
            }
            if !is_known {
                return None;
            }
        }
        Words::new(|kind| words[kind as usize].to_string())
    }

    /// Returns the text that [`Words::from_text`] parses. It is empty for the usual words.
    pub fn text(&self) -> String {
        let word = |kind: Kind| self.of(kind);
        let is_one = word(Kind::Integer) == word(Kind::Fraction);
        let mut pairs = Vec::new();
        for kind in Kind::ALL {
            match kind {
                _ if word(kind) == kind.usual() => {}
                Kind::Integer if is_one => pairs.push(format!("number={}", word(kind))),
                Kind::Fraction if is_one => {}
                kind => pairs.push(format!("{}={}", kind.key(), word(kind))),
            }
        }
        pairs.join(", ")
    }

    /// Returns the word for a kind.
    pub fn of(&self, kind: Kind) -> &str {
        &self.0[kind as usize]
    }

    /// Returns the kinds with a word.
    pub fn kinds<'a>(&'a self, word: &'a str) -> impl Iterator<Item = Kind> + 'a {
        Kind::ALL.into_iter().filter(move |kind| self.of(*kind) == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for text in ["", "integer=int, fraction=float, array=list", "number=n", "string=yes, number=no, null=None"] {
            let words = if text.is_empty() { Words::default() } else { Words::from_text(text).unwrap() };
            assert_eq!(words.text(), text);
        }
        assert_eq!(Words::from_text("integer=number"), Some(Words::default()));
        for text in ["", "text=str", "string", "string=", "string=a(b"] {
            assert_eq!(Words::from_text(text), None, "{text}");
        }
    }
}
