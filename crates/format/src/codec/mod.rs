//! The codecs that print values in holes. Each value syntax has its own file, with everything that
//! parsers and grammars need to know about it.

pub mod attribute;
pub mod call;
pub mod cdata;
mod elements;
mod json_string;
mod json_style;
pub mod kinds;
pub mod literal;
pub mod marked;
mod number;
pub mod python;
mod value;

pub use elements::Elements;
pub use json_string::JsonString;
pub use json_style::JsonStyle;
pub use marked::MarkedSyntax;
pub use value::{AsJson, PrintedValue, Spelling, ValueSyntax, Write};

/// A hole's codec.
///
/// ```
/// use rolecall_format::Codec;
/// use rolecall_format::codec::JsonStyle;
/// let indented = Codec::Json(JsonStyle { indent: Some(4), ..JsonStyle::PLAIN });
/// assert_eq!(Codec::from_spelling("json(indent=4)"), Some(indented));
/// assert_eq!(Codec::from_spelling("jsn"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// The text, unchanged.
    Text,
    /// The text without leading and trailing white space.
    Trim,
    /// JSON, by default in the style of Python's `json.dumps(.., ensure_ascii=False)`.
    Json(JsonStyle),
    /// A call as a JSON object.
    Call(call::Keys),
    /// Python keyword arguments. For a single value, Python's `repr`.
    Python,
    /// A value as Python prints it (`str` of a string, `repr` of any other): `True`, `None`,
    /// `{'k': [1]}`.
    Literal,
    /// Lists and objects as JSON, any other value as Python prints it.
    Mixed,
    /// Objects as JSON, any other value as Python prints it.
    Objects,
    /// A string as XML text, in a CDATA section if XML requires one. Any other value as Python
    /// prints it.
    Cdata,
    /// A JSON string that contains JSON.
    JsonString,
    /// Braces, bare keys in alphabetical order, and strings between markers:
    /// `{city:<|"|>Oslo<|"|>}`.
    Marked(MarkedSyntax),
    /// Lists and objects as nested elements, each named by its key. Any other value is text.
    Elements(Box<Elements>),
    /// An enumerated name as its control token, any other as text.
    Names,
    /// Nothing. Only checks whether the value is present.
    Present,
    /// The text, or one space if it is empty.
    Filled,
    /// A name up to its first dot.
    Stem,
    /// An enumerated name as its control token. Any other name counts as absent.
    Enumerated,
    /// The part of an option's text before `{NAME}`, or all of it if there is none.
    Before(String),
    /// The part of an option's text after `{NAME}`.
    Behind(String),
    /// An index that is counted from this number.
    From(Count),
    /// The kind of a value, in these words.
    Kinds(kinds::Words),
    /// Text in a quoted attribute: `&` and `"` are escaped as `&amp;` and `&quot;`.
    Attribute,
}

/// How an index is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The index of the first call.
    pub first: usize,
    /// Whether the calls of all messages are counted together.
    pub over_conversation: bool,
}

impl Codec {
    /// Returns the syntax of the values that the codec prints, if it prints values.
    pub fn value_syntax(&self) -> Option<&dyn ValueSyntax> {
        Some(match self {
            Codec::Json(style) => style,
            Codec::JsonString => &JsonString,
            Codec::Python => &python::Python,
            Codec::Literal => &literal::Literal,
            Codec::Mixed => &literal::Mixed,
            Codec::Objects => &literal::Objects,
            Codec::Cdata => &cdata::Cdata,
            Codec::Marked(marked) => marked,
            Codec::Elements(elements) => elements.as_ref(),
            _ => return None,
        })
    }

    /// The names of the codecs, for suggestions.
    pub const NAMES: [&'static str; 19] = [
        "trim",
        "json",
        "python",
        "literal",
        "mixed",
        "objects",
        "cdata",
        "json-string",
        "marked",
        "elements",
        "names",
        "present",
        "filled",
        "stem",
        "before",
        "behind",
        "from",
        "words",
        "attribute",
    ];

