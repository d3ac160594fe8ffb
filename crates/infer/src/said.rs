use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

/// What the assistant of a probe says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub content: Option<String>,
    pub reasoning: Option<String>,
    pub calls: Vec<Called>,
}

/// One call of it.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub name: &'static str,
    pub arguments: Object,
}

/// The functions that probes call: words that no template has a use for.
pub(crate) const NAMES: [&str; 3] = ["zorvex_map", "quibli_set", "hulkin_get"];
/// Ids of nine letters and digits, since some templates insist on that.
pub(crate) const IDS: [&str; 3] = ["q7Xb2Kd9z", "w3Rf8Lm5v", "j6Tn4Hp1s"];
/// What is said, and what was thought before.
pub(crate) const CONTENT: &str = "Wuzoka limbar.";
pub(crate) const REASONING: &str = "Jyxo pemtil.";
/// What the user says.
pub(crate) const ASKED: &str = "Gavro nuski?";
/// Keys of arguments: not in alphabetical order.
pub(crate) const KEYS: [&str; 3] = ["zelq", "avun", "mork"];

impl Said {
    pub fn content(text: &str) -> Said {
        Said { content: Some(text.to_owned()), ..Said::default() }
    }

    pub fn with_reasoning(mut self, text: &str) -> Said {
        self.reasoning = Some(text.to_owned());
        self
    }

    pub fn calling(mut self, calls: Vec<Called>) -> Said {
        self.calls = calls;
        self
    }
}

/// So many calls of different functions, each with one argument that tells which it is.
pub(crate) fn plain_calls(count: usize) -> Vec<Called> {
    let calls = NAMES.iter().take(count).enumerate();
    calls.map(|(at, name)| Called { name, arguments: object! { KEYS[at] => plain_value(at) } }).collect()
}

/// The text that stands for an argument.
pub(crate) fn plain_value(at: usize) -> Json {
    Json::from(["Plimtex", "Bruwok", "Nyxtar"][at % 3])
}
