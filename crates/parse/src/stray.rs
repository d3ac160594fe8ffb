use std::collections::VecDeque;
use std::ops::Range;

use rolecall_format::tag_length;

use crate::Why;
use crate::literal::Literal;

/// A format's markers, searched for in emitted text, where none of them belongs.
///
/// This is an Aho-Corasick automaton, so that the work for each byte is constant. Unlike
/// [`Marks`](crate::marks::Marks), it never holds text back.
#[derive(Clone, Debug)]
pub(crate) struct StrayMarks {
    nodes: Vec<StrayNode>,
    texts: Vec<Box<str>>,
    /// The syntaxes of calls to which markers belong, each with the number of the marker's text.
    syntaxes: Vec<(usize, Box<str>)>,
    /// The bytes with which a marker begins, and the backtick.
    first: [bool; 256],
}

#[derive(Clone, Debug, Default)]
struct StrayNode {
    edges: Vec<(u8, usize)>,
    /// The node of the longest proper suffix.
    shorter: usize,
    /// The number of bytes that lead to the node.
    depth: usize,
    mark: Option<StrayMark>,
    /// Whether ordinary text spells one of the markers that begin like this.
    is_text: bool,
}

/// A marker that ends at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StrayMark {
    /// The number of its text.
    text: usize,
    length: usize,
    /// Whether only a control token spells it.
    is_control: bool,
    /// Whether it belongs only to calls.
    is_of_call: bool,
}

impl StrayMarks {
    /// Creates the automaton for the markers in a format's literals, for those of other syntaxes of
    /// calls, each with the names of the syntaxes, and for those in other literals. The flag says
    /// whether a literal is part of a call.
    pub fn new(
        literals: impl IntoIterator<Item = (Literal, bool)>,
        syntaxes: &[(Literal, Box<str>)],
        others: impl IntoIterator<Item = (Literal, bool)>,
    ) -> StrayMarks {
        let mut marks = StrayMarks {
            nodes: vec![StrayNode::default()],
            texts: Vec::new(),
            syntaxes: Vec::new(),
            first: [false; 256],
        };
        marks.first[usize::from(b'`')] = true;
        marks.add_all(literals);
        for (mark, names) in syntaxes {
            // A marker of the format's own is no other syntax.
            if !marks.has(mark.text()) {
                marks.syntaxes.push((marks.texts.len(), names.clone()));
                marks.add(mark, true);
            }
        }
        marks.add_all(others);
        marks.link();
        marks
    }

    /// Reports whether a marker was added.
    fn has(&self, mark: &str) -> bool {
        let end = mark.bytes().try_fold(0, |node, byte| self.next(node, byte));
        end.is_some_and(|node| self.nodes[node].mark.is_some())
    }

    fn add_all(&mut self, literals: impl IntoIterator<Item = (Literal, bool)>) {
        for (literal, is_of_call) in literals {
            for mark in marks_in(&literal) {
                self.add(&mark, is_of_call);
            }
        }
    }

    fn add(&mut self, literal: &Literal, is_of_call: bool) {
        let bytes = literal.text().as_bytes();
        let is_control = literal.byte(0).is_some_and(|(_, is_control)| is_control);
        let mut node = 0;
        for byte in bytes {
            node = match self.next(node, *byte) {
                Some(next) => next,
                None => {
                    let depth = self.nodes[node].depth + 1;
                    self.nodes.push(StrayNode { depth, ..StrayNode::default() });
                    let next = self.nodes.len() - 1;
                    self.nodes[node].edges.push((*byte, next));
                    next
                }
            };
            self.nodes[node].is_text |= !is_control;
        }
        self.first[usize::from(bytes[0])] = true;
        let known = self.nodes[node].mark.get_or_insert_with(|| {
            self.texts.push(literal.text().into());
            StrayMark { text: self.texts.len() - 1, length: bytes.len(), is_control, is_of_call }
        });
        known.is_control &= is_control;
        known.is_of_call &= is_of_call;
    }

    /// Links each node with that of its longest suffix, nodes of fewer bytes first.
    fn link(&mut self) {
        let mut open: VecDeque<usize> = self.nodes[0].edges.iter().map(|(_, next)| *next).collect();
        while let Some(node) = open.pop_front() {
            let shorter = self.nodes[node].shorter;
            if self.nodes[node].mark.is_none() {
                self.nodes[node].mark = self.nodes[shorter].mark;
            }
            for (byte, next) in self.nodes[node].edges.clone() {
                self.nodes[next].shorter = self.step(shorter, byte);
                open.push_back(next);
            }
        }
    }

    fn next(&self, node: usize, byte: u8) -> Option<usize> {
        self.nodes[node].edges.iter().find(|(known, _)| *known == byte).map(|(_, next)| *next)
    }

    /// Returns the node after a byte.
    fn step(&self, mut node: usize, byte: u8) -> usize {
        loop {
            match self.next(node, byte) {
                Some(next) => return next,
                None if node == 0 => return 0,
                None => node = self.nodes[node].shorter,
            }
        }
    }

