/// A regular set of texts: what a number, a key or a string of a schema may look like.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// This text.
    Text(String),
    /// One character of a set.
    Class(Class),
    /// One after the other.
    Sequence(Vec<Pattern>),
    /// Any of them.
    Choice(Vec<Pattern>),
    /// So many times; without a greatest number as often as one likes.
    Repeat {
        /// What.
        pattern: Box<Pattern>,
        /// At least.
        min: usize,
        /// At most.
        max: Option<usize>,
    },
}

/// A set of characters, as ranges that are in it or, negated, are not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Whether the ranges are what is not in it.
    pub negated: bool,
    /// First and last character of each range.
    pub ranges: Vec<(char, char)>,
}

impl Class {
    /// The characters of these ranges.
    pub fn of(ranges: &[(char, char)]) -> Class {
        Class { negated: false, ranges: ranges.to_vec() }
    }

    /// These characters.
    pub fn chars(characters: &str) -> Class {
        Class { negated: false, ranges: characters.chars().map(|c| (c, c)).collect() }
    }

    /// All characters.
    pub fn any() -> Class {
        Class { negated: true, ranges: Vec::new() }
    }

    /// Whether a character is in it.
    pub fn holds(&self, character: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != self.negated
    }

    /// The same without these ranges.
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

    /// Whether no character is in it.
    pub fn is_empty(&self) -> bool {
        !self.negated && self.ranges.is_empty()
    }
}

/// What is left of a range.
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
    /// Any character, as often as one likes.
    pub fn any() -> Pattern {
        Pattern::Class(Class::any()).repeated(0, None)
    }

    /// The same, so many times.
    pub fn repeated(self, min: usize, max: Option<usize>) -> Pattern {
        Pattern::Repeat { pattern: Box::new(self), min, max }
    }

    /// The same, or nothing.
    pub fn optional(self) -> Pattern {
        self.repeated(0, Some(1))
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Pattern {
        Pattern::Text(text.into())
    }

    /// Whether no text of it has a character that marks and line ends are made of.
    pub fn is_plain(&self) -> bool {
        let marks = "<>[]|'\"`\n";
        match self {
            Pattern::Text(text) => !text.contains(|c| marks.contains(c)),
            Pattern::Class(class) => !marks.chars().any(|c| class.holds(c)),
            Pattern::Sequence(all) | Pattern::Choice(all) => all.iter().all(Pattern::is_plain),
            Pattern::Repeat { pattern, .. } => pattern.is_plain(),
        }
    }

    /// The same with each class (and each character of a text) replaced.
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
