use rolecall_render::{Origin, Prompt};

/// The token that opens a prompt, where two prompts have not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// How each of the prompts opens; empty where it opens with no such token.
    pub texts: [String; 2],
}

impl Opening {
    /// How two prompts open, if they do not open alike.
    pub(super) fn between(a: &Prompt, b: &Prompt) -> Option<Opening> {
        let texts = [a, b].map(|prompt| prompt.text()[..length(prompt)].to_owned());
        (texts[0] != texts[1]).then_some(Opening { texts })
    }

    pub(super) fn swapped(self) -> Opening {
        let [a, b] = self.texts;
        Opening { texts: [b, a] }
    }
}

/// The bytes of the opening tokens: a framework may write more than one.
pub(super) fn length(prompt: &Prompt) -> usize {
    let opens = |origin: &Origin| matches!(origin, Origin::Control(id) if prompt.controls()[id.0].bos);
    let opening = prompt.segments().take_while(|segment| opens(&segment.origin));
    opening.map(|segment| segment.text.len()).sum()
}
