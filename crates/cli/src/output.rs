use std::cell::Cell;
use std::env;
use std::io::{self, BufWriter, IsTerminal, Write};

use rolecall::conversation::{Json, json};

use crate::diagnostic::Diagnostic;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::paint::Color;
use crate::paint::Paint;

/// The command's output: results go to standard output, everything else to standard error.
pub struct Output {
    /// Colors for standard output.
    pub paint: Paint,
    error_paint: Paint,
    /// Whether a diagnostic was already printed.
    shown: Cell<bool>,
    /// The width of the terminal in columns, if standard output is a terminal.
    pub width: Option<usize>,
}

impl Output {
    pub fn new(color: Color) -> Output {
        let colored = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color() && env::var_os("TERM").is_none_or(|term| term != "dumb"),
        };
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        Output {
            paint: Paint { colored: colored(io::stdout().is_terminal()) },
            error_paint: Paint { colored: colored(io::stderr().is_terminal()) },
            shown: Cell::new(false),
            width: width.filter(|width| *width >= 40),
        }
    }

    /// Writes part of the result to standard output.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Unwritable)
    }

    /// Writes the result to standard output through a buffered writer.
    pub fn stream(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        write(&mut out).and_then(|()| out.flush()).map_err(Failure::Unwritable)
    }

    /// Writes a JSON value as one line.
    pub fn write_json(&self, value: &Json) -> Result<(), Failure> {
        self.write(&format!("{}\n", json::write(value, &json::Layout::default())))
    }

    /// Prints a diagnostic to standard error.
    pub fn show(&self, diagnostic: &Diagnostic<'_>) {
        self.show_with(diagnostic, &[]);
    }

    /// Prints a diagnostic with further facts to standard error.
    pub fn show_with(&self, diagnostic: &Diagnostic<'_>, notes: &[String]) {
        let apart = if self.shown.replace(true) { "\n" } else { "" };
        let drawn = format!("{apart}{}", diagnostic.draw_with(notes, self.error_paint));
        // Errors of stderr cannot be reported anywhere.
        let _ = io::stderr().lock().write_all(drawn.as_bytes());
    }

    /// Prints why the command failed and returns the exit code.
    pub fn show_failure(&self, failure: &Failure, json: bool) -> Exit {
        match failure {
            // The reader of the output has closed the pipe.
            Failure::Unwritable(error) if error.kind() == io::ErrorKind::BrokenPipe => return Exit::Good,
            Failure::Unwritable(_) => {}
            failure if json => {
                let written = self.write_json(&failure.to_json());
                return written.err().map_or(failure.exit(), |unwritable| self.show_failure(&unwritable, false));
            }
            _ => {}
        }
        for diagnostic in failure.diagnostics() {
            self.show(&diagnostic);
        }
        failure.exit()
    }
}

/// Reports whether `NO_COLOR` is set to a non-empty value (no-color.org).
fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