    /// Reports whether no marker and no backtick begins in a text.
    #[inline]
    pub fn is_plain(&self, bytes: &[u8]) -> bool {
        !bytes.iter().any(|byte| self.first[usize::from(*byte)])
    }
}

/// A marker that does not belong there: its span in the output, and the number of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub span: Range<u64>,
    text: usize,
}

impl StrayMarks {
    /// Returns why a marker is reported.
    pub fn why(&self, stray: &Stray) -> Why {
        let mark = self.texts[stray.text].to_string();
        match self.syntaxes.binary_search_by_key(&stray.text, |(text, _)| *text) {
            Ok(at) => Why::OtherSyntax { mark, syntax: self.syntaxes[at].1.to_string() },
            Err(_) => Why::StrayMarker(mark),
        }
    }
}

/// The search for stray markers in the text that is emitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strays {
    node: usize,
    /// Whether the text is reasoning. A policy decides about calls in it.
    is_reasoning: bool,
    /// The offset of the end of the text.
    end: u64,
    /// The offset up to which text was reported as a whole.
    pub reported: u64,
    /// The number of bytes searched since a marker could begin.
    seen: usize,
    /// The gaps that markers left in the text that may be part of a marker, each with the number
    /// of bytes searched before it and its length.
    gaps: VecDeque<(usize, u64)>,
    /// The offset after the last backtick.
    tick: Option<u64>,
    /// A marker after a backtick. If another backtick follows, the model only mentions the marker.
    open: Option<Stray>,
    /// The control tokens among the last bytes of the output, or `None` if they are not known.
    control: Option<VecDeque<Range<u64>>>,
}

impl Strays {
    /// Reports whether no marker has begun.
    pub fn is_idle(&self) -> bool {
        self.node == 0 && self.open.is_none()
    }

    /// Begins another text.
    pub fn reset(&mut self) {
        self.node = 0;
    }

    /// Records which bytes of the output come from a control token.
    pub fn add_control(&mut self, span: Range<u64>, is_control: bool) {
        let known = self.control.get_or_insert_default();
        match known.back_mut() {
            _ if !is_control => {}
            Some(last) if last.end == span.start => last.end = span.end,
            _ => known.push_back(span),
        }
    }

    /// Forgets the control tokens before an offset.
    pub fn forget(&mut self, before: u64) {
        let Some(control) = &mut self.control else { return };
        while control.front().is_some_and(|span| span.end <= before) {
            control.pop_front();
        }
    }

    /// Takes the beginning of a marker with which the answer ends, and returns its span.
    pub fn take_begun(&mut self, marks: &StrayMarks) -> Option<Range<u64>> {
        let node = &marks.nodes[std::mem::take(&mut self.node)];
        let is_spelled = node.is_text || self.control.is_none();
        let start = self.end.saturating_sub(self.spread(node.depth));
        let is_new = self.end > self.reported && self.tick != Some(start);
        (node.depth >= LEAST && is_spelled && !self.is_reasoning && is_new).then_some(start..self.end)
    }

    /// Takes the marker after a backtick, because something other than a backtick follows.
    pub fn take_open(&mut self) -> Option<Stray> {
        self.open.take()
    }

    /// Begins a piece of text at an offset. Returns a marker before it that no backtick follows.
    pub fn enter(&mut self, marks: &StrayMarks, is_reasoning: bool, text: &str, start: u64) -> Option<Stray> {
        if is_reasoning != self.is_reasoning {
            (self.node, self.is_reasoning) = (0, is_reasoning);
        }
        if self.node > 0 && start != self.end {
            self.forget_gaps(marks.nodes[self.node].depth);
            let length = start.saturating_sub(self.end);
            match self.gaps.back_mut() {
                Some((before, known)) if *before == self.seen => *known += length,
                _ => self.gaps.push_back((self.seen, length)),
            }
            self.end = start;
        }
        let open = self.open.take()?;
        let is_quoted = open.span.end == start && text.starts_with('`');
        (!is_quoted).then_some(open)
    }

    /// Forgets the gaps before the last bytes, of which there are this many.
    fn forget_gaps(&mut self, length: usize) {
        while self.gaps.front().is_some_and(|(before, _)| before + length <= self.seen) {
            self.gaps.pop_front();
        }
    }

    /// Returns the length of the last bytes, of which there are this many, with the gaps in them.
    fn spread(&self, length: usize) -> u64 {
        let gaps = self.gaps.iter().filter(|(before, _)| before + length > self.seen);
        length as u64 + gaps.map(|(_, gap)| gap).sum::<u64>()
    }

