//! Reports whether a grammar accepts a text, by trying all alternatives with memoization.

use std::collections::{BTreeSet, HashMap, HashSet};

use rolecall_grammar::{Grammar, Node, Pattern};

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

impl<'a> Matcher<'a> {
    /// Returns the ends of a node that begins at a position. What remains of a node after its other
    /// parts is a further step rather than a nested call, because a free text is a rule that ends
    /// with itself, once for each character.
    fn ends(&mut self, node: &'a Node, at: usize) -> BTreeSet<usize> {
        let begun = if let Node::Rule(rule) = node { Some((*rule, at)) } else { None };
        if let Some(known) = begun.and_then(|begun| self.known.get(&begun)) {
            return known.clone();
        }
        // A rule that reaches itself without consuming a character adds no ends.
        self.known.extend(begun.map(|begun| (begun, BTreeSet::new())));
        let grammar = self.grammar;
        let (mut ends, mut seen) = (BTreeSet::new(), HashSet::new());
        let mut open = vec![(node, at)];
        while let Some((node, at)) = open.pop() {
            match node {
                Node::Literal(text) => ends.extend(self.fixed(text, at)),
                Node::Token(token) => ends.extend(self.fixed(&token.text, at)),
                Node::Pattern(pattern) => ends.extend(self.pattern(pattern, at)),
                Node::Sequence(nodes) => match nodes.split_last() {
                    Some((last, first)) => {
                        let starts = in_sequence(at, first, |node, at| self.ends(node, at));
                        open.extend(starts.into_iter().map(|start| (last, start)));
                    }
                    None => _ = ends.insert(at),
                },
                Node::Choice(ways) => open.extend(ways.iter().map(|way| (way, at))),
                Node::Repeat { node, min: 0, max: Some(1) } => {
                    ends.insert(at);
                    open.push((node, at));
                }
                Node::Repeat { node, min, max } => ends.extend(repeated(at, *min, *max, &mut |at| self.ends(node, at))),
                Node::Rule(rule) => {
                    if seen.insert((*rule, at)) {
                        open.push((&grammar.rules[*rule].node, at));
                    }
                }
                Node::Text(_) | Node::Json(_) | Node::Over => panic!("a lowered grammar has no such nodes"),
            }
        }
        self.known.extend(begun.map(|begun| (begun, ends.clone())));
        ends
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
fn in_sequence<'p, T>(
    at: usize,
    parts: &'p [T],
    mut ends: impl FnMut(&'p T, usize) -> BTreeSet<usize>,
) -> BTreeSet<usize> {
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
