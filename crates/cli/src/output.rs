use std::cell::Cell;
use std::env;
use std::io::{self, BufWriter, IsTerminal, Write};

use rolecall::conversation::{Json, json};

use crate::args::Color;
use crate::diagnostic::Diagnostic;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::paint::Paint;

/// Where things go: the result to standard output, everything else to standard error.
pub struct Output {
    /// How standard output is coloured.
    pub paint: Paint,
    error_paint: Paint,
    /// Whether a diagnostic was drawn already.
    shown: Cell<bool>,
    /// Columns of the terminal, if standard output is one.
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

    /// Writes a part of the result.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::Unwritable)
    }

    /// Writes the result piece by piece.
    pub fn stream(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        write(&mut out).and_then(|()| out.flush()).map_err(Failure::Unwritable)
    }

    /// Writes a JSON value as one line.
    pub fn write_json(&self, value: &Json) -> Result<(), Failure> {
        self.write(&format!("{}\n", json::write(value, &json::Layout::default())))
    }

    /// Draws a diagnostic on standard error.
    pub fn show(&self, diagnostic: &Diagnostic<'_>) {
        let apart = if self.shown.replace(true) { "\n" } else { "" };
        let drawn = format!("{apart}{}", diagnostic.draw(self.error_paint));
        // Where nobody listens there is nobody to tell.
        let _ = io::stderr().lock().write_all(drawn.as_bytes());
    }

    /// Says why the command ends, and with which code.
    pub fn show_failure(&self, failure: &Failure, json: bool) -> Exit {
        match failure {
            // Whoever reads the output has seen enough.
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

/// `NO_COLOR`, set to anything but nothing (no-color.org).
fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
