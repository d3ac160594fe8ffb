use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rolecall_interpreter::agent::{Decision, OwnCall};
use rolecall_interpreter::plain;

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
        loop {
            // The call itself was shown. Its name may be anything.
            eprint!("{}", paint.text(Style::Warning, &format!("Run {}? [y]es, [n]o, [a]lways: ", plain(call.name()))));
            let _ = io::stderr().flush();
            let mut line = String::new();
            match io::stdin().read_line(&mut line) {
                Ok(0) | Err(_) => return Decision::Refuse("the user did not answer".into()),
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
