//! The law that each word of an output is in the message or in a reported span.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rolecall::format::codec::kinds::{Kind, Words};
use rolecall::format::{Codec, Field, Format, Op, Slot};

use super::laws::{Broken, Reader};
use super::log::{Log, Seen};

/// The words that a format's layouts write.
#[derive(Clone, Debug, Default)]
pub struct LayoutWords {
    known: BTreeSet<String>,
    /// Whether a layout writes a name or a key twice, as tags do.
    repeats: bool,
}

impl LayoutWords {
    /// Returns the words of a format's reply layouts.
    pub fn of(format: &Format) -> LayoutWords {
        let mut words = LayoutWords::default();
        for slot in Slot::ALL.into_iter().filter(|slot| slot.is_reply()) {
            let mut fields = Vec::new();
            words.collect(format.layout(slot).map_or(&[][..], |layout| layout.ops()), format, &mut fields);
            let is_double = |field| fields.iter().filter(|known| **known == field).count() > 1;
            words.repeats |= [Field::Name, Field::Id, Field::Key].into_iter().any(is_double);
        }
        if let Some(header) = &format.habits.header {
            let texts = [&header.author, &header.recipient, &header.functions].into_iter();
            let lists = [&header.reasoning, &header.code, &header.people];
            texts.chain(lists.into_iter().flatten()).for_each(|text| words.add(text));
            header.marks().for_each(|mark| words.add(mark));
        }
        // Keys and words that the parser knows in the object of any call.
        ["name", "arguments", "parameters", "id", "type", "function", "index"]
            .into_iter()
            .for_each(|key| words.add(key));
        // Literals are spelled differently in JSON, and a section of XML has no text of its own.
        LITERALS.into_iter().chain(["CDATA"]).for_each(|word| words.add(word));
        format.habits.call_marks.iter().for_each(|mark| words.add(mark));
        words
    }

    fn collect(&mut self, ops: &[Op], format: &Format, fields: &mut Vec<Field>) {
        for op in ops {
            match op {
                Op::Literal(text) => self.add(text),
                Op::Control(id) => self.add(&format.controls[id.0].text),
                Op::Group(inner) => self.collect(inner, format, fields),
                Op::Hole { field, codec, .. } => {
                    fields.push(*field);
                    if *field == Field::Type {
                        let usual = Words::default();
                        Kind::ALL.into_iter().for_each(|kind| self.add(usual.of(kind)));
                    }
                    match codec {
                        Codec::Call(keys) => [keys.name(), keys.arguments()].into_iter().for_each(|key| self.add(key)),
                        Codec::Kinds(kinds) => Kind::ALL.into_iter().for_each(|kind| self.add(kinds.of(kind))),
                        // The closing tag of an element repeats its name.
                        Codec::Elements(elements) => {
                            self.add(&elements.item);
                            self.repeats = true;
                        }
                        _ => {}
                    }
                }
                Op::Seam | Op::Own(_) => {}
            }
        }
    }

    fn add(&mut self, text: &str) {
        self.known.extend(words_in(text).map(|word| text[word].to_owned()));
    }
}

