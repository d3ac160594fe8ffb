//! Makes a small tokenizer, of which merges and patterns meet in many ways, and texts of its letters.
//! Tokens must be those of the reference.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rolecall_tokenizer_fuzz::{Bytes, Pair, TextKind, random_tokenizer, text_of};

fuzz_target!(|bytes: &[u8]| {
    let (head, tail) = bytes.split_at(bytes.len().min(400));
    let mut head = Bytes::new(head);
    let made = random_tokenizer(&mut head);
    let Ok(pair) = Pair::read("small", &made.file, None) else { return };
    if !pair.is_native() {
        return;
    }
    let pair = pair.dropping_text(made.drops_text);
    let added = pair.added();
    let mut bytes = Bytes::new(if tail.is_empty() { head.rest() } else { tail });
    let most = bytes.below(1 << 10);
    let mut texts = Vec::new();
    while !bytes.is_over() && texts.len() < 4 {
        let length = 8 + bytes.below(200);
        let part = bytes.take(if made.is_slow { length / 8 } else { length });
        let mut text = text_of(&mut Bytes::new(part), TextKind::Letters(&made.letters), &added);
        while made.is_slow && text.len() > 300 {
            text.pop();
        }
        texts.push(text);
    }
    for text in &texts {
        pair.check(text, most);
    }
});
