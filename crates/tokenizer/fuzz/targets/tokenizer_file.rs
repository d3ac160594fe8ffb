//! Loads arbitrary bytes as a tokenizer file of whatever kind they look like, and encodes a text
//! with it. Nothing may panic, spans must lie within the text, and ordinary text must not encode to
//! an added token.
//!
//! The input is the file, then a line `---` and the config, then another line `---` and the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rolecall::tokenizer::{TextPlace, load_bytes};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = split(bytes);
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let config = parts.next();
    let file = parts.next().unwrap_or_default();
    let text = if text.is_empty() { "ab <s> e\u{301}\u{0}" } else { &text };
    let Ok((_, tokenizer)) = load_bytes(file, config) else { return };
    for place in [TextPlace::Start, TextPlace::Inside] {
        let mut tokens = Vec::new();
        let encoded = tokenizer.encode_ordinary(text, place, &mut tokens);
        let names_byte = |text: &str| text.starts_with("<0x");
        for token in &tokens {
            assert!(text.get(token.range()).is_some(), "a span lies outside the text, or cuts a character");
        }
        // Unknown text encodes to the unknown token, and bytes encode to byte tokens.
        let forged = tokens.iter().find(|token| {
            let is_it = |added: &&rolecall::tokenizer::AddedToken| added.id == token.id && !names_byte(&added.text);
            tokenizer
                .added_tokens()
                .iter()
                .find(is_it)
                .is_some_and(|added| text.get(token.range()) == Some(&added.text))
        });
        assert!(encoded.is_err() || forged.is_none(), "ordinary text became an added token");
        let _ = tokenizer.encode_reference(text, place, &mut tokens);
    }
});

/// Splits the input into text, config and file, from the end, so that the file may contain
/// anything.
fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    const MARK: &[u8] = b"\n---\n";
    let mut ends: Vec<usize> =
        bytes.windows(MARK.len()).enumerate().filter(|(_, w)| *w == MARK).map(|(at, _)| at).collect();
    // Two separators may share a line break.
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
