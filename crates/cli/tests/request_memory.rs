//! Checks the memory limits of a request that SECURITY.md states: a maximum number of bytes for
//! each byte of the request, in addition to the memory for a one-word request and 1 MiB of buffers.
//! The command runs in a separate process, whose memory is measured.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::time::Duration;

use crate::common::{Folder, can_measure, cost_of};
use rolecall_testkit::forge::small_tokenizer_files;
use rolecall_testkit::{say_skipped, shared};

/// The memory limits in bytes for each byte of a request, as stated in SECURITY.md.
const ENGLISH: f64 = 12.0;
const WORST: f64 = 24.0;

/// The size of buffers that do not depend on the size of the request.
const BUFFERS: f64 = (1 << 20) as f64;

const DEADLINE: Duration = Duration::from_secs(300);

/// Texts that are repeated to fill a request, each with its limit in `encode`: English, and texts
/// that take the most memory per byte.
const TEXTS: [(&str, &str, f64); 12] = [
    ("English", "The five boxing wizards jump quickly, and nobody knows why they would. ", ENGLISH),
    ("English in lines", "It was the best of times, it was the worst of times.\\n", ENGLISH),
    ("one word", "a", WORST),
    ("a word of two letters", "ab", WORST),
    ("spaces", " ", WORST),
    ("line breaks", "\\n", WORST),
    ("quotes and backslashes", "\\\"\\\\", WORST),
    ("escaped letters", "\\u00e9\\u0000", WORST),
    ("spelled control tokens", "<|im_end|><s>", WORST),
    ("rare characters", "\u{10348}\u{2603}\u{fb03}", WORST),
    ("composed characters", "e\u{301}o\u{308}", WORST),
    ("signs", "!?(;", WORST),
];

/// Requests that consist of more than one text: the beginning, the part that is repeated, and the
/// end.
const REQUESTS: [(&str, &str, &str, &str); 4] = [
    ("short messages", "[", "{\"role\":\"user\",\"content\":\"a\"},", "{\"role\":\"user\",\"content\":\"\"}]"),
    (
        "short messages in turn",
        "[",
        "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},",
        "{\"role\":\"user\",\"content\":\"\"}]",
    ),
    ("short parts", "[{\"role\":\"user\",\"content\":[", "{\"type\":\"text\",\"text\":\"a\"},", "\"\"]}]"),
    ("numbers that nobody reads", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"x\":[", "0,", "0]}"),
];

const ONE_WORD: &str = r#"[{"role":"user","content":"word"}]"#;

/// The commands, each with the factor by which its requests are smaller, since it prints more, and
/// its limit for English.
const VERBS: [(&str, usize, f64); 5] = [
    ("encode", 1, ENGLISH),
    ("encode --json", 2, WORST),
    ("explain", 4, WORST),
    ("explain --html", 4, WORST),
    ("explain --json", 4, WORST),
];

/// Runs commands over all requests, and returns those that exceeded their limits.
fn over_limits(name: &str, tokenizer: &str, verbs: &[(&str, usize, f64)]) -> Vec<String> {
    let each = |(verb, smaller, english): &(&str, usize, f64)| {
        let folder = Folder::new(&format!("request-memory-{name}-{}", verb.replace(' ', "")));
        let args = |request: &str| -> Vec<String> {
            let format = if name == "llama2" { "llama2" } else { "chatml" };
            let options = ["--rules", "reference", "--format", format, "--tokenizer", tokenizer, request];
            verb.split(' ').chain(options).map(str::to_owned).collect()
        };
        let small = folder.write("small.json", ONE_WORD);
        let base = cost_of(&args(&small), DEADLINE).unwrap_or_else(|why| panic!("{verb}: {why}")).peak;
        let mut wrong = Vec::new();
        for (what, [start, again, end], most) in requests() {
            let request = format!("{start}{}{end}", again.repeat(SIZE / smaller / again.len()));
            let size = request.len() as f64;
            let path = folder.write("large.json", request);
            let most = if most == ENGLISH { *english } else { most };
            match cost_of(&args(&path), DEADLINE) {
                Ok(cost) => {
                    let each = (cost.peak - base - BUFFERS) / size;
                    println!("{name}, {verb}, {what}: {each:.1} bytes for each byte");
                    if each > most || cost.printed == 0 {
                        wrong.push(format!(
                            "{name}, {verb}, {what}: {each:.1} bytes for each byte, expected at most {most}"
                        ));
                    }
                }
                Err(why) => wrong.push(format!("{name}, {verb}, {what}: {why}")),
            }
        }
        wrong
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = verbs.iter().map(|verb| scope.spawn(|| each(verb))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn requests() -> Vec<(&'static str, [String; 3], f64)> {
    let (start, end) = ("[{\"role\":\"user\",\"content\":\"", "\"}]");
    let texts = TEXTS.iter().map(|(name, again, most)| (*name, [start, again, end].map(str::to_owned), *most));
    let others = REQUESTS
        .iter()
        .map(|(name, start, again, end)| (*name, [start, again, end].map(|part| part.to_string()), WORST));
    texts.chain(others).collect()
}

#[test]
fn a_request_takes_no_more_memory_than_we_say() {
    if !can_measure() {
        return;
    }
    let folder = Folder::new("request-memory-tokenizers");
    let mut wrong = Vec::new();
    // The tokenizers that our own engine encodes: by bytes with composition, and by characters.
    // They have a token for most bytes.
    for (name, bytes) in small_tokenizer_files() {
        let verbs = match name {
            // `explain` only runs in the release build, whose requests are so large that buffers do
            // not matter.
            "bytes-nfc" if cfg!(debug_assertions) => &VERBS[..2],
            "bytes-nfc" => &VERBS[..],
            "prefix" => &VERBS[..1],
            _ => continue,
        };
        let tokenizer = folder.write(&format!("{name}.json"), bytes);
        wrong.extend(over_limits(name, &tokenizer, verbs));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The size of a request in bytes. For an unoptimised build, it is what the command processes in a
/// second or two.
const SIZE: usize = if cfg!(debug_assertions) { 2 << 20 } else { 16 << 20 };

#[test]
fn with_real_tokenizers_too() {
    let Some(shared) = shared() else { return say_skipped("no real tokenizer's memory was measured") };
    if !can_measure() || cfg!(debug_assertions) {
        return;
    }
    let mut wrong = Vec::new();
    for name in ["qwen3", "llama2"] {
        let tokenizer = shared.join("tokenizers").join(name).display().to_string();
        wrong.extend(over_limits(name, &tokenizer, &VERBS));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
