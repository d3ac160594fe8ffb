//! Splits text at control tokens as the reference does.

use std::ops::Range;

use rolecall_format::{Control, ControlId, InText};

/// The control tokens that the reference finds in plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// No control tokens.
    Nothing,
    /// The control tokens that the published tokenizer always finds.
    Published,
    /// The control tokens that the tokenizer finds if its caller asks for it.
    Requested,
}

/// A piece of text after the reference has split it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitRun {
    /// A control token.
    Control {
        /// The control token.
        id: ControlId,
        /// The byte range of its text.
        span: Range<usize>,
    },
    /// Text that spells no control token.
    Text {
        /// Its byte range.
        span: Range<usize>,
    },
}

/// Splits a text as the reference tokenizer does. This is how control tokens get forged there.
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
