use rolecall::parse::{Malformed, Why};
use rolecall::{Event, Reading, Stop};

/// The events of a reply with their deltas joined, equal for every split of the same text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The events, in order.
    pub seen: Vec<Seen>,
}

/// An event that owns its text.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "as in the parser's own events")]
pub enum Seen {
    Content(String),
    Reasoning(String),
    Started { index: usize, id: String, name: String },
    Arguments { index: usize, text: String },
    Finished { index: usize, whole: bool, id: Option<String> },
    CodeStarted { index: usize, id: String },
    Code { index: usize, text: String },
    Stop(Stop),
    Malformed(Malformed),
}

impl Log {
    /// Adds the next event.
    pub fn add(&mut self, event: &Event<'_>) {
        let new = match *event {
            Event::Content(text) => Seen::Content(text.to_owned()),
            Event::Reasoning(text) => Seen::Reasoning(text.to_owned()),
            Event::CallStarted { index, id, name } => Seen::Started { index, id: id.to_owned(), name: name.to_owned() },
            Event::Arguments { index, text } => Seen::Arguments { index, text: text.to_owned() },
            Event::CallFinished { index, whole, id } => Seen::Finished { index, whole, id: id.map(str::to_owned) },
            Event::CodeStarted { index, id } => Seen::CodeStarted { index, id: id.to_owned() },
            Event::Code { index, text } => Seen::Code { index, text: text.to_owned() },
            Event::Stop(stop) => Seen::Stop(stop),
            Event::Malformed(ref malformed) => Seen::Malformed(malformed.clone()),
            _ => panic!("unknown event: {event:?}"),
        };
        match (self.seen.last_mut(), new) {
            (
                _,
                Seen::Content(text) | Seen::Reasoning(text) | Seen::Arguments { text, .. } | Seen::Code { text, .. },
            ) if text.is_empty() => {}
            (Some(Seen::Content(before)), Seen::Content(more)) => before.push_str(&more),
            (Some(Seen::Reasoning(before)), Seen::Reasoning(more)) => before.push_str(&more),
            (Some(Seen::Arguments { index, text }), Seen::Arguments { index: at, text: more }) if *index == at => {
                text.push_str(&more);
            }
            (Some(Seen::Code { index, text }), Seen::Code { index: at, text: more }) if *index == at => {
                text.push_str(&more);
            }
            (_, new) => self.seen.push(new),
        }
    }

    /// Returns the reading that the events add up to.
    pub fn reading(&self) -> Reading {
        let mut reading = Reading::default();
        for seen in &self.seen {
            let event = match seen {
                Seen::Content(text) => Event::Content(text),
                Seen::Reasoning(text) => Event::Reasoning(text),
                Seen::Started { index, id, name } => Event::CallStarted { index: *index, id, name },
                Seen::Arguments { index, text } => Event::Arguments { index: *index, text },
                Seen::Finished { index, whole, id } => {
                    Event::CallFinished { index: *index, whole: *whole, id: id.as_deref() }
                }
                Seen::CodeStarted { index, id } => Event::CodeStarted { index: *index, id },
                Seen::Code { index, text } => Event::Code { index: *index, text },
                Seen::Stop(stop) => Event::Stop(*stop),
                Seen::Malformed(malformed) => Event::Malformed(malformed.clone()),
            };
            reading.add(&event);
        }
        reading
    }

    /// Returns the spans that are reported as no part of the message.
    pub fn unread(&self) -> impl Iterator<Item = &std::ops::Range<u64>> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::Malformed(Malformed { span, why: Why::Unread | Why::AfterEnd }) => Some(span),
            _ => None,
        })
    }

    /// Returns the text that is emitted as written, in order: content, reasoning and code.
    pub fn raw_texts(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::Content(text) | Seen::Reasoning(text) | Seen::Code { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns everything that is emitted: texts, names, ids and arguments.
    pub fn everything(&self) -> String {
        let mut all = String::new();
        let mut before = None;
        for seen in self.seen.iter().filter(|seen| !matches!(seen, Seen::Malformed(_))) {
            // Keep texts of different kinds apart, so that they do not join to one word.
            if before.replace(std::mem::discriminant(seen)) != Some(std::mem::discriminant(seen)) {
                all.push('\u{1}');
            }
            match seen {
                Seen::Content(text)
                | Seen::Reasoning(text)
                | Seen::Code { text, .. }
                | Seen::Arguments { text, .. } => {
                    all.push_str(text);
                }
                // An id that contains the name would repeat it.
                Seen::Started { name, id, .. } => {
                    let made =
                        id.find(&format!("{name}:")).filter(|at| id[..*at].is_empty() || id[..*at].ends_with('.'));
                    let id = match made {
                        Some(at) => [&id[..at], &id[at + name.len()..]].concat(),
                        None => id.clone(),
                    };
                    all.extend([name.as_str(), "\u{1}", id.as_str()]);
                }
                Seen::Finished { id: Some(id), .. } => all.push_str(id),
                _ => {}
            }
        }
        all
    }
}
