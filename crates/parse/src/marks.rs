use crate::literal::Literal;

/// Output that has not been read yet.
#[derive(Clone, Copy)]
pub(crate) struct PendingInput<'b> {
    pub text: &'b str,
    /// For each byte, whether a control token wrote it; empty if unknown.
    pub control: &'b [bool],
}

impl<'b> PendingInput<'b> {
    /// Limits the input to `end` bytes, cut at a character boundary.
    pub fn up_to(self, end: usize) -> PendingInput<'b> {
        let mut end = end.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        PendingInput { text: &self.text[..end], control: &self.control[..end.min(self.control.len())] }
    }

    /// Reports whether the byte here matches a byte of a literal.
    #[inline]
    pub fn fits(&self, at: usize, (byte, needs_control): (u8, bool)) -> bool {
        self.text.as_bytes()[at] == byte && (!needs_control || self.control.get(at).is_none_or(|control| *control))
    }

    /// Reports whether the byte here is known to come from a control token.
    #[inline]
    pub fn is_control(&self, at: usize) -> bool {
        self.control.get(at).copied().unwrap_or(false)
    }
}

/// A set of markers to search for together. The first match wins, and the longest of those that
/// begin at the same byte.
#[derive(Clone, Debug)]
pub(crate) struct Marks<A> {
    nodes: Vec<MarkNode>,
    first: [bool; 256],
    actions: Vec<A>,
}

#[derive(Clone, Debug, Default)]
struct MarkNode {
    edges: Vec<(u8, bool, usize)>,
    action: Option<usize>,
    /// Whether any white space may be here.
    is_loose: bool,
}

/// The maximum number of bytes of a marker with the white space inside it.
const LONGEST_LOOSE: usize = 1024;

/// The result of a match at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// A marker: its end, and the number of its action.
    Mark(usize, usize),
    /// Perhaps the start of a marker.
    Open,
    /// No marker.
    Nothing,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkSearch {
    /// A marker: its start, its end, and the number of its action.
    Mark(usize, usize, usize),
    /// Perhaps the start of a marker, at this byte.
    Open(usize),
    /// No marker.
    Nothing,
}

impl<A> Marks<A> {
    pub fn new() -> Marks<A> {
        Marks { nodes: vec![MarkNode::default()], first: [false; 256], actions: Vec::new() }
    }

    /// Adds a marker, with white space that may precede it and then belongs to it. If a marker is
    /// added twice, the first action counts.
    pub fn add(&mut self, pad: &str, mark: &Literal, action: A) {
        self.add_with(pad, mark, action, false);
    }

    /// Adds a marker like [`add`](Self::add). The white space inside it, where one of its parts
    /// ends and the next one begins, may differ.
    pub fn add_loosely(&mut self, pad: &str, mark: &Literal, action: A) {
        self.add_with(pad, mark, action, true);
    }

    fn add_with(&mut self, pad: &str, mark: &Literal, action: A, is_loose: bool) {
        if mark.is_empty() {
            return;
        }
        self.actions.push(action);
        let number = self.actions.len() - 1;
        let starts = pad.char_indices().map(|(at, _)| at).chain([pad.len()]);
        for start in starts {
            let mut literal = Literal::of(&pad[start..]);
            let from = literal.text().len() + 1;
            literal.append(mark);
            self.insert(&literal, number, if is_loose { from } else { usize::MAX });
        }
    }

    /// Inserts a marker. From the byte `loose_from` on, the white space between its parts may
    /// differ.
    fn insert(&mut self, literal: &Literal, action: usize, loose_from: usize) {
        let mut node = 0;
        for at in 0..literal.text().len() {
            let Some((byte, control)) = literal.byte(at) else { break };
            if at >= loose_from && literal.is_seam(at) {
                self.nodes[node].is_loose = true;
                if byte.is_ascii_whitespace() {
                    continue;
                }
            }
            if at == 0 {
                self.first[usize::from(byte)] = true;
            }
            let known = self.nodes[node].edges.iter().find(|edge| (edge.0, edge.1) == (byte, control));
            node = match known {
                Some(edge) => edge.2,
                None => {
                    self.nodes.push(MarkNode::default());
                    let next = self.nodes.len() - 1;
                    self.nodes[node].edges.push((byte, control, next));
                    next
                }
            };
        }
        self.nodes[node].action.get_or_insert(action);
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Returns the actions of all markers.
    pub fn actions(&self) -> &[A] {
        &self.actions
    }

    pub fn action(&self, number: usize) -> &A {
        &self.actions[number]
    }

    /// Returns the match at one position. If no more input follows, it is never `Open`.
    pub fn at(&self, input: PendingInput<'_>, start: usize, is_last: bool) -> Here {
        let mut seen = Here::Nothing;
        let mut longest = 0;
        let mut is_open = false;
        // The same byte may match as part of a control token and as plain text. Both paths are
        // followed, the second one later.
        let mut others: Vec<(usize, usize)> = Vec::new();
        let mut way = Some((0, start));
        while let Some((mut node, mut at)) = way {
            loop {
                if at == input.text.len() {
                    is_open |= !self.nodes[node].edges.is_empty();
                    break;
                }
                let mut fitting = self.nodes[node].edges.iter().filter(|edge| input.fits(at, (edge.0, edge.1)));
                let edge = fitting.next();
                others.extend(fitting.map(|edge| (edge.2, at + 1)));
                if let Some(behind) = self.behind_space(node, input, at, start) {
                    if behind == input.text.len() {
                        is_open = true;
                    }
                    let fitting = self.nodes[node]
                        .edges
                        .iter()
                        .filter(|edge| behind < input.text.len() && input.fits(behind, (edge.0, edge.1)));
                    others.extend(fitting.map(|edge| (edge.2, behind + 1)));
                }
                let Some(edge) = edge else { break };
                (node, at) = (edge.2, at + 1);
                if let Some(action) = self.nodes[node].action
                    && at > longest
                {
                    longest = at;
                    seen = Here::Mark(at, action);
                }
            }
            way = others.pop();
            if let Some((node, at)) = way
                && let Some(action) = self.nodes[node].action
                && at > longest
            {
                longest = at;
                seen = Here::Mark(at, action);
            }
        }
        match is_open && !is_last {
            true => Here::Open,
            false => seen,
        }
    }

    /// Reports whether no marker begins in a text.
    #[inline]
    pub fn is_plain(&self, bytes: &[u8]) -> bool {
        !bytes.iter().any(|byte| self.first[usize::from(*byte)])
    }

    /// Returns the end of the white space here, if a marker that began at `start` may have any.
    fn behind_space(&self, node: usize, input: PendingInput<'_>, at: usize, start: usize) -> Option<usize> {
        let bytes = input.text.as_bytes();
        if !self.nodes[node].is_loose || !bytes[at].is_ascii_whitespace() {
            return None;
        }
        let spaces = bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        Some(at + spaces).filter(|end| end - start < LONGEST_LOOSE)
    }

    /// Returns the next match.
    #[inline]
    pub fn find(&self, input: PendingInput<'_>, from: usize, is_last: bool) -> MarkSearch {
        let bytes = input.text.as_bytes();
        let mut at = from;
        while let Some(ahead) = bytes[at..].iter().position(|byte| self.first[usize::from(*byte)]) {
            at += ahead;
            match self.at(input, at, is_last) {
                Here::Mark(end, action) => return MarkSearch::Mark(at, end, action),
                Here::Open => return MarkSearch::Open(at),
                Here::Nothing => at += 1,
            }
        }
        MarkSearch::Nothing
    }
}
