use crate::Node;
use crate::grammar::Rules;

/// Returns parts in order, with a separator between those that are present. Required parts are
/// always present. Any number of additional parts may follow.
pub(crate) fn listed(parts: Vec<(Node, bool)>, separator: &Node, others: Option<Node>, rules: &mut Rules) -> Node {
    let more = |node: &Node| Node::sequence([separator.clone(), node.clone()]);
    let first_needed = parts.iter().position(|(_, needed)| *needed).unwrap_or(parts.len());
    // The continuation after the first part that is present, for each part that may be the first.
    let mut after = others.as_ref().map_or(Node::empty(), |others| more(others).repeated(0, None));
    let mut start = match &others {
        Some(others) => Node::sequence([others.clone(), after.clone()]).optional(),
        None => Node::empty(),
    };
    for (index, (part, needed)) in parts.iter().enumerate().rev() {
        // Several parts may be the first, and all share the same continuation, so it becomes a
        // rule.
        if first_needed > 0 && index <= first_needed && !matches!(after, Node::Rule(_)) && !after.is_empty() {
            after = rules.add("more", after);
        }
        let here = Node::sequence([part.clone(), after.clone()]);
        start = match needed {
            true => here,
            false => Node::choice([here, start]),
        };
        let then = more(part);
        after = Node::sequence([if *needed { then } else { then.optional() }, after]);
    }
    start
}
