use std::fmt;

/// The form of a family's call ids.
///
/// ```
/// use rolecall_format::CallIds;
/// let ids = CallIds::from_text("functions.{name}:{index}").expect("a pattern");
/// assert_eq!(ids.id_of("get_weather", 2).as_deref(), Some("functions.get_weather:2"));
/// assert_eq!(ids.name_in("functions.get_weather:2"), Some("get_weather"));
/// assert_eq!(ids.name_in("call_1"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallIds {
    /// Any text.
    #[default]
    Any,
    /// Nine letters and digits.
    Nine,
    /// A text that contains the function's name, the call's index, or both.
    Pattern(IdPattern),
}

/// A text that contains `{name}`, `{index}`, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPattern {
    pieces: Vec<IdPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IdPart {
    Text(String),
    Name,
    Index,
}

impl CallIds {
    /// The values in format files that are not patterns, the default first.
    pub const KEYS: [&'static str; 2] = ["any", "nine-characters"];

    /// Parses the rule in a format file. Returns `None` for a text that is neither a keyword nor an
    /// unambiguous pattern.
    pub fn from_text(text: &str) -> Option<CallIds> {
        match text {
            "any" => Some(CallIds::Any),
            "nine-characters" => Some(CallIds::Nine),
            pattern => IdPattern::from_text(pattern).map(CallIds::Pattern),
        }
    }

    /// Reports whether an id has the family's form and, if it contains a name, the name of this
    /// function.
    pub fn has(&self, id: &str, name: &str) -> bool {
        self.fits(id) && self.name_in(id).is_none_or(|found| found == name)
    }

    /// Reports whether an id has the family's form.
    pub fn fits(&self, id: &str) -> bool {
        match self {
            CallIds::Any => true,
            CallIds::Nine => id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            CallIds::Pattern(pattern) => pattern.read(id).is_some(),
        }
    }

    /// Returns the id of a call, if its function's name and its index determine the id.
    pub fn id_of(&self, name: &str, index: usize) -> Option<String> {
        match self {
            CallIds::Pattern(pattern) => Some(pattern.print(name, index)),
            CallIds::Any | CallIds::Nine => None,
        }
    }

    /// Returns the function's name in an id.
    pub fn name_in<'t>(&self, id: &'t str) -> Option<&'t str> {
        match self {
            // Models sometimes omit the text before the name.
            CallIds::Pattern(pattern) => pattern.read(id).or_else(|| pattern.without_lead(id)?.read(id))?.0,
            CallIds::Any | CallIds::Nine => None,
        }
    }
}

impl fmt::Display for CallIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallIds::Any => f.write_str("any"),
            CallIds::Nine => f.write_str("nine-characters"),
            CallIds::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

impl IdPattern {
    /// Reports whether the pattern contains the call's index.
    pub fn has_index(&self) -> bool {
        self.pieces.contains(&IdPart::Index)
    }

