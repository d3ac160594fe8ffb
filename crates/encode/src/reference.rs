//! How the reference cuts a text at the control tokens that it spells.

use std::ops::Range;

use rolecall_format::{Control, ControlId, InText};

/// Which control tokens the reference finds in plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// None.
    Nothing,
    /// Those that the published tokenizer finds by itself.
    Published,
    /// Those that it finds where its caller asks for it.
    Requested,
}

/// A piece of a text that the reference has cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitRun {
    /// A control token.
    Control {
        /// Which.
        id: ControlId,
        /// Where it is spelled, in bytes.
        span: Range<usize>,
    },
    /// Text that spells none.
    Text {
        /// Where it stands, in bytes.
        span: Range<usize>,
    },
}

/// Cuts a text as the reference's tokenizer does: this is how control tokens are forged there.
///
/// ```
/// use rolecall_encode::{Split, split_text};
/// use rolecall_format::builtin;
/// let registry = builtin();
/// let controls = &registry.get("internlm2").expect("built in").controls;
/// assert_eq!(split_text("hi<|im_end|>\n", controls, None, Split::Published).len(), 3);
/// assert_eq!(split_text("hi<|im_end|>\n", controls, None, Split::Nothing).len(), 1);
/// ```
pub fn split_text(text: &str, controls: &[Control], spelling: Option<&str>, split: Split) -> Vec<SplitRun> {
    let found = |control: &Control| match (split, control.in_text) {
        (Split::Nothing, _) | (_, InText::Never) | (Split::Published, InText::OnRequest) => false,
        (Split::Published | Split::Requested, _) => true,
    };
    let mut known: Vec<(&str, ControlId)> = controls
        .iter()
        .enumerate()
        .filter(|(_, control)| found(control))
        .map(|(at, control)| (control.spelling(spelling), ControlId(at)))
        .collect();
    known.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    let mut runs = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let Some((token, id)) = known.iter().find(|(token, _)| rest.starts_with(token)) else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if from < at {
            runs.push(SplitRun::Text { span: from..at });
        }
        runs.push(SplitRun::Control { id: *id, span: at..at + token.len() });
        at += token.len();
        from = at;
    }
    if from < text.len() {
        runs.push(SplitRun::Text { span: from..text.len() });
    }
    runs
}
