//! How a value is printed in a hole, and read back. Each syntax is one file with both directions.

pub mod call;
pub mod python;

/// A hole's codec.
///
/// ```
/// use rolecall_format::Codec;
/// assert_eq!(Codec::from_spelling("json(indent=4)"), Some(Codec::Json { indent: Some(4) }));
/// assert_eq!(Codec::from_spelling("jsn"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// The text as it is.
    Text,
    /// The text without white space at its ends.
    Trim,
    /// JSON as Python's `json.dumps(.., ensure_ascii=False)` lays it out.
    Json {
        /// Spaces for each level, or all on one line.
        indent: Option<usize>,
    },
    /// A call as a JSON object.
    Call(call::Keys),
    /// Python keyword arguments.
    Python,
    /// A value as Python prints it (`str` of a string, `repr` of any other): `True`, `None`, `{'k': [1]}`.
    Literal,
    /// Lists and objects as JSON, any other value as Python prints it.
    Mixed,
    /// Text; in a CDATA section where XML would need one.
    Cdata,
    /// A JSON string that holds the JSON.
    JsonString,
    /// Braces, bare keys in alphabetical order, and strings between these marks: `{city:<|"|>Oslo<|"|>}`.
    Marked(String),
    /// An enumerated name as its control token, any other as text.
    Names,
    /// Nothing; only asks whether the value is there.
    Present,
    /// The text, or one space where there is none.
    Filled,
    /// A name up to its first dot.
    Stem,
    /// An enumerated name as its control token; any other counts as none.
    Enumerated,
    /// What an option's text has before its `{NAME}`, or all of it.
    Before(String),
    /// What an option's text has behind its `{NAME}`.
    Behind(String),
}

impl Codec {
    /// The codecs' names, for suggestions.
    pub const NAMES: [&'static str; 14] = [
        "trim",
        "json",
        "python",
        "literal",
        "mixed",
        "cdata",
        "json-string",
        "marked",
        "names",
        "present",
        "filled",
        "stem",
        "before",
        "behind",
    ];

    /// Reads what stands behind the colon of a hole: `trim`, `json`, `json(indent=4)`, `json(name, parameters)`.
    pub fn from_spelling(spelling: &str) -> Option<Codec> {
        let (name, arguments) = match spelling.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')')?)),
            None => (spelling, None),
        };
        match (name, arguments) {
            ("trim", None) => Some(Codec::Trim),
            ("json", None) => Some(Codec::Json { indent: None }),
            ("python", None) => Some(Codec::Python),
            ("literal", None) => Some(Codec::Literal),
            ("mixed", None) => Some(Codec::Mixed),
            ("cdata", None) => Some(Codec::Cdata),
            ("json-string", None) => Some(Codec::JsonString),
            ("marked", Some(mark)) if !mark.is_empty() => Some(Codec::Marked(mark.to_owned())),
            ("names", None) => Some(Codec::Names),
            ("present", None) => Some(Codec::Present),
            ("names", Some("only")) => Some(Codec::Enumerated),
            ("filled", None) => Some(Codec::Filled),
            ("stem", None) => Some(Codec::Stem),
            ("before", Some(name)) => Some(Codec::Before(name.trim().to_owned())),
            ("behind", Some(name)) => Some(Codec::Behind(name.trim().to_owned())),
            ("json", Some(arguments)) => match arguments.split_once('=') {
                Some((key, spaces)) if key.trim() == "indent" => {
                    let spaces = spaces.trim().parse().ok().filter(|spaces| *spaces <= 16)?;
                    Some(Codec::Json { indent: Some(spaces) })
                }
                Some(_) => None,
                None => {
                    let mut keys = arguments.split(',').map(str::trim);
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
}

/// White space as Python's `str.strip()` knows it.
pub fn is_python_space(character: char) -> bool {
    // The four separators U+001C..U+001F are white space to Python and not to Unicode's White_Space.
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}
