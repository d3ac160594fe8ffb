use crate::{Node, Note};

/// A grammar of the replies that an engine may sample.
///
/// [`Grammar::to_structural_tag`], [`Grammar::to_lark`] and [`Grammar::to_gbnf`] print it for an
/// engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Grammar {
    /// The whole reply.
    pub root: Node,
    /// The rules that nodes refer to, such as those for recursive values in syntaxes that no engine
    /// supports.
    pub rules: Vec<Rule>,
    /// The requirements that the grammar does not express exactly.
    pub notes: Vec<Note>,
}

/// A named piece of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The rule's name, which consists of lowercase letters, digits and `-`.
    pub name: String,
    /// The rule's definition.
    pub node: Node,
    /// Whether the rule only avoids repetition. Such a rule is not recursive.
    pub is_short: bool,
}

/// The rules built so far, with their notes.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) list: Vec<Rule>,
    /// Notes on the values that the rules describe.
    pub(crate) notes: Vec<Note>,
}

impl Rules {
    /// Adds a rule that is filled in later, and returns its index.
    pub(crate) fn reserve(&mut self, name: &str) -> usize {
        let taken = |name: &str| self.list.iter().any(|rule| rule.name == name);
        let mut free = name.to_owned();
        if taken(name) {
            // Long texts make many rules, so the number is the count of rules, found without a
            // search.
            free = format!("{name}-{}", self.list.len());
        }
        self.list.push(Rule { name: free, node: Node::never(), is_short: false });
        self.list.len() - 1
    }

    /// Adds a note, once.
    pub(crate) fn note(&mut self, note: &Note) {
        if !self.notes.contains(note) {
            self.notes.push(note.clone());
        }
    }

    pub(crate) fn fill(&mut self, rule: usize, node: Node) {
        self.list[rule].node = node;
    }

    /// Adds a rule for a node that is used several times.
    pub(crate) fn shorten(&mut self, name: &str, node: Node) -> Node {
        let rule = self.reserve(name);
        self.list[rule] = Rule { node, is_short: true, ..self.list[rule].clone() };
        Node::Rule(rule)
    }

    pub(crate) fn add(&mut self, name: &str, node: Node) -> Node {
        let rule = self.reserve(name);
        self.fill(rule, node);
        Node::Rule(rule)
    }
}
