//! The markers to search for in each place of a reply.

use std::sync::Arc;

use rolecall_format::Format;

use super::turns::{Around, TurnPart, Turns};
use super::{CallEntry, CallPlace, CallTable, Mark, Meaning, Reply};
use crate::literal::Literal;

/// Fills a reply's markers from the layouts of its turns and calls.
pub(super) struct Builder<'a> {
    pub reply: &'a mut Reply,
    pub turns: &'a Turns,
    pub calls: &'a CallTable,
    pub tokens: &'a [String],
}

/// A place where markers are searched for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchPoint {
    Head,
    Content,
    Reasoning,
    AfterCall,
}

impl Builder<'_> {
    /// Adds all markers. If two markers are equal, the first one wins.
    pub fn build(mut self, format: &Format) {
        self.add_parts();
        self.add_calls();
        self.end_messages();
        self.add_ends(format);
    }

    /// Adds the markers that open and close the parts of a turn.
    fn add_parts(&mut self) {
        use SearchPoint::{AfterCall, Content, Head, Reasoning};
        let turns = self.turns;
        for (number, around) in turns.around.iter().enumerate() {
            match around.part {
                TurnPart::Reasoning => {
                    let next = turns.around.get(number + 1).filter(|next| around.next == Some(next.part));
                    let close = match next {
                        Some(next) if around.close.is_blank() && next.open.core().is_strong() => &next.open,
                        _ => &around.close,
                    };
                    let texts = [&around.open, close].map(|literal| literal.text().trim().to_owned());
                    self.reply.around_reasoning.get_or_insert(texts.into());
                    self.close_by_words(around, turns.around.get(number + 1));
                    self.add(&[Head], &around.open, Meaning::Reasoning);
                    if around.open.core().is_strong() {
                        self.add(&[Content, Reasoning, AfterCall], &around.open, Meaning::Reasoning);
                    }
                    let is_word = !around.close.core().is_strong() && around.close.lead().contains('\n');
                    match is_word {
                        true => {
                            self.add(&[Head], &around.close, Meaning::ReasoningClosed);
                            self.add_words(&around.close, Meaning::ReasoningClosed);
                            // After an opening line, the closing words may follow at once.
                            if around.open.trail().contains('\n') {
                                let mut both = around.open.clone();
                                both.append(&around.close.from(around.close.lead().len()));
                                self.add(&[Head], &both, Meaning::ReasoningClosed);
                            }
                        }
                        false => self.close(&[Head, Reasoning], &around.close, Meaning::ReasoningClosed),
                    }
                }
                TurnPart::Content => {
                    self.open_content(&around.open);
                    if around.open.core().is_strong() {
                        self.add(&[Content, Reasoning, AfterCall], &around.open, Meaning::Content);
                    }
                    if let (Some(TurnPart::Calls), Some(program)) = (around.next, self.calls.text_head) {
                        let core = around.close.core();
                        // A turn's opening that is ordinary text opens a call in the answer only if
                        // a call follows. Otherwise it is text.
                        let (opening, text) = (turns.opening.text(), core.text());
                        let is_plain_opening = text == opening && !core.is_strong();
                        if !text.is_empty() && (opening.is_empty() || !text.ends_with(opening) || is_plain_opening) {
                            self.add(&[Content], &around.close, Meaning::Call(program));
                        }
                    }
                    self.close(&[Content, Head], &around.close, Meaning::ContentClosed);
                }
                TurnPart::Calls => self.close(&[AfterCall, Content], &around.close, Meaning::CallsClosed),
            }
        }
    }

    /// Adds the markers of calls, and those that open and close a list of calls.
    fn add_calls(&mut self) {
        use SearchPoint::{AfterCall, Content, Head, Reasoning};
        let (turns, calls) = (self.turns, self.calls);
        self.add(&[Content, Reasoning, AfterCall], &turns.opening, Meaning::Opening);
        for place in [CallPlace::Anywhere, CallPlace::Head, CallPlace::AfterCall, CallPlace::Line] {
            for CallEntry { pad, mark, program, .. } in calls.entries.iter().filter(|entry| entry.at == place) {
                let meaning = Meaning::Call(*program);
                let what = || Mark { meaning, pad: "".into() };
                match place {
                    CallPlace::Head => self.add(&[Head], mark, meaning),
                    CallPlace::AfterCall => self.add(&[AfterCall], mark, meaning),
                    CallPlace::Anywhere | CallPlace::Line => {
                        self.reply.content.add(pad, mark, what());
                        self.reply.reasoning_with_calls.add(pad, mark, what());
                    }
                }
                if place == CallPlace::Anywhere {
                    self.reply.after_call.add("", mark, what());
                    if calls.ends.iter().any(|end| !end.is_empty() && mark.text().starts_with(end.as_str())) {
                        self.reply.head.add(pad, mark, what());
                    }
                }
            }
        }
        self.reply.head_call = calls.head;
        if calls.next.is_some_and(|next| calls.programs[next].is_bare()) {
            // Models that write bare objects separate them with commas or semicolons, or put them
            // into a list.
            for (text, to) in [(",", calls.next.map(Meaning::Call)), (";", calls.next.map(Meaning::Call))] {
                if let Some(to) = to {
                    self.add(&[AfterCall], &Literal::of(text), to);
                }
            }
            self.add(&[AfterCall], &Literal::of("]"), Meaning::CallsClosed);
        }
        if let Some(whole) = calls.whole {
            let separator = calls.separator.core();
            let to = match separator.text().ends_with(turns.opening.text()) && !turns.opening.is_empty() {
                true => Meaning::Opening,
                false => Meaning::Call(whole),
            };
            self.add(&[AfterCall], &separator, to);
        }
        self.add(&[AfterCall], &calls.close, Meaning::CallsClosed);
        self.close_after_calls();
        if calls.close.core().is_strong() {
            self.add(&[Content], &calls.close, Meaning::CallsClosed);
        }
        for close in &calls.call_close {
            // These markers may remain after an unparseable call.
            let mark = close.up_to(close.text().len());
            if mark.is_strong() {
                self.add(&[AfterCall], &mark, Meaning::CallsClosed);
            }
        }
    }

    /// Adds the markers that end a reply.
    fn add_ends(&mut self, format: &Format) {
        use SearchPoint::{AfterCall, Content, Head, Reasoning};
        let (turns, calls) = (self.turns, self.calls);
        let anywhere = calls.entries.iter().filter(|entry| entry.at == CallPlace::Anywhere);
        let entries = anywhere.map(|entry| &entry.mark).chain(&calls.call_close);
        let all: Vec<Literal> = calls.around.iter().chain(entries).chain([&calls.close]).map(Literal::core).collect();
        for end in &turns.ends {
            let lead = end.lead().len();
            let core = end.core();
            let cut = lead + core.mark_apart(all.iter().filter(|other| !core.is_begun_by(other)));
            let rest = end.from(cut);
            self.mark(&[Head, Content, Reasoning, AfterCall], &end.up_to(cut), Meaning::End, rest.text());
        }
        let stops = format.stops().into_iter().map(Literal::of).chain(
            format.controls.iter().filter(|control| control.ends_turn).map(|control| {
                let mut literal = Literal::default();
                literal.push(&control.text, true);
                literal
            }),
        );
        for mut end in stops {
            end.mark_tokens(self.tokens);
            self.add(&[Head, Content, Reasoning, AfterCall], &end, Meaning::End);
        }
    }

    /// Adds the text that opens the answer. After a call, the text between two calls precedes it.
    fn open_content(&mut self, open: &Literal) {
        self.open_content_at(SearchPoint::Head, open);
        if open.is_blank() || open.core().is_strong() {
            return;
        }
        let mut after = self.calls.separator.core();
        after.append(&open.from(open.lead().len()));
        self.open_content_at(SearchPoint::AfterCall, &after);
    }

    /// Adds the text that opens the answer. A word must be followed by its white space, because a
    /// tool's name may begin with the word.
    fn open_content_at(&mut self, at: SearchPoint, open: &Literal) {
        let core = open.core();
        let space = open.trail().chars().next().filter(|_| core.text().ends_with(char::is_alphanumeric));
        let Some(space) = space.filter(|_| !core.is_strong()) else {
            return self.add(&[at], open, Meaning::Content);
        };
        let length = open.text().trim_end().len() + space.len_utf8();
        let mark = Mark { meaning: Meaning::Content, pad: open.text()[length..].into() };
        let marks = if at == SearchPoint::Head { &mut self.reply.head } else { &mut self.reply.after_call };
        marks.add(open.lead(), &open.up_to(length).from(open.lead().len()), mark);
    }

    /// Adds the words that open the answer, and so close reasoning that has no marker of its own.
    fn close_by_words(&mut self, reasoning: &Around, next: Option<&Around>) {
        let Some(next) = next.filter(|next| reasoning.next == Some(next.part) && reasoning.close.is_blank()) else {
            return;
        };
        if next.part == TurnPart::Content && !next.open.is_blank() && !next.open.core().is_strong() {
            let mut words = reasoning.close.clone();
            words.append(&next.open);
            self.add_words(&words, Meaning::Content);
        }
    }

    /// Adds words that close reasoning. They count only at the start of a line if the layout has a
    /// line break before them.
    fn add_words(&mut self, words: &Literal, meaning: Meaning) {
        let mark = Mark { meaning, pad: words.trail().into() };
        let words = words.up_to(words.text().trim_end().len());
        let line = words.lead().rfind('\n').unwrap_or(words.lead().len());
        let (lead, words) = (words.up_to(line), words.from(line));
        self.reply.reasoning.add(lead.text(), &words, mark.clone());
        self.reply.reasoning_with_calls.add(lead.text(), &words, mark);
    }

    /// Adds a marker that closes a part. If it ends with a turn's opening, that opens the next
    /// part.
    fn close(&mut self, at: &[SearchPoint], literal: &Literal, meaning: Meaning) {
        let opening = &self.turns.opening;
        let core = literal.core();
        match core.text().strip_suffix(opening.text()).filter(|_| !opening.is_empty()) {
            Some(before) if !before.trim().is_empty() => {
                self.add(at, literal, Meaning::Opening);
                let before = core.up_to(before.len());
                self.add(at, &before, meaning);
            }
            _ => self.add(at, literal, meaning),
        }
    }

    pub(super) fn add(&mut self, at: &[SearchPoint], literal: &Literal, meaning: Meaning) {
        let pad = match meaning {
            // The items of a call skip white space themselves.
            Meaning::Call(_) => "",
            _ => literal.trail(),
        };
        self.mark(at, literal, meaning, pad);
    }

    /// Adds a marker, with text that may follow and belongs to it.
    fn mark(&mut self, at: &[SearchPoint], literal: &Literal, meaning: Meaning, pad: &str) {
        // White space alone is a marker only at the head, where it opens the answer.
        let (lead, core) = match literal.is_blank() {
            true if at == [SearchPoint::Head] => (String::new(), literal.clone()),
            true => return,
            false => (literal.lead().to_owned(), literal.core()),
        };
        let pad: Arc<str> = pad.into();
        for at in at {
            let mark = Mark { meaning, pad: Arc::clone(&pad) };
            match at {
                SearchPoint::Head => self.reply.head.add(&lead, &core, mark),
                SearchPoint::Content => self.reply.content.add_loosely(&lead, &core, mark),
                SearchPoint::Reasoning => {
                    self.reply.reasoning.add_loosely(&lead, &core, mark.clone());
                    self.reply.reasoning_with_calls.add_loosely(&lead, &core, mark);
                }
                SearchPoint::AfterCall => {
                    if matches!(meaning, Meaning::CallsClosed | Meaning::End) {
                        self.reply.closing.add_loosely(&lead, &core, ());
                    }
                    self.reply.after_call.add_loosely(&lead, &core, mark);
                }
            }
        }
    }
}
