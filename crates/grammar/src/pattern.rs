/// A regular set of texts: the allowed forms of a number, a key or a string in a schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// A literal text.
    Text(String),
    /// One character of a set.
    Class(Class),
    /// Patterns one after the other.
    Sequence(Vec<Pattern>),
    /// Any one of several patterns.
    Choice(Vec<Pattern>),
    /// A repeated pattern, without an upper limit if `max` is `None`.
    Repeat {
        /// The pattern.
        pattern: Box<Pattern>,
        /// The minimum number of repetitions.
        min: usize,
        /// The maximum number of repetitions.
        max: Option<usize>,
    },
}

/// A set of characters, given as the ranges that it includes or, if negated, excludes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Whether the ranges are excluded from the set.
    pub negated: bool,
    /// The first and last character of each range.
    pub ranges: Vec<(char, char)>,
}

impl Class {
    /// Returns the set of the characters in these ranges.
    pub fn of(ranges: &[(char, char)]) -> Class {
        Class { negated: false, ranges: ranges.to_vec() }
    }

    /// Returns the set of these characters.
    pub fn chars(characters: &str) -> Class {
        Class { negated: false, ranges: characters.chars().map(|c| (c, c)).collect() }
    }

    /// Returns the set of all characters.
    pub fn any() -> Class {
        Class { negated: true, ranges: Vec::new() }
    }

    /// Reports whether the set contains a character.
    pub fn holds(&self, character: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != self.negated
    }

    /// Returns the set without these ranges.
    pub fn without(&self, ranges: &[(char, char)]) -> Class {
        if self.negated {
            let mut all = self.ranges.clone();
            all.extend_from_slice(ranges);
            return Class { negated: true, ranges: all };
        }
        let mut kept = self.ranges.clone();
        for (first, last) in ranges {
            kept = kept.into_iter().flat_map(|range| minus(range, (*first, *last))).collect();
        }
        Class { negated: false, ranges: kept }
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        !self.negated && self.ranges.is_empty()
    }
}

/// Returns what remains of the first range without the second.
fn minus((start, end): (char, char), (first, last): (char, char)) -> Vec<(char, char)> {
    let mut left = Vec::new();
    if last < start || first > end {
        return vec![(start, end)];
    }
    if start < first {
        left.extend(before(first).map(|before| (start, before)));
    }
    if last < end {
        left.extend(after(last).map(|after| (after, end)));
    }
    left
}

fn before(character: char) -> Option<char> {
    let code = character as u32;
    char::from_u32(code.checked_sub(1)?).or(Some('\u{d7ff}'))
}

fn after(character: char) -> Option<char> {
    let code = character as u32;
    char::from_u32(code + 1).or((code == 0xd7ff).then_some('\u{e000}'))
}

impl Pattern {
    /// Returns a pattern for any text.
    pub fn any() -> Pattern {
        Pattern::Class(Class::any()).repeated(0, None)
    }

    /// Returns the pattern repeated between `min` and `max` times.
    pub fn repeated(self, min: usize, max: Option<usize>) -> Pattern {
        Pattern::Repeat { pattern: Box::new(self), min, max }
    }

    /// Returns a pattern that matches this pattern or nothing.
    pub fn optional(self) -> Pattern {
        self.repeated(0, Some(1))
    }

    /// Returns a pattern for a literal text.
    pub fn text(text: impl Into<String>) -> Pattern {
        Pattern::Text(text.into())
    }

    /// Reports whether no matching text contains line breaks or characters that occur in markers.
    pub fn is_plain(&self) -> bool {
        let marks = "<>[]|'\"`\n";
        match self {
            Pattern::Text(text) => !text.contains(|c| marks.contains(c)),
            Pattern::Class(class) => !marks.chars().any(|c| class.holds(c)),
            Pattern::Sequence(all) | Pattern::Choice(all) => all.iter().all(Pattern::is_plain),
            Pattern::Repeat { pattern, .. } => pattern.is_plain(),
        }
    }

    /// Returns the pattern with every class, and every character of a text, replaced.
    pub fn map_classes(&self, map: &impl Fn(&Class) -> Pattern) -> Pattern {
        match self {
            Pattern::Text(text) => Pattern::Sequence(text.chars().map(|c| map(&Class::of(&[(c, c)]))).collect()),
            Pattern::Class(class) => map(class),
            Pattern::Sequence(all) => Pattern::Sequence(all.iter().map(|one| one.map_classes(map)).collect()),
            Pattern::Choice(all) => Pattern::Choice(all.iter().map(|one| one.map_classes(map)).collect()),
            Pattern::Repeat { pattern, min, max } => {
                Pattern::Repeat { pattern: Box::new(pattern.map_classes(map)), min: *min, max: *max }
            }
        }
    }
}
