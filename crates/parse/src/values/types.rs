use std::fmt;
use std::ops::{BitAnd, BitOr};

use rolecall_conversation::Json;
use rolecall_format::codec::kinds::{Kind, Words};

/// A set of JSON Schema types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NONE: Types = Types(0);
    pub(crate) const NULL: Types = Types(1);
    pub(crate) const BOOLEAN: Types = Types(1 << 1);
    /// Only integers.
    pub(crate) const INTEGER: Types = Types(1 << 2);
    /// Any number.
    pub(crate) const NUMBER: Types = Types(1 << 3 | 1 << 2);
    pub(crate) const STRING: Types = Types(1 << 4);
    pub(crate) const ARRAY: Types = Types(1 << 5);
    pub(crate) const OBJECT: Types = Types(1 << 6);
    pub(crate) const ANY: Types = Types(0x7f);

    /// Returns the types that a schema's `type` names. Python's names are also known. Any other
    /// name allows every type.
    pub(crate) fn named(names: &Json) -> Types {
        let one = |name: &Json| match name.as_str().unwrap_or_default() {
            "null" | "None" => Types::NULL,
            "boolean" | "bool" => Types::BOOLEAN,
            "integer" | "int" => Types::INTEGER,
            "number" | "float" => Types::NUMBER,
            "string" | "str" => Types::STRING,
            "array" | "list" | "tuple" => Types::ARRAY,
            "object" | "dict" => Types::OBJECT,
            _ => Types::ANY,
        };
        match names {
            Json::Array(names) => names.iter().map(one).fold(Types::NONE, Types::bitor),
            name => one(name),
        }
    }

    /// Returns the type of a value.
    pub(crate) fn of(value: &Json) -> Types {
        match value {
            Json::Null => Types::NULL,
            Json::Bool(_) => Types::BOOLEAN,
            Json::Number(number) => Types::of_number(number.spelling()),
            Json::String(_) => Types::STRING,
            Json::Array(_) => Types::ARRAY,
            Json::Object(_) => Types::OBJECT,
        }
    }

    /// Returns the type of a kind.
    pub(crate) fn of_kind(kind: Kind) -> Types {
        match kind {
            Kind::Null => Types::NULL,
            Kind::Boolean => Types::BOOLEAN,
            Kind::Integer => Types::INTEGER,
            Kind::Fraction => Types::NUMBER,
            Kind::String => Types::STRING,
            Kind::Array => Types::ARRAY,
            Kind::Object => Types::OBJECT,
        }
    }

    /// Returns the types that a word of a format names, or `None` if it names none. JSON Schema's
    /// names are also known.
    pub(crate) fn of_word(words: &Words, word: &str) -> Option<Types> {
        let types = words.kinds(word).map(Types::of_kind).fold(Types::NONE, Types::bitor);
        let types = if types == Types::NONE { Types::named(&Json::from(word)) } else { types };
        (types != Types::ANY).then_some(types)
    }

    /// Returns the type of a number. `3.0` and `1e5` are integers.
    pub(crate) fn of_number(spelling: &str) -> Types {
        let is_whole = !spelling.contains(['.', 'e', 'E'])
            || spelling.parse::<f64>().is_ok_and(|number| number.is_finite() && number.fract() == 0.0);
        if is_whole { Types::INTEGER } else { Types::NUMBER }
    }

    /// Reports whether all these types are among `others`.
    pub(crate) fn is_within(self, others: Types) -> bool {
        self & others == self
    }
}

impl BitAnd for Types {
    type Output = Types;

    fn bitand(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }
}

impl BitOr for Types {
    type Output = Types;

    fn bitor(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WORDS: [(Types, &str); 7] = [
            (Types::NULL, "null"),
            (Types::BOOLEAN, "a boolean"),
            (Types::NUMBER, "a number"),
            (Types::INTEGER, "an integer"),
            (Types::STRING, "a string"),
            (Types::ARRAY, "a list"),
            (Types::OBJECT, "an object"),
        ];
        let mut words =
            WORDS.iter().filter(|(kind, _)| kind.is_within(*self)).map(|(_, words)| *words).collect::<Vec<_>>();
        if Types::NUMBER.is_within(*self) {
            words.retain(|words| *words != "an integer");
        }
        f.write_str(&words.join(" or "))
    }
}
