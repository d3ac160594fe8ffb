use rolecall::Event;
use rolecall_interpreter::agent::AgentEvent;
use rolecall_interpreter::{CodeOutput, plain};

use super::asking::escape_lines;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::Style;

/// What is shown of a chat.
pub struct Shown<'a> {
    pub output: &'a Output,
    /// Whether steps are lines of JSON.
    pub json: bool,
    /// What the last text belongs to, if its line is open.
    pub is_within: Option<ShownPart>,
}

/// A part of a reply that is shown apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownPart {
    Content,
    Reasoning,
    Call,
    /// What code prints.
    Output,
}

impl ShownPart {
    fn style(self) -> Style {
        match self {
            ShownPart::Content | ShownPart::Output => Style::Plain,
            ShownPart::Reasoning => Style::Mark,
            ShownPart::Call => Style::Tool,
        }
    }
}

impl Shown<'_> {
    /// Shows a step.
    pub fn show(&mut self, event: &AgentEvent<'_>) -> Result<(), Failure> {
        if self.json {
            return self.output.write_json(&event.to_json());
        }
        match event {
            AgentEvent::Reply(event) => self.show_reply(event),
            AgentEvent::Message { .. } => self.end_line(),
            AgentEvent::Output(output) => {
                let is_stream = matches!(output, CodeOutput::Stdout(_) | CodeOutput::Stderr(_));
                if !is_stream || self.is_within != Some(ShownPart::Output) {
                    self.end_line()?;
                }
                let text = draw_output(output, self.output);
                self.is_within = (is_stream && !text.ends_with('\n')).then_some(ShownPart::Output);
                self.output.write(&text)
            }
            AgentEvent::Result { call, result } => {
                self.end_line()?;
                // What code printed was shown as it came.
                if call.is_code() && result.error.is_none() {
                    return Ok(());
                }
                let style = if result.error.is_some() { Style::Error } else { Style::Frame };
                let text = plain(&result.text);
                self.output.write(&format!("{}\n", self.output.paint.text(style, &format!("→ {text}"))))
            }
            _ => Ok(()),
        }
    }

    fn show_reply(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Content(text) => self.text(ShownPart::Content, text),
            Event::Reasoning(text) => self.text(ShownPart::Reasoning, text),
            Event::CallStarted { name, .. } => {
                self.end_line()?;
                self.text(ShownPart::Call, &format!("{name} "))
            }
            Event::CodeStarted { .. } => {
                self.end_line()?;
                self.text(ShownPart::Call, "code:\n")
            }
            Event::Arguments { text, .. } | Event::Code { text, .. } => self.text(ShownPart::Call, text),
            Event::CallFinished { .. } => self.end_line(),
            Event::Malformed(malformed) => {
                self.end_line()?;
                self.note(&format!("the reply is malformed: {}", plain(&malformed.why.to_string())))
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, part: ShownPart, text: &str) -> Result<(), Failure> {
        if self.is_within.is_some_and(|within| within != part) {
            self.end_line()?;
        }
        // What a terminal would obey, and what would hide a character, is shown.
        let text = escape_lines(text);
        if text.is_empty() {
            return Ok(());
        }
        self.is_within = Some(part);
        self.output.write(&self.output.paint.text(part.style(), &text))
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        match self.is_within.take() {
            Some(_) => self.output.write("\n"),
            None => Ok(()),
        }
    }

    /// Shows a remark.
    pub fn note(&self, text: &str) -> Result<(), Failure> {
        if self.json {
            eprintln!("{text}");
            return Ok(());
        }
        self.output.write(&format!("{}\n", self.output.paint.text(Style::Frame, text)))
    }
}

/// Draws what code printed or returned. The interpreter has taken out what a terminal would obey.
fn draw_output(shown: &CodeOutput, output: &Output) -> String {
    let line = |style: Style, text: String| format!("{}\n", output.paint.text(style, &text));
    match shown {
        CodeOutput::Stdout(text) => text.clone(),
        CodeOutput::Stderr(text) => output.paint.text(Style::Warning, text),
        CodeOutput::Result(text) => format!("{text}\n"),
        CodeOutput::Picture { name, .. } => line(Style::Strong, format!("[picture: {name}]")),
        CodeOutput::Error { name, message, traceback } if traceback.is_empty() => {
            line(Style::Error, format!("{name}: {message}"))
        }
        CodeOutput::Error { traceback, .. } => line(Style::Error, traceback.join("\n")),
        CodeOutput::Note(note) => line(Style::Frame, format!("[{note}]")),
        other => format!("{other:?}\n"),
    }
}
