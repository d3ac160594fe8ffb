//! Any bytes as a tokenizer's file, of whatever kind they begin as, and a text: nothing may panic, spans lie in the text, and no added
//! token comes out of ordinary text.
//!
//! The input is the file, and behind a line `---` the config, and behind another one the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rolecall::tokenizer::{Place, load_bytes};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = split(bytes);
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let config = parts.next();
    let file = parts.next().unwrap_or_default();
    let text = if text.is_empty() { "ab <s> e\u{301}\u{0}" } else { &text };
    let Ok((_, tokenizer)) = load_bytes(file, config) else { return };
    for place in [Place::Start, Place::Inside] {
        let mut tokens = Vec::new();
        let encoded = tokenizer.encode_ordinary(text, place, &mut tokens);
        let names_byte = |text: &str| text.starts_with("<0x");
        for token in &tokens {
            assert!(token.start <= token.end && token.end <= text.len(), "a span lies in the text");
            assert!(text.is_char_boundary(token.start) && text.is_char_boundary(token.end), "a span keeps characters whole");
        }
        // The unknown token stands for what has none, and a byte's piece for its byte.
        let forged = tokens.iter().find(|token| {
            let is_it = |added: &&rolecall::tokenizer::AddedToken| added.id == token.id && !names_byte(&added.text);
            tokenizer.added_tokens().iter().find(is_it).is_some_and(|added| text.get(token.start..token.end) == Some(&added.text))
        });
        assert!(encoded.is_err() || forged.is_none(), "ordinary text became an added token");
        let _ = tokenizer.encode_reference(text, place, &mut tokens);
    }
});

/// The parts from the last to the first, so that a file may hold anything.
fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    const MARK: &[u8] = b"\n---\n";
    let mut ends: Vec<usize> = bytes.windows(MARK.len()).enumerate().filter(|(_, w)| *w == MARK).map(|(at, _)| at).collect();
    // Two marks may share their line break.
    ends.dedup_by(|two, one| *two < *one + MARK.len());
    let keep = ends.len().saturating_sub(2);
    ends.drain(..keep);
    let parts: Vec<&[u8]> = match ends[..] {
        [] => vec![&[], &[], bytes],
        [one] => vec![&bytes[one + MARK.len()..], b"{}", &bytes[..one]],
        [one, two, ..] => vec![&bytes[two + MARK.len()..], &bytes[one + MARK.len()..two], &bytes[..one]],
    };
    let parts = parts.into_iter().enumerate().map(|(at, part)| if at == 1 && part.is_empty() { b"{}" } else { part });
    parts.collect::<Vec<_>>().into_iter()
}
