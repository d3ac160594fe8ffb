//! Encodes texts with every tokenizer of `../shared/tokenizers`, by our own engine, by the reference
//! and by fastokens. Tokens must be the same whichever engine encodes and however the caller asks,
//! also after other texts, and spans must be whole characters, in order, without gaps.
//!
//! The input says what the text is made of. Without `../shared`, and in quick builds, small tokenizers
//! take the place of real ones.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rolecall_tokenizer_fuzz::{Bytes, Pair, TextKind, random_tokenizer, text_of};

fuzz_target!(init: { LazyLock::force(&PAIRS); }, |bytes: &[u8]| {
    let mut bytes = Bytes::new(bytes);
    let most = bytes.below(1 << 12);
    let (pairs, added) = &*PAIRS;
    let text = text_of(&mut bytes, TextKind::Mixed, added);
    for pair in pairs {
        pair.check(&text, most);
    }
});

/// The tokenizers, and what their control tokens are called.
static PAIRS: LazyLock<(Vec<Pair>, Vec<String>)> = LazyLock::new(|| {
    let mut pairs = real_tokenizers();
    if pairs.is_empty() {
        pairs = small_tokenizers();
    }
    let mut added: Vec<String> = pairs.iter().flat_map(|pair| pair.added().into_iter().take(40)).collect();
    added.sort_unstable();
    added.dedup();
    (pairs, added)
});

/// Returns the tokenizers of `../shared`, each as our own engine reads it.
fn real_tokenizers() -> Vec<Pair> {
    // They take minutes to load, in a build that counts what it covers.
    let is_quick = std::env::var_os("ROLECALL_FUZZ_QUICK").is_some();
    let Some(shared) = rolecall_fixture::shared().filter(|_| !is_quick) else { return Vec::new() };
    let mut pairs = Vec::new();
    let folders = fs::read_dir(shared.join("tokenizers")).into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        let config = fs::read(folder.path().join("tokenizer_config.json")).ok();
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let Ok(file) = fs::read(entry.path()) else { continue };
            let file_name = entry.file_name().to_string_lossy().into_owned();
            if file_name == "tokenizer_config.json" || file_name == "tekken_retag.json" {
                continue;
            }
            let pair = Pair::read(&format!("{name}/{file_name}"), &file, config.as_deref());
            pairs.push(pair.expect("it is a tokenizer").with_fastokens(&file));
        }
    }
    pairs
}

/// Makes a few tokenizers from fixed bytes.
fn small_tokenizers() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for seed in 0..40u8 {
        let bytes: Vec<u8> =
            (0..600u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed.wrapping_mul(37)).collect();
        let made = random_tokenizer(&mut Bytes::new(&bytes));
        if made.is_slow || pairs.len() >= 6 {
            continue;
        }
        if let Ok(pair) = Pair::read(&format!("made of {seed}"), &made.file, None) {
            pairs.push(pair.dropping_text(made.drops_text));
        }
    }
    pairs
}
