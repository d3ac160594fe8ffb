use crate::literal::Literal;

/// Output that has not been read yet.
#[derive(Clone, Copy)]
pub(crate) struct Input<'b> {
    pub text: &'b str,
    /// By byte, whether a control token wrote it; empty where nobody knows.
    pub control: &'b [bool],
}

impl<'b> Input<'b> {
    /// No more than so many bytes of it, and no part of a character.
    pub fn up_to(self, end: usize) -> Input<'b> {
        let mut end = end.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        Input { text: &self.text[..end], control: &self.control[..end.min(self.control.len())] }
    }

    /// Whether the byte here may stand for a byte of a literal.
    #[inline]
    pub fn fits(&self, at: usize, (byte, needs_control): (u8, bool)) -> bool {
        self.text.as_bytes()[at] == byte && (!needs_control || self.control.get(at).is_none_or(|control| *control))
    }

    /// Whether a control token wrote the byte here, and that is known.
    #[inline]
    pub fn is_control(&self, at: usize) -> bool {
        self.control.get(at).copied().unwrap_or(false)
    }
}

/// Marks that are looked for side by side: the first one wins, of several that begin together the longest.
#[derive(Clone, Debug)]
pub(crate) struct Marks<A> {
    nodes: Vec<Node>,
    first: [bool; 256],
    actions: Vec<A>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    edges: Vec<(u8, bool, usize)>,
    action: Option<usize>,
}

/// What stands at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// A mark up to there, with the number of its action.
    Mark(usize, usize),
    /// The start of one, perhaps.
    Open,
    /// None.
    Nothing,
}

/// Where the next mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// From, to, and the number of its action.
    Mark(usize, usize, usize),
    /// What begins here may become one.
    Open(usize),
    /// Nowhere.
    Nothing,
}

impl<A> Marks<A> {
    pub fn new() -> Marks<A> {
        Marks { nodes: vec![Node::default()], first: [false; 256], actions: Vec::new() }
    }

    /// Adds a mark with white space that may stand before it and then belongs to it. The first to add a mark has it.
    pub fn add(&mut self, pad: &str, mark: &Literal, action: A) {
        if mark.is_empty() {
            return;
        }
        self.actions.push(action);
        let number = self.actions.len() - 1;
        let starts = pad.char_indices().map(|(at, _)| at).chain([pad.len()]);
        for start in starts {
            let mut literal = Literal::of(&pad[start..]);
            literal.append(mark);
            self.insert(&literal, number);
        }
    }

    fn insert(&mut self, literal: &Literal, action: usize) {
        let mut node = 0;
        for at in 0..literal.text().len() {
            let Some((byte, control)) = literal.byte(at) else { break };
            if at == 0 {
                self.first[usize::from(byte)] = true;
            }
            let known = self.nodes[node].edges.iter().find(|edge| (edge.0, edge.1) == (byte, control));
            node = match known {
                Some(edge) => edge.2,
                None => {
                    self.nodes.push(Node::default());
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

    pub fn action(&self, number: usize) -> &A {
        &self.actions[number]
    }

    /// What stands at one place. At the end of all input nothing is open.
    pub fn at(&self, input: Input<'_>, start: usize, is_last: bool) -> Here {
        let mut seen = Here::Nothing;
        let mut longest = 0;
        let mut is_open = false;
        // A byte may be that of a control token and of plain text: both ways are followed, the second one later.
        let mut others: Vec<(usize, usize)> = Vec::new();
        let mut way = Some((0, start));
        while let Some((mut node, mut at)) = way {
            loop {
                if at == input.text.len() {
                    is_open |= !self.nodes[node].edges.is_empty();
                    break;
                }
                let mut fitting = self.nodes[node].edges.iter().filter(|edge| input.fits(at, (edge.0, edge.1)));
                let Some(edge) = fitting.next() else { break };
                others.extend(fitting.map(|edge| (edge.2, at + 1)));
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

    /// Where the next mark is.
    #[inline]
    pub fn find(&self, input: Input<'_>, from: usize, is_last: bool) -> Found {
        let bytes = input.text.as_bytes();
        let mut at = from;
        while let Some(ahead) = bytes[at..].iter().position(|byte| self.first[usize::from(*byte)]) {
            at += ahead;
            match self.at(input, at, is_last) {
                Here::Mark(end, action) => return Found::Mark(at, end, action),
                Here::Open => return Found::Open(at),
                Here::Nothing => at += 1,
            }
        }
        Found::Nothing
    }
}
