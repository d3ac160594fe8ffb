//! Reports whether a grammar accepts a text, by trying all alternatives with memoization.

use std::collections::{BTreeSet, HashMap};

use rolecall::grammar::{Grammar, Node, Pattern};

/// Reports whether a grammar accepts a whole text.
pub fn matches(grammar: &Grammar, text: &str) -> bool {
    let lowered = grammar.lowered();
    let mut matcher = Matcher { grammar: &lowered, text, known: HashMap::new() };
    matcher.ends(&lowered.root, 0).contains(&text.len())
}

struct Matcher<'a> {
    grammar: &'a Grammar,
    text: &'a str,
    /// The ends of a rule that begins at a position.
    known: HashMap<(usize, usize), BTreeSet<usize>>,
}

impl Matcher<'_> {
    fn ends(&mut self, node: &Node, at: usize) -> BTreeSet<usize> {
        match node {
            Node::Literal(text) => self.fixed(text, at),
            Node::Token(token) => self.fixed(&token.text, at),
            Node::Pattern(pattern) => self.pattern(pattern, at),
            Node::Sequence(nodes) => in_sequence(at, nodes, |node, at| self.ends(node, at)),
            Node::Choice(ways) => ways.iter().flat_map(|way| self.ends(way, at)).collect(),
            Node::Repeat { node, min, max } => repeated(at, *min, *max, &mut |at| self.ends(node, at)),
            Node::Rule(rule) => {
                if let Some(known) = self.known.get(&(*rule, at)) {
                    return known.clone();
                }
                // A rule that reaches itself without consuming a character adds no ends.
                self.known.insert((*rule, at), BTreeSet::new());
                let grammar = self.grammar;
                let ends = self.ends(&grammar.rules[*rule].node, at);
                self.known.insert((*rule, at), ends.clone());
                ends
            }
            Node::Text(_) | Node::Json(_) | Node::Over => panic!("a lowered grammar has no such nodes"),
        }
    }

    fn fixed(&self, text: &str, at: usize) -> BTreeSet<usize> {
        self.text[at..].starts_with(text).then_some(at + text.len()).into_iter().collect()
    }

    fn pattern(&self, pattern: &Pattern, at: usize) -> BTreeSet<usize> {
        match pattern {
            Pattern::Text(text) => self.fixed(text, at),
            Pattern::Class(class) => {
                let next = self.text[at..].chars().next();
                next.filter(|c| class.holds(*c)).map(|c| at + c.len_utf8()).into_iter().collect()
            }
            Pattern::Sequence(parts) => in_sequence(at, parts, |part, at| self.pattern(part, at)),
            Pattern::Choice(ways) => ways.iter().flat_map(|way| self.pattern(way, at)).collect(),
            Pattern::Repeat { pattern, min, max } => repeated(at, *min, *max, &mut |at| self.pattern(pattern, at)),
        }
    }
}

/// Returns the ends of parts that follow one another.
fn in_sequence<T>(at: usize, parts: &[T], mut ends: impl FnMut(&T, usize) -> BTreeSet<usize>) -> BTreeSet<usize> {
    parts.iter().fold(BTreeSet::from([at]), |starts, part| starts.into_iter().flat_map(|at| ends(part, at)).collect())
}

fn repeated(
    at: usize,
    min: usize,
    max: Option<usize>,
    once: &mut impl FnMut(usize) -> BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut ends = BTreeSet::new();
    let mut reached = BTreeSet::from([at]);
    let mut count = 0;
    loop {
        if count >= min {
            let before = ends.len();
            ends.extend(&reached);
            if ends.len() == before {
                return ends;
            }
        }
        if max == Some(count) || reached.is_empty() {
            return ends;
        }
        reached = reached.into_iter().flat_map(&mut *once).collect();
        count += 1;
    }
}