    /// Returns the id of a call.
    pub fn print(&self, name: &str, index: usize) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            IdPart::Text(text) => text.clone(),
            IdPart::Name => name.to_owned(),
            IdPart::Index => index.to_string(),
        });
        pieces.collect()
    }

    /// Parses a pattern. It must contain at least one hole, each hole at most once, and text
    /// between two holes.
    fn from_text(text: &str) -> Option<IdPattern> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let hole = [("{name}", IdPart::Name), ("{index}", IdPart::Index)];
            if let Some((spelled, piece)) = hole.into_iter().find(|(spelled, _)| rest.starts_with(spelled)) {
                if pieces.contains(&piece) || matches!(pieces.last(), Some(IdPart::Name | IdPart::Index)) {
                    return None;
                }
                pieces.push(piece);
                rest = &rest[spelled.len()..];
                continue;
            }
            let end = ["{name}", "{index}"].iter().filter_map(|hole| rest.find(hole)).min().unwrap_or(rest.len());
            pieces.push(IdPart::Text(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        pieces.iter().any(|piece| !matches!(piece, IdPart::Text(_))).then_some(IdPattern { pieces })
    }

    /// Returns the pattern without its leading text, if the id does not begin with this text and
    /// the rest of the pattern is a name and an index.
    fn without_lead(&self, id: &str) -> Option<IdPattern> {
        match &self.pieces[..] {
            [IdPart::Text(lead), rest @ ..]
                if matches!(rest, [IdPart::Name, IdPart::Text(_), IdPart::Index]) && !id.starts_with(lead.as_str()) =>
            {
                Some(IdPattern { pieces: rest.to_vec() })
            }
            _ => None,
        }
    }

    /// Parses the name and the index in an id, if the pattern has them. The index is read from
    /// whichever end of the text it adjoins, and the name is the rest.
    fn read<'t>(&self, id: &'t str) -> Option<(Option<&'t str>, Option<&'t str>)> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (mut name, mut index) = (None, None);
        let (mut pieces, mut rest) = (&self.pieces[..], id);
        loop {
            match pieces {
                [] => return rest.is_empty().then_some((name, index)),
                [IdPart::Text(text), tail @ ..] => (rest, pieces) = (rest.strip_prefix(text.as_str())?, tail),
                [head @ .., IdPart::Text(text)] => (rest, pieces) = (rest.strip_suffix(text.as_str())?, head),
                [IdPart::Name] => (name, rest, pieces) = (Some(rest).filter(|name| !name.is_empty()), "", &[]),
                [IdPart::Index] => (index, rest, pieces) = (Some(rest).filter(|text| digits(text)), "", &[]),
                [IdPart::Index, tail @ ..] => {
                    let end = rest.bytes().take_while(u8::is_ascii_digit).count();
                    (index, rest, pieces) = (Some(&rest[..end]).filter(|text| digits(text)), &rest[end..], tail);
                }
                [head @ .., IdPart::Index] => {
                    let start = rest.len() - rest.bytes().rev().take_while(u8::is_ascii_digit).count();
                    (index, rest, pieces) = (Some(&rest[start..]).filter(|text| digits(text)), &rest[..start], head);
                }
                [IdPart::Name, ..] => return None,
            }
            let has = |piece: &IdPart| pieces.contains(piece) || !self.pieces.contains(piece);
            if (name.is_none() && !has(&IdPart::Name)) || (index.is_none() && !has(&IdPart::Index)) {
                return None;
            }
        }
    }
}

impl fmt::Display for IdPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            IdPart::Text(text) => f.write_str(text),
            IdPart::Name => f.write_str("{name}"),
            IdPart::Index => f.write_str("{index}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_ids() {
        let cases = [
            ("functions.{name}:{index}", "functions.a.b:c:12", Some("a.b:c")),
            ("functions.{name}:{index}", "functions.:12", None),
            ("functions.{name}:{index}", "functions.a:", None),
            ("functions.{name}:{index}", "a.b:1", Some("a.b")),
            ("functions.{name}:{index}", "a:x", None),
            ("functions.{name}:{index}", "function.a:1", Some("function.a")),
            ("functions.{name}:{index}", "functions.a1", None),
            ("{index}-{name}", "12-a-1", Some("a-1")),
            ("{index}-{name}", "x-a", None),
            ("<{name}>", "<a>", Some("a")),
            ("call_{index}", "call_3", None),
        ];
        for (pattern, id, name) in cases {
            let ids = CallIds::from_text(pattern).unwrap();
            assert_eq!(ids.to_string(), pattern);
            assert_eq!(ids.name_in(id), name, "{pattern} {id}");
            assert!(ids.has(&ids.id_of("a.b", 10).unwrap(), "a.b"), "{pattern}");
        }
        assert!(!CallIds::from_text("f.{name}:{index}").unwrap().has("f.a:1", "b"));
        assert!(CallIds::from_text("call_{index}").unwrap().has("call_3", "a"));
    }

    #[test]
    fn what_could_not_be_read_is_no_pattern() {
        for text in ["", "call", "{name}{index}", "{name}-{name}", "{Name}"] {
            assert_eq!(CallIds::from_text(text), None, "{text}");
        }
        assert_eq!(CallIds::from_text("any"), Some(CallIds::Any));
        assert!(CallIds::Nine.has("abcdefgh9", "f") && !CallIds::Nine.has("abcdefgh", "f"));
    }
}