    /// Returns the next stray marker that ends after byte `from` of a piece of text that begins at
    /// an offset: the byte after it, and the marker.
    pub fn find(&mut self, marks: &StrayMarks, text: &str, from: usize, start: u64) -> Option<(usize, Stray)> {
        let bytes = text.as_bytes();
        let mut at = from;
        while at < bytes.len() {
            if self.node == 0 {
                self.seen = 0;
                self.gaps.clear();
                at += bytes[at..].iter().position(|byte| marks.first[usize::from(*byte)]).unwrap_or(bytes.len() - at);
                let Some(byte) = bytes.get(at) else { break };
                if *byte == b'`' {
                    at += 1;
                    self.tick = Some(start + at as u64);
                    continue;
                }
            }
            self.node = marks.step(self.node, bytes[at]);
            self.seen += 1;
            if bytes[at] == b'`' {
                self.tick = Some(start + at as u64 + 1);
            }
            at += 1;
            let Some(mark) = marks.nodes[self.node].mark else { continue };
            let end = start + at as u64;
            let span = end.saturating_sub(self.spread(mark.length))..end;
            if (self.is_reasoning && mark.is_of_call) || (mark.is_control && !self.is_control(&span)) {
                continue;
            }
            self.node = 0;
            let is_behind_tick = self.tick == Some(span.start);
            let stray = Stray { span, text: mark.text };
            if is_behind_tick {
                match bytes.get(at) {
                    Some(b'`') => continue,
                    None => {
                        self.open = Some(stray);
                        break;
                    }
                    Some(_) => {}
                }
            }
            self.end = end;
            return Some((at, stray));
        }
        self.end = start + bytes.len() as u64;
        None
    }

    fn is_control(&self, span: &Range<u64>) -> bool {
        let holds = |known: &Range<u64>| known.start <= span.start && span.end <= known.end;
        self.control.as_ref().is_none_or(|control| control.iter().rev().any(holds))
    }
}

/// The length from which the beginning of a marker is told from ordinary text.
const LEAST: usize = 4;

/// Returns the markers in literal text of a format: control tokens, tags, and words of capitals in
/// square brackets. Other text of a format, such as JSON keys, is ordinary text elsewhere.
pub(crate) fn marks_in(literal: &Literal) -> Vec<Literal> {
    let text = literal.text();
    let mut marks = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let is_control = literal.byte(at).is_some_and(|(_, is_control)| is_control);
        let length = match tag_length(&text[at..]) {
            None if is_control => Some(token(literal, at)),
            tag => tag,
        };
        match length.filter(|length| *length >= 3) {
            Some(length) => {
                let mark = literal.from(at).up_to(length);
                if !mark.text().contains('`') {
                    marks.push(mark);
                }
                at += length;
            }
            None => at += first.len_utf8(),
        }
    }
    marks
}

/// Returns the length of a control token without brackets, which ends where another one or ordinary
/// text begins.
fn token(literal: &Literal, at: usize) -> usize {
    let text = &literal.text()[at..];
    let ends = |here: usize, character: char| {
        matches!(character, '<' | '[') || literal.byte(at + here).is_none_or(|(_, is_control)| !is_control)
    };
    text.char_indices().skip(1).find(|(here, character)| ends(*here, *character)).map_or(text.len(), |(here, _)| here)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(text: &str) -> Vec<String> {
        marks_in(&Literal::of(text)).iter().map(|mark| mark.text().to_owned()).collect()
    }

    #[test]
    fn only_tags_are_markers() {
        assert_eq!(marks("</f>\n<call>\n<f="), ["</f>", "<call>", "<f="]);
        assert_eq!(marks("<|a|>say<|b|>"), ["<|a|>", "<|b|>"]);
        assert_eq!(marks("[CALLS][{\"name\": \""), ["[CALLS]"]);
        assert_eq!(marks("><{a: 1}[x] ```json"), [""; 0]);
    }

    #[test]
    fn a_marker_is_found_however_the_text_is_cut() {
        let automaton = StrayMarks::new([(Literal::of("<<go>>"), false), (Literal::of("<go!>"), true)], &[], []);
        let text = "a <<go! <<<go!> `<go!>` <go!>`";
        for cut in 0..=text.len() {
            let mut strays = Strays::default();
            let mut spans = Vec::new();
            for (start, piece) in [(0, &text[..cut]), (cut, &text[cut..])] {
                spans.extend(strays.enter(&automaton, false, piece, start as u64));
                let mut from = 0;
                while let Some((end, stray)) = strays.find(&automaton, piece, from, start as u64) {
                    from = end;
                    spans.push(stray);
                }
            }
            let found: Vec<&str> =
                spans.iter().map(|stray| &text[stray.span.start as usize..stray.span.end as usize]).collect();
            assert_eq!(found, ["<go!>", "<go!>"], "cut at {cut}");
        }
    }

    #[test]
    fn a_span_has_only_the_gaps_inside_its_marker() {
        let automaton = StrayMarks::new([(Literal::of("<go!>"), true)], &[], []);
        // The text is cut where the output has something else.
        for (pieces, span) in [
            ([("a <", 0), ("<g", 100), ("o!>", 105)], 100..108),
            ([("a <", 0), ("g", 100), ("o!>", 105)], 2..108),
            ([("a <g", 0), ("o", 4), ("!>", 9)], 2..11),
        ] {
            let mut strays = Strays::default();
            let mut spans = Vec::new();
            for (piece, start) in pieces {
                assert_eq!(strays.enter(&automaton, false, piece, start), None);
                spans.extend(strays.find(&automaton, piece, 0, start).map(|(_, stray)| stray.span));
            }
            assert_eq!(spans, [span]);
        }
    }
}