    /// Parses a codec as written after the colon of a hole: `trim`, `json`, `json(indent=4)`,
    /// `json(name, parameters)`.
    pub fn from_spelling(spelling: &str) -> Option<Codec> {
        let (name, arguments) = match spelling.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')')?)),
            None => (spelling, None),
        };
        match (name, arguments) {
            ("trim", None) => Some(Codec::Trim),
            ("json", None) => Some(Codec::Json(JsonStyle::PLAIN)),
            ("python", None) => Some(Codec::Python),
            ("literal", None) => Some(Codec::Literal),
            ("mixed", None) => Some(Codec::Mixed),
            ("objects", None) => Some(Codec::Objects),
            ("cdata", None) => Some(Codec::Cdata),
            ("json-string", None) => Some(Codec::JsonString),
            ("marked", Some(mark)) if !mark.is_empty() => Some(Codec::Marked(MarkedSyntax::new(mark))),
            ("elements", Some(words)) => {
                Elements::from_words(words).map(|elements| Codec::Elements(Box::new(elements)))
            }
            ("names", None) => Some(Codec::Names),
            ("present", None) => Some(Codec::Present),
            ("names", Some("only")) => Some(Codec::Enumerated),
            ("filled", None) => Some(Codec::Filled),
            ("stem", None) => Some(Codec::Stem),
            ("attribute", None) => Some(Codec::Attribute),
            ("before", Some(name)) => Some(Codec::Before(name.trim().to_owned())),
            ("behind", Some(name)) => Some(Codec::Behind(name.trim().to_owned())),
            ("from", Some(words)) => {
                let (first, over) = words.split_once(',').map_or((words, ""), |(first, over)| (first, over.trim()));
                let over_conversation = match over {
                    "" => false,
                    "conversation" => true,
                    _ => return None,
                };
                Some(Codec::From(Count { first: first.trim().parse().ok()?, over_conversation }))
            }
            ("words", Some(words)) => kinds::Words::from_text(words).map(Codec::Kinds),
            ("json", Some(words)) => match JsonStyle::from_words(words) {
                Some(style) => Some(Codec::Json(style)),
                None => {
                    let mut keys = words.split(',').map(str::trim);
                    let (name, arguments) = (keys.next()?, keys.next()?);
                    let style = match (keys.next(), keys.next()) {
                        (None, None) => call::Style::AsGiven,
                        (Some("parsed"), None) => call::Style::Parsed,
                        (Some("ascii"), None) => call::Style::Ascii,
                        _ => return None,
                    };
                    call::Keys::new(name, arguments, style).map(Codec::Call)
                }
            },
            _ => None,
        }
    }

    /// Returns the text after the colon of a hole. It is empty for [`Codec::Text`].
    pub fn spelling(&self) -> String {
        match self {
            Codec::Text => String::new(),
            Codec::Trim => "trim".into(),
            Codec::Json(style) if *style == JsonStyle::PLAIN => "json".into(),
            Codec::Json(style) => format!("json({})", style.words()),
            Codec::Call(keys) => {
                let style = match keys.style() {
                    call::Style::AsGiven => "",
                    call::Style::Parsed => ", parsed",
                    call::Style::Ascii => ", ascii",
                };
                format!("json({}, {}{style})", keys.name(), keys.arguments())
            }
            Codec::Python => "python".into(),
            Codec::Literal => "literal".into(),
            Codec::Mixed => "mixed".into(),
            Codec::Objects => "objects".into(),
            Codec::Cdata => "cdata".into(),
            Codec::JsonString => "json-string".into(),
            Codec::Marked(marked) => format!("marked({})", marked.marker()),
            Codec::Elements(elements) => format!("elements({})", elements.words()),
            Codec::Names => "names".into(),
            Codec::Present => "present".into(),
            Codec::Filled => "filled".into(),
            Codec::Stem => "stem".into(),
            Codec::Attribute => "attribute".into(),
            Codec::Enumerated => "names(only)".into(),
            Codec::Before(name) => format!("before({name})"),
            Codec::Behind(name) => format!("behind({name})"),
            Codec::From(Count { first, over_conversation: false }) => format!("from({first})"),
            Codec::From(Count { first, .. }) => format!("from({first}, conversation)"),
            Codec::Kinds(words) => format!("words({})", words.text()),
        }
    }
}

/// Reports whether Python's `str.strip()` treats a character as white space.
#[inline]
pub fn is_python_space(character: char) -> bool {
    // Python treats the four separators U+001C..U+001F as white space. Unicode's White_Space does
    // not include them.
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::Codec;

    #[test]
    fn every_spelling_reads_back() {
        let with_arguments = [
            "json(indent=4, level=2)",
            "json(name, parameters)",
            "json(name, arguments, ascii)",
            "json(name, arguments, parsed)",
            "json(compact, sorted)",
            "marked(<|\"|>)",
            "elements(<*>, </*>, item, lines)",
            "names(only)",
            "before(x)",
            "behind(x)",
            "from(1)",
            "from(0, conversation)",
            "words(integer=int, array=list)",
        ];
        let name = |spelling: &'static str| spelling.split_once('(').map_or(spelling, |(name, _)| name);
        for name_alone in Codec::NAMES {
            let takes_arguments = with_arguments.into_iter().any(|spelling| name(spelling) == name_alone);
            assert!(takes_arguments || Codec::from_spelling(name_alone).is_some(), "{name_alone}");
        }
        let alone = Codec::NAMES.into_iter().filter(|name| Codec::from_spelling(name).is_some());
        for spelling in alone.chain(with_arguments) {
            assert_eq!(Codec::from_spelling(spelling).unwrap().spelling(), spelling);
        }
        assert_eq!(Codec::from_spelling(&Codec::Text.spelling()), None);
    }
}