impl Reader<'_> {
    /// Checks that each word that was inserted into a text is emitted once, or reported.
    pub(super) fn keeps_inserted(&self, text: &str, words: &[String], log: &Log) -> Result<(), Broken> {
        let everything = log.everything();
        let headers = self.headers_in(text);
        for word in words {
            let count = everything.matches(word.as_str()).count();
            // The model writes ids too.
            let in_id = |seen: &Seen| match seen {
                Seen::Started { id, .. } | Seen::Finished { id: Some(id), .. } => id.contains(word.as_str()),
                _ => false,
            };
            let is_kept = count == 1 || log.seen.iter().any(in_id);
            let at = text.find(word.as_str()).unwrap_or_default();
            let is_attribute = headers.iter().any(|span| span.contains(&at));
            if count > 1 || !(is_kept || is_attribute || log.reports(at..at + word.len())) {
                return Err(Broken {
                    law: "each word is emitted once or reported",
                    output: text.to_owned(),
                    what: format!("{word:?} is emitted {count} times\n  {:?}", log.seen),
                });
            }
        }
        Ok(())
    }

    /// Checks that each word of a text that no layout writes is emitted or reported.
    pub(super) fn keeps_words(&self, text: &str, log: &Log) -> Result<(), Broken> {
        let everything = log.everything();
        let mut marks = self.marks_in(text, true);
        marks.extend(self.headers_in(text));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for word in words_in(text) {
            let is_mark = marks.iter().any(|mark| mark.start < word.end && word.start < mark.end);
            let spelled = &text[word.clone()];
            let is_special = spelled.len() < SHORTEST
                || spelled.starts_with(|first: char| first.is_ascii_digit())
                || text[..word.start].ends_with(['\\', '&'])
                || self.subject.words.known.contains(spelled);
            if !(is_mark || is_special || log.splits(&word) || log.reports(word)) {
                *counts.entry(spelled).or_default() += 1;
            }
        }
        for (word, count) in counts {
            let count = if self.subject.words.repeats { 1 } else { count };
            // A literal may be followed by a key without a separator.
            let rest = LITERALS.iter().find_map(|literal| word.strip_prefix(literal));
            let found = everything.matches(rest.unwrap_or(word)).count();
            if found < count {
                return Err(Broken {
                    law: "each word is emitted or reported",
                    output: text.to_owned(),
                    what: format!("{word:?} occurs {count} times, {found} are emitted\n  {:?}", log.seen),
                });
            }
        }
        Ok(())
    }

    /// Returns the headers of messages in a text, each up to its next marker. An attribute, such as
    /// a channel, may be any word. It is read, but it is no part of the message.
    pub(super) fn headers_in(&self, text: &str) -> Vec<Range<usize>> {
        let Some(header) = &self.subject.format.habits.header else { return Vec::new() };
        let before = [&header.start, &header.channel, &header.content_type];
        let before = before.into_iter().filter(|mark| !mark.is_empty());
        let starts = before.flat_map(|mark| text.match_indices(mark.as_str()).map(|(at, _)| at + mark.len()));
        let end_of = |start: usize| {
            let rest = &text[start..];
            // A brace begins a call.
            let end = header.marks().filter_map(|mark| rest.find(mark)).chain(rest.find('{')).min();
            start..start + end.unwrap_or(rest.len())
        };
        starts.chain([0]).map(end_of).collect()
    }

    /// Returns the markers in a text. White space in a marker may differ. The prompt may contain the
    /// start of the first marker. `may_be_cut` tells whether the end of the output may cut the last
    /// one off.
    pub(super) fn marks_in(&self, text: &str, may_be_cut: bool) -> Vec<Range<usize>> {
        let is_space = |character: &char| character.is_whitespace();
        let places: Vec<usize> =
            text.char_indices().filter(|(_, c)| !is_space(c)).flat_map(|(at, c)| at..at + c.len_utf8()).collect();
        let text: String = text.chars().filter(|c| !is_space(c)).collect();
        let mut found = Vec::new();
        for mark in &self.subject.marks {
            let mark: String = mark.chars().filter(|c| !is_space(c)).collect();
            found.extend(text.match_indices(&mark).map(|(at, _)| at..at + mark.len()));
            for (at, _) in mark.char_indices().skip(1) {
                if text.starts_with(&mark[at..]) {
                    found.push(0..mark.len() - at);
                }
                if may_be_cut && text.ends_with(&mark[..at]) {
                    found.push(text.len() - at..text.len());
                }
            }
        }
        let spelled = |mark: Range<usize>| Some(*places.get(mark.start)?..places.get(mark.end.checked_sub(1)?)? + 1);
        found.into_iter().filter_map(spelled).collect()
    }
}

impl Log {
    /// Reports whether a range of the output is within one reported span.
    fn reports(&self, range: Range<usize>) -> bool {
        self.seen.iter().any(|seen| match seen {
            Seen::Malformed(malformed) => {
                malformed.span.start <= range.start as u64 && range.end as u64 <= malformed.span.end
            }
            _ => false,
        })
    }

    /// Reports whether a reported span begins or ends inside a range.
    fn splits(&self, range: &Range<usize>) -> bool {
        let is_inside = |at: u64| (range.start as u64) < at && at < range.end as u64;
        self.seen.iter().any(|seen| match seen {
            Seen::Malformed(malformed) => is_inside(malformed.span.start) || is_inside(malformed.span.end),
            _ => false,
        })
    }
}

/// The literals of JSON and Python.
const LITERALS: [&str; 6] = ["true", "false", "null", "True", "False", "None"];

/// Shorter words occur by chance.
const SHORTEST: usize = 3;

/// Returns the ranges of the words in a text: runs of letters, digits and underscores.
fn words_in(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        at = text[start..].find(|character| !is_word(character)).map_or(text.len(), |length| start + length);
        Some(start..at)
    })
}
