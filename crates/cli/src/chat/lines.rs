use std::borrow::Cow;
use std::env;
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::{Mutex, Once, PoisonError};

use reedline::{FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal};
use rolecall_interpreter::Stop;

/// Where the lines of a chat come from.
pub enum Lines {
    Terminal(Box<Reedline>),
    Other,
}

/// What was read.
pub enum ChatLine {
    Text(String),
    /// Ctrl-C: the line is thrown away.
    Cancelled,
    End,
}

/// The most lines of the history that are kept.
const MOST_HISTORY: usize = 1000;

impl Lines {
    /// A terminal has a history, in a file of the user's.
    pub fn open() -> Lines {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Lines::Other;
        }
        let history = history_file().and_then(|path| FileBackedHistory::with_file(MOST_HISTORY, path).ok());
        let editor = match history {
            Some(history) => Reedline::create().with_history(Box::new(history)),
            None => Reedline::create(),
        };
        Lines::Terminal(Box::new(editor.use_bracketed_paste(true)))
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Lines::Terminal(..))
    }

    pub fn next(&mut self) -> io::Result<ChatLine> {
        match self {
            Lines::Terminal(editor) => Ok(match editor.read_line(&ChatPrompt)? {
                Signal::Success(line) => ChatLine::Text(line),
                Signal::CtrlC => ChatLine::Cancelled,
                _ => ChatLine::End,
            }),
            Lines::Other => {
                let mut line = String::new();
                Ok(if io::stdin().lock().read_line(&mut line)? == 0 { ChatLine::End } else { ChatLine::Text(line) })
            }
        }
    }
}

/// What stands before a line.
struct ChatPrompt;

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        ". ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(search `{}`) ", search.term).into()
    }
}

fn history_file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?.join("rolecall");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat_history"))
}

/// What Ctrl-C stops at the moment.
static STOP: Mutex<Option<Stop>> = Mutex::new(None);

/// While it lives, Ctrl-C stops a turn. At other times, it ends the process as usual.
pub struct OnInterrupt;

pub fn on_interrupt(stop: &Stop) -> OnInterrupt {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a handler, Ctrl-C ends the chat, which is no reason to have none.
        let _ = ctrlc::set_handler(|| match &*STOP.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(stop) if !stop.is_stopped() => stop.stop(),
            _ => std::process::exit(130),
        });
    });
    *STOP.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop.clone());
    OnInterrupt
}

/// Reports whether the user stopped the turn.
pub fn is_interrupted() -> bool {
    STOP.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Stop::is_stopped)
}

impl Drop for OnInterrupt {
    fn drop(&mut self) {
        *STOP.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
