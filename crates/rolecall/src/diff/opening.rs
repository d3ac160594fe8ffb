use rolecall_render::{Origin, Prompt};

/// The different opening tokens of two prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The opening tokens of each prompt. Empty if it has none.
    pub texts: [String; 2],
}

impl Opening {
    pub(super) fn swapped(self) -> Opening {
        let [a, b] = self.texts;
        Opening { texts: [b, a] }
    }
}

/// Two prompts that are compared, and where each goes on after its opening tokens.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub prompts: [&'a Prompt; 2],
    /// The length of the opening tokens in bytes. A framework may write more than one.
    pub from: [usize; 2],
}

impl<'a> Pair<'a> {
    /// Finds the opening tokens. `named` are those that the models name.
    ///
    /// To a format, they are control tokens. A chat template writes them as text of its own, so there
    /// they are the tokens that its model names, or that the other prompt opens with.
    pub fn new(a: &'a Prompt, b: &'a Prompt, named: &[String]) -> Pair<'a> {
        let prompts = [a, b];
        let mut tokens: Vec<&str> =
            prompts.into_iter().flat_map(controls).chain(named.iter().map(String::as_str)).collect();
        tokens.retain(|token| !token.is_empty());
        let from = prompts.map(|prompt| match prompt.template() {
            None => controls(prompt).map(str::len).sum(),
            Some(_) => written(prompt, &tokens),
        });
        Pair { prompts, from }
    }

    /// Returns how the prompts open, if they open differently.
    pub fn opening(&self) -> Option<Opening> {
        let texts = [0, 1].map(|side| self.prompts[side].text()[..self.from[side]].to_owned());
        (texts[0] != texts[1]).then_some(Opening { texts })
    }
}

/// Returns the control tokens with which a format opened a prompt.
fn controls(prompt: &Prompt) -> impl Iterator<Item = &str> {
    let opens = |origin: &Origin| matches!(origin, Origin::Control(id) if prompt.controls()[id.0].bos);
    prompt.segments().take_while(move |segment| opens(&segment.origin)).map(|segment| segment.text)
}

/// Returns the length of the opening tokens that a template wrote.
fn written(prompt: &Prompt, tokens: &[&str]) -> usize {
    let mut end = 0;
    let opens = |end: usize| {
        let token = tokens.iter().find(|token| prompt.text()[end..].starts_with(**token))?;
        (prompt.origin_at(end) == Some(Origin::Format)).then_some(token.len())
    };
    while let Some(length) = opens(end) {
        end += length;
    }
    end
}
