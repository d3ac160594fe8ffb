use std::fmt::Write;

/// What code printed or returned, piece by piece. Texts are [`plain`](crate::plain).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeOutput {
    /// Text that the code printed.
    Stdout(String),
    /// Text that the code printed as errors and warnings.
    Stderr(String),
    /// What the last expression returned, or what the code displayed, as text. A table is a text as well.
    Result(String),
    /// A picture. It is a file of the session.
    Picture {
        /// Its name in the session's folder.
        name: String,
        /// Its type, such as `image/png`.
        media: &'static str,
    },
    /// An error that the code did not catch.
    Error {
        /// Its class.
        name: String,
        /// What it says.
        message: String,
        /// Where it happened, line by line.
        traceback: Vec<String>,
    },
    /// What the interpreter says: what was cut, or that the kernel is a new one.
    Note(String),
}

/// What became of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// What the code printed and returned, in order.
    pub outputs: Vec<CodeOutput>,
    /// Whether the kernel is another one than at the call before, so that all variables are gone.
    pub is_new_kernel: bool,
}

impl Execution {
    /// Returns the error that the code did not catch, if there is one.
    pub fn error(&self) -> Option<&CodeOutput> {
        self.outputs.iter().find(|output| matches!(output, CodeOutput::Error { .. }))
    }

    /// Returns the names of the pictures.
    pub fn pictures(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().filter_map(|output| match output {
            CodeOutput::Picture { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Returns the text that a model reads. `picture` makes the text of a picture from its name.
    ///
    /// ```
    /// use rolecall_interpreter::{Execution, CodeOutput};
    /// let picture = CodeOutput::Picture { name: "output-1.png".into(), media: "image/png" };
    /// let execution = Execution { outputs: vec![CodeOutput::Stdout("a\n".into()), picture], is_new_kernel: false };
    /// assert_eq!(execution.text(|name| format!("![image](/mnt/data/{name})")), "a\n![image](/mnt/data/output-1.png)");
    /// ```
    pub fn text(&self, picture: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        let mut was_printed = false;
        for output in &self.outputs {
            let is_printed = matches!(output, CodeOutput::Stdout(_) | CodeOutput::Stderr(_));
            // Printed text comes in pieces that may end within a line.
            let goes_on = is_printed && was_printed;
            if !text.is_empty() && !text.ends_with('\n') && !goes_on {
                text.push('\n');
            }
            was_printed = is_printed;
            match output {
                CodeOutput::Stdout(printed) | CodeOutput::Stderr(printed) => text.push_str(printed),
                CodeOutput::Result(result) => text.push_str(result),
                CodeOutput::Picture { name, .. } => text.push_str(&picture(name)),
                CodeOutput::Error { name, message, traceback } if traceback.is_empty() => {
                    let _ = write!(text, "{name}: {message}");
                }
                CodeOutput::Error { traceback, .. } => text.push_str(&traceback.join("\n")),
                CodeOutput::Note(note) => {
                    let _ = write!(text, "[{note}]");
                }
            }
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }
}
