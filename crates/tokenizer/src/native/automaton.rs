use std::collections::HashMap;

use super::char_classes::CharClasses;
use super::pattern::{Greed, PatternNode, RegexPattern};

/// Limits on the size of an automaton; tokenizer patterns need a few dozen of each.
const MOST_STEPS: usize = 500;
const MOST_CELLS: usize = 1 << 16;

/// A pattern compiled to a table. It finds what a backtracking engine finds, in one pass without
/// backtracking.
pub(crate) struct Automaton {
    /// `[state][class]`, with the end of the text as an additional class.
    steps: Vec<AutomatonStep>,
    width: usize,
}

/// What a character, or the end of the text, leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AutomatonStep {
    /// Whether a match ends before the character.
    pub matched: bool,
    pub next: u32,
}

/// A text on which a pattern repeatedly looks far ahead.
pub(crate) struct TooHard;

/// The state after which no match ends.
pub(crate) const DEAD: u32 = 0;
/// The state before a match.
pub(crate) const START: u32 = 1;

impl Automaton {
    /// Compiles a pattern. Its sets are those of `classes` from `first_set` on.
    pub fn new(pattern: &RegexPattern, classes: &CharClasses, first_set: usize) -> Result<Self, String> {
        let mut program = Program { steps: vec![Transition::Match], first_set };
        let entry = program.add(&pattern.root, 0)?;
        let width = classes.count() + 1;
        let mut states: HashMap<Vec<usize>, u32> = HashMap::from([(Vec::new(), DEAD)]);
        let mut lists = vec![Vec::new()];
        let mut start = Vec::new();
        program.follow(entry, &mut start);
        states.insert(start.clone(), START);
        lists.push(start);
        let mut steps = vec![AutomatonStep { matched: false, next: DEAD }; width];
        while steps.len() < lists.len() * width {
            let list = lists[steps.len() / width].clone();
            let is_start = steps.len() == width;
            for class in 0..width {
                let (matched, next) = program.advance(&list, class, classes);
                if matched && is_start {
                    return Err("a pattern that matches the empty text".to_owned());
                }
                let next = *states.entry(next).or_insert_with_key(|next| {
                    lists.push(next.clone());
                    (lists.len() - 1) as u32
                });
                steps.push(AutomatonStep { matched, next });
            }
            if lists.len() * width > MOST_CELLS {
                return Err("a pattern whose automaton is too large".to_owned());
            }
        }
        Ok(Self { steps, width })
    }

    /// Returns the step from a state; the class after the last is the end of the text.
    #[inline]
    pub fn step(&self, state: u32, class: usize) -> AutomatonStep {
        self.steps[state as usize * self.width + class]
    }

    /// Returns the class of the end of a text.
    pub fn end(&self) -> usize {
        self.width - 1
    }

    /// Reports whether a match ends wherever a state is left for good.
    pub fn always_matches(&self, state: u32) -> bool {
        state != DEAD && (0..self.width).all(|class| self.step(state, class).matched)
    }

    /// Returns the states that are reached after a character.
    pub fn later_states(&self) -> impl Iterator<Item = u32> {
        START + 1..(self.steps.len() / self.width) as u32
    }

    /// Returns the end of the match that starts at `start`, if there is one, in a text that ends at
    /// `end`, and how far the search looked.
    #[inline]
    pub fn find(&self, classes: &CharClasses, text: &str, start: usize, end: usize) -> (Option<usize>, usize) {
        let mut found = None;
        let mut state = START;
        let mut at = start;
        loop {
            let (class, length) = match classes.at(text, at) {
                Some(next) if at < end => next,
                _ => (self.end(), 0),
            };
            let step = self.step(state, class);
            if step.matched {
                found = Some(at);
            }
            state = step.next;
            if state == DEAD || length == 0 {
                return (found, at);
            }
            at += length;
        }
    }
}

/// A pattern as a program of linked steps that ends in a match.
struct Program {
    steps: Vec<Transition>,
    /// The number that the pattern's first set has among all.
    first_set: usize,
}

