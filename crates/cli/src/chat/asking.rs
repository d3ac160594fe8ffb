use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::lines::is_interrupted;
use crate::visible::escape;
use rolecall_interpreter::agent::{Decision, OwnCall};

use crate::paint::{Paint, Style};

/// Asks on the terminal whether a call runs, and keeps what was allowed for good.
#[derive(Clone, Default)]
pub struct Asking(Arc<Mutex<BTreeSet<String>>>);

impl Asking {
    pub fn ask(&self, call: &OwnCall, paint: Paint) -> Decision {
        let mut allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.contains(call.name()) {
            return Decision::Run;
        }
        // What is asked about is what runs: if there are several calls, or what was shown left anything out, it is shown
        // again, with every character that could hide another.
        let input = escape_lines(&call.input);
        if call.of > 1 || input != call.input {
            eprintln!("{}", paint.text(Style::Tool, &format!("{}\n{input}", escape(call.name()))));
        }
        let which = if call.of > 1 { format!(" (call {} of {})", call.index + 1, call.of) } else { String::new() };
        loop {
            let question = format!("Run {}{which}? [y]es, [n]o, [a]lways: ", escape(call.name()));
            eprint!("{}", paint.text(Style::Warning, &question));
            let _ = io::stderr().flush();
            let mut line = String::new();
            match io::stdin().read_line(&mut line) {
                Ok(0) | Err(_) => return Decision::Refuse("the user did not answer".into()),
                Ok(_) if is_interrupted() => return Decision::Refuse("the user stopped".into()),
                Ok(_) => {}
            }
            match line.trim().to_lowercase().as_str() {
                "y" | "yes" => return Decision::Run,
                "n" | "no" => return Decision::Refuse("the user said no".into()),
                "a" | "always" => {
                    allowed.insert(call.name().to_owned());
                    return Decision::Run;
                }
                _ => {}
            }
        }
    }
}

/// Returns a text with its line breaks and tabs, and with everything else escaped that a terminal would not show as it is.
pub fn escape_lines(text: &str) -> String {
    text.split('\n')
        .map(|line| line.split('\t').map(escape).collect::<Vec<_>>().join("\t"))
        .collect::<Vec<_>>()
        .join("\n")
}
