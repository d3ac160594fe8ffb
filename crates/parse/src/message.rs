use crate::{Event, Malformed, Stop};

/// The accumulated events of a turn.
///
/// ```
/// use rolecall_parse::{Event, Reading};
/// let mut reading = Reading::default();
/// reading.add(&Event::Content("Hel"));
/// reading.add(&Event::Content("lo"));
/// assert_eq!(reading.content, "Hello");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The answer.
    pub content: String,
    /// The reasoning, if any.
    pub reasoning: Option<String>,
    /// The calls, in order.
    pub calls: Vec<ParsedCall>,
    /// The reason the turn ended; `None` while it goes on.
    pub stop: Option<Stop>,
    /// The parts of the output that do not match the layout.
    pub malformed: Vec<Malformed>,
}

/// A call that the model made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedCall {
    /// A call of a function.
    Function {
        /// The call's id.
        id: String,
        /// The function's name.
        name: String,
        /// The arguments as JSON text, spelled as the model spelled them if it wrote JSON.
        arguments: String,
        /// Whether the arguments are complete.
        whole: bool,
    },
    /// A call of the code interpreter.
    Code {
        /// The call's id.
        id: String,
        /// The code.
        code: String,
        /// Whether the code is complete.
        whole: bool,
    },
}

impl Reading {
    /// Emits the calls as events again.
    pub(crate) fn replay(self, on: &mut dyn FnMut(Event<'_>)) {
        for (index, call) in self.calls.iter().enumerate() {
            match call {
                ParsedCall::Function { id, name, arguments, .. } => {
                    on(Event::CallStarted { index, id, name });
                    if !arguments.is_empty() {
                        on(Event::Arguments { index, text: arguments });
                    }
                }
                ParsedCall::Code { id, code, .. } => {
                    on(Event::CodeStarted { index, id });
                    if !code.is_empty() {
                        on(Event::Code { index, text: code });
                    }
                }
            }
            if let ParsedCall::Function { whole: true, .. } | ParsedCall::Code { whole: true, .. } = call {
                on(Event::CallFinished { index, whole: true, id: None });
            }
        }
    }

    /// Adds the next event.
    pub fn add(&mut self, event: &Event<'_>) {
        match *event {
            Event::Content(text) => self.content.push_str(text),
            Event::Reasoning(text) => self.reasoning.get_or_insert_default().push_str(text),
            Event::CallStarted { id, name, .. } => self.calls.push(ParsedCall::Function {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: String::new(),
                whole: false,
            }),
            Event::CodeStarted { id, .. } => {
                self.calls.push(ParsedCall::Code { id: id.to_owned(), code: String::new(), whole: false });
            }
            Event::Arguments { index, text } => {
                if let Some(ParsedCall::Function { arguments, .. }) = self.calls.get_mut(index) {
                    arguments.push_str(text);
                }
            }
            Event::Code { index, text } => {
                if let Some(ParsedCall::Code { code, .. }) = self.calls.get_mut(index) {
                    code.push_str(text);
                }
            }
            Event::CallFinished { index, whole, id } => {
                if let Some(
                    ParsedCall::Function { id: known, whole: is_whole, .. }
                    | ParsedCall::Code { id: known, whole: is_whole, .. },
                ) = self.calls.get_mut(index)
                {
                    *is_whole = whole;
                    if let Some(id) = id {
                        *known = id.to_owned();
                    }
                }
            }
            Event::Stop(stop) => self.stop = Some(stop),
            Event::Malformed(ref malformed) => self.malformed.push(malformed.clone()),
            Event::Place(_) => {}
        }
    }
}