#[derive(Clone, Copy)]
enum Transition {
    Match,
    Take {
        set: usize,
        next: usize,
    },
    Ahead {
        set: usize,
        negated: bool,
        next: usize,
    },
    /// Both branches; the first is preferred.
    Fork {
        first: usize,
        second: usize,
    },
}

impl Program {
    /// Adds a node that continues at the step `next`. Returns the node's first step.
    fn add(&mut self, node: &PatternNode, next: usize) -> Result<usize, String> {
        match node {
            PatternNode::Set(set) => self.push(Transition::Take { set: self.first_set + set, next }),
            PatternNode::Ahead { set, negated } => {
                self.push(Transition::Ahead { set: self.first_set + set, negated: *negated, next })
            }
            PatternNode::Sequence(nodes) => nodes.iter().rev().try_fold(next, |next, node| self.add(node, next)),
            PatternNode::Choice(nodes) => {
                let mut entries = Vec::with_capacity(nodes.len());
                for node in nodes {
                    entries.push(self.add(node, next)?);
                }
                let last = entries.pop().unwrap_or(next);
                entries.into_iter().rev().try_fold(last, |second, first| self.push(Transition::Fork { first, second }))
            }
            PatternNode::Repeat { node, least, most, greed } => self.repeat(node, *least, *most, *greed, next),
        }
    }

    fn repeat(
        &mut self,
        node: &PatternNode,
        least: u32,
        most: Option<u32>,
        greed: Greed,
        next: usize,
    ) -> Result<usize, String> {
        let exit = match (greed, node) {
            // A possessive set can be left only where it could match no more.
            (Greed::Possessive, PatternNode::Set(set)) => {
                self.push(Transition::Ahead { set: self.first_set + set, negated: true, next })?
            }
            _ => next,
        };
        let fork = |body| match greed {
            Greed::Lazy => Transition::Fork { first: exit, second: body },
            Greed::Greedy | Greed::Possessive => Transition::Fork { first: body, second: exit },
        };
        let mut entry = next;
        match most {
            None => {
                entry = self.push(Transition::Match)?;
                let body = self.add(node, entry)?;
                self.steps[entry] = fork(body);
            }
            Some(most) => {
                for _ in least..most {
                    let body = self.add(node, entry)?;
                    entry = self.push(fork(body))?;
                }
            }
        }
        (0..least).try_fold(entry, |entry, _| self.add(node, entry))
    }

    fn push(&mut self, step: Transition) -> Result<usize, String> {
        if self.steps.len() >= MOST_STEPS {
            return Err("a pattern with too many repetitions".to_owned());
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    /// Appends the steps that can be reached from a step without consuming a character, preferred
    /// steps first.
    fn follow(&self, step: usize, list: &mut Vec<usize>) {
        let mut seen = vec![false; self.steps.len()];
        list.iter().for_each(|&at| seen[at] = true);
        let mut open = vec![step];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match self.steps[at] {
                Transition::Fork { first, second } => open.extend([second, first]),
                _ => list.push(at),
            }
        }
    }

    /// Returns whether a match ends before a character of the class, and the steps that are reached
    /// after the character.
    fn advance(&self, list: &[usize], class: usize, classes: &CharClasses) -> (bool, Vec<usize>) {
        let mut reached = Vec::new();
        let mut seen = vec![false; self.steps.len()];
        let mut open: Vec<usize> = list.iter().rev().copied().collect();
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match self.steps[at] {
                // The remaining steps are less preferred.
                Transition::Match => return (true, reached),
                Transition::Take { set, next } if classes.is_in(class, set) => self.follow(next, &mut reached),
                Transition::Take { .. } => {}
                Transition::Ahead { set, negated, next } if classes.is_in(class, set) != negated => open.push(next),
                Transition::Ahead { .. } => {}
                Transition::Fork { first, second } => open.extend([second, first]),
            }
        }
        (false, reached)
    }
}
