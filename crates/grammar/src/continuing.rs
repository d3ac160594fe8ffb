use std::collections::HashMap;

use crate::Node;

/// The most steps of a search. Where free texts and repetitions follow each other, a text may be divided among them in
/// more ways than anybody needs.
const MOST_STEPS: usize = 100_000;

/// The most ways that are found.
const MOST_FOUND: usize = 500;

/// A search for the ways in which nodes continue after a text. Only those count in which free texts match the fewest
/// bytes of it.
///
/// A list of nodes is a number: that of its first item, before another list. Equal lists have the same number, so that
/// each is tried only once at each byte.
pub(crate) struct ContinuationSearch<'n, 't> {
    text: &'t str,
    lists: Vec<(StackItem<'n>, List)>,
    numbers: HashMap<(ItemKey, List), List>,
    /// The fewest bytes of free texts with which a list was reached at a byte.
    reached: HashMap<(List, usize), usize>,
    /// Where to go on, the next one last.
    pending: Vec<NodesState>,
    steps: usize,
    least: usize,
    found: Vec<Node>,
}

/// The number of a list, or `None` if it is empty.
type List = Option<usize>;

/// The address of a node, and how often it is repeated.
type ItemKey = (usize, usize, Option<usize>);

#[derive(Clone, Copy)]
enum StackItem<'n> {
    Node(&'n Node),
    /// A node that is repeated between so many times.
    Repeat(&'n Node, usize, Option<usize>),
}

/// A list of nodes from a byte of the text on, and the bytes of free texts so far.
#[derive(Clone, Copy)]
struct NodesState {
    list: List,
    at: usize,
    cost: usize,
}

impl<'n, 't> ContinuationSearch<'n, 't> {
    pub fn new(text: &'t str) -> ContinuationSearch<'n, 't> {
        ContinuationSearch {
            text,
            lists: Vec::new(),
            numbers: HashMap::new(),
            reached: HashMap::new(),
            pending: Vec::new(),
            steps: 0,
            least: usize::MAX,
            found: Vec::new(),
        }
    }

    /// Searches the ways in which a node continues.
    pub fn add(&mut self, node: &'n Node) {
        let list = self.list(StackItem::Node(node), None);
        self.pending.push(NodesState { list, at: 0, cost: 0 });
        while let Some(state) = self.pending.pop() {
            if self.is_over() {
                return self.pending.clear();
            }
            self.advance(state);
        }
    }

    /// Returns what follows the text, or `None` if nothing does or the search took too long.
    pub fn found(self) -> Option<Vec<Node>> {
        let is_usable = !self.is_over() && !self.found.is_empty();
        is_usable.then_some(self.found)
    }

    /// Returns what follows the text if no free text matches any of it.
    pub fn found_fixed(self) -> Option<Vec<Node>> {
        if self.least == 0 { self.found() } else { None }
    }

    fn is_over(&self) -> bool {
        self.steps > MOST_STEPS || self.found.len() > MOST_FOUND
    }

    fn list(&mut self, item: StackItem<'n>, rest: List) -> List {
        let key = match item {
            // A node that stands for itself is repeated no times.
            StackItem::Node(node) => (std::ptr::from_ref(node).addr(), 0, Some(0)),
            StackItem::Repeat(node, min, max) => (std::ptr::from_ref(node).addr(), min, max),
        };
        *self.numbers.entry((key, rest)).or_insert_with(|| {
            self.lists.push((item, rest));
            Some(self.lists.len() - 1)
        })
    }

    fn advance(&mut self, state: NodesState) {
        let NodesState { list, at, cost } = state;
        let known = self.reached.entry((list, at)).or_insert(usize::MAX);
        if cost >= *known || cost > self.least {
            return;
        }
        *known = cost;
        self.steps += 1;
        let text = &self.text[at..];
        if text.is_empty() {
            return self.keep(cost, None, list);
        }
        let Some((item, rest)) = list.map(|number| self.lists[number]) else { return };
        match item {
            StackItem::Node(Node::Literal(literal)) => match text.strip_prefix(literal.as_str()) {
                Some(more) => self.pending.push(NodesState { list: rest, at: self.text.len() - more.len(), cost }),
                None => {
                    if let Some(left) = literal.strip_prefix(text) {
                        self.keep(cost, Some(left), rest);
                    }
                }
            },
            StackItem::Node(Node::Token(token)) => {
                if let Some(more) = text.strip_prefix(token.text.as_str()) {
                    self.pending.push(NodesState { list: rest, at: self.text.len() - more.len(), cost });
                }
            }
            StackItem::Node(Node::Text(free)) => {
                let most = free.most(text);
                if most == text.len() {
                    // The free text goes on.
                    self.pending.push(NodesState { list, at: self.text.len(), cost: cost + most });
                }
                let ends = text.char_indices().map(|(end, _)| end).take_while(|end| *end <= most);
                let ends: Vec<usize> = ends.filter(|end| self.may_begin(rest, at + end)).collect();
                self.steps += ends.len();
                let next = |end: &usize| NodesState { list: rest, at: at + end, cost: cost + end };
                self.pending.extend(ends.iter().rev().map(next));
            }
            StackItem::Node(Node::Sequence(nodes)) => {
                let list = nodes.iter().rev().fold(rest, |rest, node| self.list(StackItem::Node(node), rest));
                self.pending.push(NodesState { list, ..state });
            }
            StackItem::Node(Node::Choice(ways)) => {
                for way in ways.iter().rev() {
                    let list = self.list(StackItem::Node(way), rest);
                    self.pending.push(NodesState { list, ..state });
                }
            }
            StackItem::Node(Node::Repeat { node, min, max }) => self.repeat((node, *min, *max), rest, state),
            StackItem::Repeat(node, min, max) => self.repeat((node, min, max), rest, state),
            StackItem::Node(Node::Pattern(_) | Node::Json(_) | Node::Rule(_) | Node::Over) => {}
        }
    }

    fn repeat(&mut self, (node, min, max): (&'n Node, usize, Option<usize>), rest: List, state: NodesState) {
        if max != Some(0) {
            let (min, max) = (min.saturating_sub(1), max.map(|max| max - 1));
            let again = if max == Some(0) { rest } else { self.list(StackItem::Repeat(node, min, max), rest) };
            let list = self.list(StackItem::Node(node), again);
            self.pending.push(NodesState { list, ..state });
        }
        if min == 0 {
            self.pending.push(NodesState { list: rest, ..state });
        }
    }

    /// Reports whether a list may go on at a byte of the text, as its first node tells.
    fn may_begin(&self, list: List, at: usize) -> bool {
        let fixed = match list.map(|number| self.lists[number].0) {
            None => return false,
            Some(StackItem::Node(Node::Literal(text))) => text,
            Some(StackItem::Node(Node::Token(token))) => &token.text,
            Some(_) => return true,
        };
        let text = &self.text[at..];
        text.starts_with(fixed) || fixed.starts_with(text)
    }

    /// Keeps what follows the text: the rest of a literal, and a list.
    fn keep(&mut self, cost: usize, left: Option<&str>, list: List) {
        if cost > self.least {
            return;
        }
        if cost < self.least {
            self.found.clear();
            self.least = cost;
        }
        let mut nodes: Vec<Node> = left.map(Node::literal).into_iter().collect();
        let mut list = list;
        while let Some((item, rest)) = list.map(|number| self.lists[number]) {
            nodes.push(match item {
                StackItem::Node(node) => node.clone(),
                StackItem::Repeat(node, min, max) => node.clone().repeated(min, max),
            });
            list = rest;
        }
        self.found.push(Node::sequence(nodes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that many nodes divide among them in more ways than can be tried.
    #[test]
    fn a_search_ends_and_finds_the_ways_with_the_least_free_text() {
        let found = |node: &Node, text: &str| {
            let mut continuing = ContinuationSearch::new(text);
            continuing.add(node);
            continuing.found().map(Node::choice)
        };
        let line = Node::sequence([Node::text(), Node::literal("\n")]);
        let lines = line.clone().repeated(0, None);
        let text = "a line\n".repeat(200);
        let went_on = found(&Node::sequence([lines.clone(), lines.clone(), Node::literal("end")]), &text);
        assert!(went_on.is_some());
        // A repetition of what may be empty.
        let empty = Node::text().repeated(0, None);
        let began = std::time::Instant::now();
        for node in [
            Node::sequence([empty.clone(), empty.clone(), empty.clone(), Node::literal("end")]),
            Node::sequence(vec![Node::sequence([Node::text(), lines.optional()]).repeated(0, None); 20]),
            Node::sequence([
                Node::sequence([Node::text(), Node::literal("e")]).repeated(0, None),
                Node::literal("end"),
            ]),
        ] {
            let _ = found(&node, &text);
        }
        assert!(began.elapsed().as_secs() < 10);
        let fixed = Node::sequence([Node::literal("a line\nb"), Node::literal("!")]);
        let both = Node::choice([Node::sequence([Node::text(), Node::literal("?")]), fixed]);
        assert_eq!(found(&both, "a line\n"), Some(Node::literal("b!")));
    }

    /// Every way, without the search's shortcuts.
    fn each_way(nodes: &[Node], text: &str, cost: usize, ways: &mut Vec<(usize, Node)>) {
        if text.is_empty() {
            return ways.push((cost, Node::sequence(nodes.to_vec())));
        }
        let Some((first, rest)) = nodes.split_first() else { return };
        let mut before = |inner: &[Node], text: &str, cost: usize| {
            let all: Vec<Node> = inner.iter().chain(rest).cloned().collect();
            each_way(&all, text, cost, ways);
        };
        match first {
            Node::Literal(literal) => match (text.strip_prefix(literal.as_str()), literal.strip_prefix(text)) {
                (Some(more), _) => before(&[], more, cost),
                (None, Some(left)) => before(&[Node::literal(left)], "", cost),
                (None, None) => {}
            },
            Node::Text(free) => {
                let ends = (0..text.len()).filter(|end| free.takes(&text[..*end]));
                ends.for_each(|end| before(&[], &text[end..], cost + end));
                if free.takes(text) {
                    before(std::slice::from_ref(first), "", cost + text.len());
                }
            }
            Node::Sequence(inner) => before(inner, text, cost),
            Node::Choice(all) => all.iter().for_each(|way| before(std::slice::from_ref(way), text, cost)),
            Node::Repeat { node, min, max } => {
                if *min == 0 {
                    before(&[], text, cost);
                }
                if *max != Some(0) {
                    let again = (**node).clone().repeated(min.saturating_sub(1), max.map(|max| max - 1));
                    before(&[(**node).clone(), again], text, cost);
                }
            }
            _ => {}
        }
    }

    fn any_node(number: &mut impl FnMut(u64) -> u64, depth: usize) -> Node {
        let some = |number: &mut _| -> Vec<Node> { (0..2).map(|_| any_node(number, depth - 1)).collect() };
        match number(if depth == 0 { 3 } else { 6 }) {
            0 | 1 => Node::literal(["a", "b", "ab", "ba", "aab"][number(5) as usize]),
            2 => Node::Text(crate::FreeText {
                avoid: if number(2) == 0 { vec!["ba".into()] } else { Vec::new() },
                not_first: if number(3) == 0 { vec!['a'] } else { Vec::new() },
            }),
            3 => Node::sequence(some(number)),
            4 => Node::choice(some(number)),
            _ => any_node(number, depth - 1).repeated(number(2) as usize, Some(1 + number(2) as usize)),
        }
    }

    #[test]
    fn a_search_finds_what_a_search_without_shortcuts_finds() {
        let mut seed = 20_261_129_u64;
        let mut number = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut several = 0;
        for _ in 0..20_000 {
            let node = any_node(&mut number, 3);
            let text: String = (0..number(6)).map(|_| if number(2) == 0 { 'a' } else { 'b' }).collect();
            let mut ways = Vec::new();
            each_way(std::slice::from_ref(&node), &text, 0, &mut ways);
            let least = ways.iter().map(|(cost, _)| *cost).min();
            let ways: Vec<Node> = ways.into_iter().filter(|way| Some(way.0) == least).map(|(_, node)| node).collect();
            several += usize::from(ways.len() > 1);
            let mut continuing = ContinuationSearch::new(&text);
            continuing.add(&node);
            let expected = (!ways.is_empty()).then(|| Node::choice(ways));
            assert_eq!(continuing.found().map(Node::choice), expected, "{text:?} by {node:?}");
        }
        assert!(several > 1000, "{several}");
    }
}
