//! The mask that the reference gives for a template's `{% generation %}` blocks.

use rolecall::Prompt;
use rolecall::conversation::Json;
use rolecall::encode::EncodedToken;
use rolecall::loss::overlapping;

use super::parity;
use crate::Verdict;

/// Compares a row's mask with the tokens that overlap the blocks of a prompt.
///
/// transformers 5.24 masks all of these. 5.23, which made the visible rows, masks the tokens from the
/// first one of a block's first character to the first one of its last character: others only where
/// that character has several.
pub(super) fn compare(runs: Option<&Json>, tokens: &[EncodedToken], prompt: &Prompt) -> Verdict {
    let wanted = parity::mask(runs, tokens.len());
    let found = overlapping(tokens, &prompt.generated);
    match wanted == found || wanted == former(tokens, prompt) {
        true => Verdict::Passed,
        false => Verdict::Failed { expected: shown(&wanted, tokens, prompt), found: shown(&found, tokens, prompt) },
    }
}

/// Returns the mask of transformers 5.23.
fn former(tokens: &[EncodedToken], prompt: &Prompt) -> Vec<bool> {
    let token_at = |at: usize| tokens.iter().position(|token| (token.start..token.end).contains(&at));
    let mut mask = vec![false; tokens.len()];
    for block in &prompt.generated {
        let Some(first) = token_at(block.start) else { break };
        let last = prompt.text()[..block.end].char_indices().next_back().and_then(|(at, _)| token_at(at));
        let end = last.map_or(tokens.len(), |last| last + 1);
        mask.get_mut(first..end).unwrap_or_default().fill(true);
    }
    mask
}

fn shown(mask: &[bool], tokens: &[EncodedToken], prompt: &Prompt) -> String {
    let masked = tokens.iter().zip(mask).filter(|(_, is_masked)| **is_masked);
    masked.map(|(token, _)| format!("{:?}", &prompt.text()[token.start..token.end])).collect::<Vec<_>>().join(" ")
}
