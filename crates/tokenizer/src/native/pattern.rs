use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The nesting depth of groups; tokenizer patterns use three.
const DEEPEST: usize = 32;

/// A regular expression of a pre-tokenizer, limited to what an automaton can run.
///
/// This parser reads the structure, and `regex_syntax` parses each character set, with the same
/// Unicode tables as the reference. Constructs that the two engines of the reference (onig and
/// fancy-regex) interpret differently are rejected: `$`, `\b`, `{2}+`.
pub(crate) struct RegexPattern {
    pub root: PatternNode,
    pub sets: Vec<ClassUnicode>,
}

pub(crate) enum PatternNode {
    /// One character of a set.
    Set(usize),
    Sequence(Vec<PatternNode>),
    /// The first alternative that leads to a match wins.
    Choice(Vec<PatternNode>),
    Repeat {
        node: Box<PatternNode>,
        least: u32,
        most: Option<u32>,
        greed: Greed,
    },
    /// A lookahead that matches if the next character is in the set, or if it is not.
    Ahead {
        set: usize,
        negated: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greed {
    Greedy,
    Lazy,
    /// Never gives back what it matched.
    Possessive,
}

impl RegexPattern {
    /// Parses a pattern. The error names the construct that no automaton can run.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0, depth: 0, sets: Vec::new() };
        let root = parser.choice(false)?;
        if parser.at < text.len() {
            return Err(parser.unsupported("`)`"));
        }
        Ok(Self { root, sets: parser.sets })
    }

    /// Returns a pattern that matches one character of a set, or as many as possible if `repeated`
    /// is set.
    pub fn of_set(set: ClassUnicode, repeated: bool) -> Self {
        let one = PatternNode::Set(0);
        let root = match repeated {
            true => PatternNode::Repeat { node: Box::new(one), least: 1, most: None, greed: Greed::Greedy },
            false => one,
        };
        Self { root, sets: vec![set] }
    }

    /// Returns a pattern that matches a text.
    pub fn of_text(text: &str) -> Self {
        let sets = text.chars().map(|c| ClassUnicode::new([ClassUnicodeRange::new(c, c)])).collect::<Vec<_>>();
        Self { root: PatternNode::Sequence((0..sets.len()).map(PatternNode::Set).collect()), sets }
    }
}

impl PatternNode {
    /// Reports whether the node can match without consuming a character.
    pub fn can_be_empty(&self) -> bool {
        match self {
            Self::Set(_) => false,
            Self::Ahead { .. } => true,
            Self::Sequence(nodes) => nodes.iter().all(Self::can_be_empty),
            Self::Choice(nodes) => nodes.iter().any(Self::can_be_empty),
            Self::Repeat { node, least, .. } => *least == 0 || node.can_be_empty(),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    sets: Vec<ClassUnicode>,
}

impl Parser<'_> {
    fn choice(&mut self, ignore_case: bool) -> Result<PatternNode, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.unsupported("groups nested too deeply"));
        }
        let mut alternatives = vec![self.sequence(ignore_case)?];
        while self.take("|") {
            alternatives.push(self.sequence(ignore_case)?);
        }
        self.depth -= 1;
        Ok(if alternatives.len() == 1 { alternatives.remove(0) } else { PatternNode::Choice(alternatives) })
    }

    fn sequence(&mut self, ignore_case: bool) -> Result<PatternNode, String> {
        let mut nodes = Vec::new();
        while let Some(next) = self.peek() {
            if next == '|' || next == ')' {
                break;
            }
            let node = self.atom(next, ignore_case)?;
            nodes.push(self.repeated(node)?);
        }
        Ok(PatternNode::Sequence(nodes))
    }

    fn atom(&mut self, next: char, ignore_case: bool) -> Result<PatternNode, String> {
        match next {
            '(' => self.group(ignore_case),
            '[' => {
                let length = class_length(&self.text[self.at..]).ok_or_else(|| self.unsupported("`[`"))?;
                self.set(length, ignore_case)
            }
            '\\' => {
                let length = escape_length(&self.text[self.at..]).ok_or_else(|| self.unsupported("an escape"))?;
                self.set(length, ignore_case)
            }
            '^' | '$' | '*' | '+' | '?' | '{' | '}' | ']' => Err(self.unsupported(&format!("`{next}`"))),
            _ => self.set(next.len_utf8(), ignore_case),
        }
    }

    fn group(&mut self, ignore_case: bool) -> Result<PatternNode, String> {
        let ahead = match (self.take("(?!"), self.take("(?=")) {
            (false, false) => None,
            (negated, _) => Some(negated),
        };
        if let Some(negated) = ahead {
            let inner = self.choice(ignore_case)?;
            self.close()?;
            let PatternNode::Sequence(nodes) = inner else {
                return Err(self.unsupported("a lookahead of more than one character"));
            };
            return match nodes.as_slice() {
                [PatternNode::Set(set)] => Ok(PatternNode::Ahead { set: *set, negated }),
                _ => Err(self.unsupported("a lookahead of more than one character")),
            };
        }
        let ignore_case = match (self.take("(?i:"), self.take("(?:")) {
            (true, _) => true,
            (_, true) => ignore_case,
            _ if self.text[self.at..].starts_with("(?") => return Err(self.unsupported("`(?`")),
            _ => {
                self.at += 1;
                ignore_case
            }
        };
        let inner = self.choice(ignore_case)?;
        self.close()?;
        Ok(inner)
    }

    fn close(&mut self) -> Result<(), String> {
        if self.take(")") { Ok(()) } else { Err(self.unsupported("an unclosed group")) }
    }

    fn repeated(&mut self, node: PatternNode) -> Result<PatternNode, String> {
        let (least, most, is_counted) = match self.peek() {
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') => {
                let (least, most) = self.counts()?;
                (least, most, true)
            }
            _ => return Ok(node),
        };
        if !is_counted {
            self.at += 1;
        }
        let greed = match self.peek() {
            Some('?') => Greed::Lazy,
            Some('+') => Greed::Possessive,
            _ => Greed::Greedy,
        };
        if greed != Greed::Greedy {
            // onig reads `{2}?` and `{2}+` as two repetitions, fancy-regex as one.
            if is_counted {
                return Err(self.unsupported("a suffix after a count"));
            }
            self.at += 1;
        }
        if matches!(self.peek(), Some('*' | '+' | '?' | '{')) {
            return Err(self.unsupported("a repeated repetition"));
        }
        // A possessive repetition is supported only for a set, where it equals a repetition with a
        // negative lookahead after it.
        let is_set = matches!(node, PatternNode::Set(_));
        if node.can_be_empty() || (greed == Greed::Possessive && !is_set) {
            return Err(self.unsupported("this repetition"));
        }
        Ok(PatternNode::Repeat { node: Box::new(node), least, most, greed })
    }

    fn counts(&mut self) -> Result<(u32, Option<u32>), String> {
        let rest = &self.text[self.at..];
        let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner);
        let counts = inner.and_then(|inner| match inner.split_once(',') {
            None => inner.parse().ok().map(|count| (count, Some(count))),
            Some((least, "")) => least.parse().ok().map(|least| (least, None)),
            Some((least, most)) => Some((least.parse().ok()?, Some(most.parse().ok()?))),
        });
        match (inner, counts) {
            (Some(inner), Some((least, most))) if most.is_none_or(|most| most >= least) => {
                self.at += inner.len() + 2;
                Ok((least, most))
            }
            _ => Err(self.unsupported("this count")),
        }
    }

    /// Parses the next `length` bytes, which represent one character of a set.
    fn set(&mut self, length: usize, ignore_case: bool) -> Result<PatternNode, String> {
        let text = &self.text[self.at..self.at + length];
        let hir = ParserBuilder::new().case_insensitive(ignore_case).build().parse(text);
        let set = match hir.as_ref().map(|hir| hir.kind()) {
            Ok(HirKind::Class(Class::Unicode(set))) => Some(set.clone()),
            Ok(HirKind::Literal(literal)) => {
                let mut characters = std::str::from_utf8(&literal.0).unwrap_or_default().chars();
                match (characters.next(), characters.next()) {
                    (Some(c), None) => Some(ClassUnicode::new([ClassUnicodeRange::new(c, c)])),
                    _ => None,
                }
            }
            _ => None,
        };
        let set = set.ok_or_else(|| self.unsupported(&format!("`{text}`")))?;
        self.at += length;
        self.sets.push(set);
        Ok(PatternNode::Set(self.sets.len() - 1))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn unsupported(&self, what: &str) -> String {
        format!("{what} at byte {} of the pattern `{}`", self.at, self.text)
    }
}

/// Returns the length of a bracketed class, including nested classes.
fn class_length(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => {
                characters.next()?;
            }
            '[' => depth += 1,
            ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the length of an escape that represents one character of a set and means the same in
/// both engines.
fn escape_length(text: &str) -> Option<usize> {
    let mut characters = text.chars().skip(1);
    match characters.next()? {
        'p' | 'P' if characters.next()? == '{' => text.find('}').map(|end| end + 1),
        's' | 'S' | 'd' | 'D' | 'r' | 'n' | 't' => Some(2),
        c if c.is_ascii_punctuation() => Some(2),
        _ => None,
    }
}
