use crate::{Node, Note};

/// What an engine may sample for a reply.
///
/// The printers ([`Grammar::to_structural_tag`], [`Grammar::to_lark`], [`Grammar::to_gbnf`]) write it for an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Grammar {
    /// All of it.
    pub root: Node,
    /// The rules that it names: for values of syntaxes that no engine knows, which may hold themselves.
    pub rules: Vec<Rule>,
    /// What it says less exactly than it was asked to.
    pub notes: Vec<Note>,
}

/// A named piece of a grammar.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name: small letters, digits and `-`.
    pub name: String,
    /// What it is.
    pub node: Node,
    /// Whether it only saves saying something twice: nothing in it comes back to it.
    pub is_short: bool,
}

/// The rules made so far, and what was noted meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) list: Vec<Rule>,
    /// What the values that they are of are less exact in.
    pub(crate) notes: Vec<Note>,
}

impl Rules {
    /// A rule that is filled in later.
    pub(crate) fn reserve(&mut self, name: &str) -> usize {
        let taken = |name: &str| self.list.iter().any(|rule| rule.name == name);
        let mut free = name.to_owned();
        if taken(name) {
            // Rules are many where texts are long: the number is found from how many there are, not by trying each.
            free = format!("{name}-{}", self.list.len());
        }
        self.list.push(Rule { name: free, node: Node::never(), is_short: false });
        self.list.len() - 1
    }

    pub(crate) fn fill(&mut self, rule: usize, node: Node) {
        self.list[rule].node = node;
    }

    /// A rule for what is said several times.
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
