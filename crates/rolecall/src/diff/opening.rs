use rolecall_render::{Origin, Prompt};

/// The different opening tokens of two prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The opening tokens of each prompt. Empty if it has none.
    pub texts: [String; 2],
}

impl Opening {
    /// Returns how two prompts open, if they open differently.
    pub(super) fn between(a: &Prompt, b: &Prompt) -> Option<Opening> {
        let texts = [a, b].map(|prompt| prompt.text()[..length(prompt)].to_owned());
        (texts[0] != texts[1]).then_some(Opening { texts })
    }

    pub(super) fn swapped(self) -> Opening {
        let [a, b] = self.texts;
        Opening { texts: [b, a] }
    }
}

/// Returns the length of the opening tokens in bytes. A framework may write more than one.
pub(super) fn length(prompt: &Prompt) -> usize {
    let opens = |origin: &Origin| matches!(origin, Origin::Control(id) if prompt.controls()[id.0].bos);
    let opening = prompt.segments().take_while(|segment| opens(&segment.origin));
    opening.map(|segment| segment.text.len()).sum()
}
