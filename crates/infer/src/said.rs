use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

/// The content of the assistant's message in a probe.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeMessage {
    pub content: Option<String>,
    pub reasoning: Option<String>,
    pub calls: Vec<ProbeCall>,
}

/// A call in the assistant's message.
#[derive(Clone, Debug)]
pub(crate) struct ProbeCall {
    pub name: &'static str,
    pub arguments: Object,
}

/// The functions that probes call. Their names are words that no template uses.
pub(crate) const NAMES: [&str; 3] = ["zorvex_map", "quibli_set", "hulkin_get"];
/// Call ids of nine letters and digits, which some templates require.
pub(crate) const IDS: [&str; 3] = ["q7Xb2Kd9z", "w3Rf8Lm5v", "j6Tn4Hp1s"];
/// The assistant's answer, and its reasoning.
pub(crate) const CONTENT: &str = "Wuzoka limbar.";
pub(crate) const REASONING: &str = "Jyxo pemtil.";
/// The user's message.
pub(crate) const ASKED: &str = "Gavro nuski?";
/// Argument keys, deliberately not in alphabetical order.
pub(crate) const KEYS: [&str; 3] = ["zelq", "avun", "mork"];

impl ProbeMessage {
    pub fn content(text: &str) -> ProbeMessage {
        ProbeMessage { content: Some(text.to_owned()), ..ProbeMessage::default() }
    }

    pub fn with_reasoning(mut self, text: &str) -> ProbeMessage {
        self.reasoning = Some(text.to_owned());
        self
    }

    pub fn calling(mut self, calls: Vec<ProbeCall>) -> ProbeMessage {
        self.calls = calls;
        self
    }
}

/// Returns `count` calls to different functions, each with one argument that identifies the call.
pub(crate) fn plain_calls(count: usize) -> Vec<ProbeCall> {
    let calls = NAMES.iter().take(count).enumerate();
    calls.map(|(at, name)| ProbeCall { name, arguments: object! { KEYS[at] => plain_value(at) } }).collect()
}

/// Returns the call of an earlier turn.
pub(crate) fn called_before() -> Vec<ProbeCall> {
    vec![ProbeCall { name: NAMES[2], arguments: object! { KEYS[2] => "Ferbo" } }]
}

/// Returns the value of an argument.
pub(crate) fn plain_value(at: usize) -> Json {
    Json::from(["Plimtex", "Bruwok", "Nyxtar"][at % 3])
}
