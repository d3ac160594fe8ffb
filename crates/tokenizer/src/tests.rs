#![cfg(feature = "files")]

use std::collections::BTreeSet;
use std::sync::Arc;

use rolecall_fixture::write_sentencepiece;
use serde_json::{Value, json};

use super::byte_alphabet::ByteAlphabet;
use super::{CachedTokenizer, Engine, Error, HuggingFace, SentencePiece, TextPlace, Token, Tokenizer, TokenizerKind};

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "special": special,
           "normalized": false, "lstrip": false, "rstrip": false, "single_word": false})
}

/// A BPE whose vocabulary contains the control token `<s>`, with merges that produce it.
fn bpe() -> Value {
    json!({
        "added_tokens": [added(0, "<s>", true), added(12, "<t>", false), added(13, "  ", false)],
        "normalizer": null,
        "pre_tokenizer": null,
        "model": {
            "type": "BPE", "unk_token": "?", "ignore_merges": true,
            "vocab": {"<s>": 0, "?": 1, "<": 2, "s": 3, ">": 4, "<s": 5, "a": 6, "b": 7, "ab": 8, "t": 9, "é": 10,
                      "\u{2581}": 11},
            "merges": ["a b", "< s", ["<s", ">"]]
        }
    })
}

fn hugging_face(file: &Value) -> HuggingFace {
    HuggingFace::from_bytes(file.to_string().as_bytes(), None).unwrap()
}

fn ordinary(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    ids(&ordinary_tokens(tokenizer, text, TextPlace::Start))
}

fn ordinary_tokens(tokenizer: &dyn Tokenizer, text: &str, place: TextPlace) -> Vec<Token> {
    let mut tokens = Vec::new();
    tokenizer.encode_ordinary(text, place, &mut tokens).unwrap();
    tokens
}

fn reference(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    tokenizer.encode_reference(text, TextPlace::Start, &mut tokens).unwrap();
    ids(&tokens)
}

fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

fn spans(tokens: &[Token]) -> Vec<(usize, usize)> {
    tokens.iter().map(|token| (token.start as usize, token.end as usize)).collect()
}

fn code<T>(result: Result<T, Error>) -> &'static str {
    result.err().map_or("no error", |error| error.code())
}

#[test]
fn a_control_token_in_the_vocabulary_cannot_be_forged() {
    let tokenizer = hugging_face(&bpe());
    assert_eq!(reference(&tokenizer, "ab<s>a"), [8, 0, 6]);
    assert_eq!(ordinary(&tokenizer, "<s>"), [2, 3, 4]);
    assert_eq!(ordinary(&tokenizer, "ab<s>ab<s><s>"), [8, 2, 3, 4, 8, 2, 3, 4, 2, 3, 4]);
    assert_eq!(ordinary(&tokenizer, "<t>"), [2, 9, 4]);
}

#[test]
fn the_unknown_token_stands_for_unknown_text_but_not_for_its_name() {
    let tokenizer = hugging_face(&bpe());
    assert_eq!(ordinary(&tokenizer, "aΩb"), [6, 1, 7]);
    let error = tokenizer.encode_ordinary("a?b", TextPlace::Start, &mut Vec::new());
    assert_eq!(code(error), "tokenizer_unencodable");
}

#[test]
fn a_word_of_a_unigram_vocabulary_cannot_be_forged() {
    let tokenizer = hugging_face(&json!({
        "added_tokens": [added(1, "<s>", true)],
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [
            ["?", 0.0], ["<s>", 0.0], ["<", -3.0], ["s", -3.0], [">", -3.0], ["a", -2.0], ["s>", -1.0]]}
    }));
    assert_eq!(tokenizer.kind(), TokenizerKind::Unigram);
    assert_eq!(reference(&tokenizer, "a<s>a"), [5, 1, 5]);
    assert_eq!(ordinary(&tokenizer, "a<s>a"), [5, 2, 6, 5]);
}

#[test]
fn a_run_of_spaces_is_text_even_as_an_added_token() {
    let tokenizer = hugging_face(&bpe());
    assert_eq!(ordinary(&tokenizer, "a  b"), [6, 13, 7]);
    assert_eq!(reference(&tokenizer, "a  b"), [6, 13, 7]);
    assert!(tokenizer.added_tokens().iter().all(|token| token.text != "  "));
}

#[test]
fn spans_are_bytes_of_the_text_before_normalization() {
    let mut file = bpe();
    file["normalizer"] = json!({"type": "NFC"});
    let tokens = ordinary_tokens(&hugging_face(&file), "ae\u{301}ab", TextPlace::Start);
    assert_eq!(ids(&tokens), [6, 10, 8]);
    assert_eq!(spans(&tokens), [(0, 1), (1, 4), (4, 6)]);
}

#[test]
fn a_prefix_space_for_the_start_is_not_put_behind_a_control_token() {
    let mut file = bpe();
    file["pre_tokenizer"] =
        json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "first", "split": false});
    let tokenizer = hugging_face(&file);
    assert_eq!(ids(&ordinary_tokens(&tokenizer, "ab", TextPlace::Start)), [11, 8]);
    assert_eq!(ids(&ordinary_tokens(&tokenizer, "ab", TextPlace::Inside)), [8]);
    assert_eq!(reference(&tokenizer, "ab<s>ab"), [11, 8, 0, 8]);
}

#[test]
fn the_config_says_what_is_put_around_a_prompt_and_names_more_tokens() {
    let config = json!({
        "add_bos_token": true, "bos_token": {"content": "<s>"}, "eos_token": "<s>",
        "added_tokens_decoder": {"14": {"content": "<u>", "special": true}}
    });
    let tokenizer = HuggingFace::from_bytes(bpe().to_string().as_bytes(), Some(config.to_string().as_bytes())).unwrap();
    assert_eq!((tokenizer.adds_bos(), tokenizer.adds_eos()), (Some(0), None));
    assert_eq!(tokenizer.token_id("<u>"), Some(14));
    assert_eq!(tokenizer.token_text(14).as_deref(), Some("<u>"));
    assert_eq!(reference(&tokenizer, "a<u>"), [6, 14]);
    assert_eq!(ordinary(&tokenizer, "a<s>"), [6, 2, 3, 4]);
}

#[test]
fn a_broken_tokenizer_json_is_a_typed_error() {
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut file = bpe();
        change(&mut file);
        code(HuggingFace::from_bytes(file.to_string().as_bytes(), None))
    };
    assert_eq!(code(HuggingFace::from_bytes(b"{\"model\": {\"vo", None)), "tokenizer_truncated");
    assert_eq!(code(HuggingFace::from_bytes(b"\x00\x01", None)), "tokenizer_not_recognized");
    assert_eq!(code(HuggingFace::from_bytes(b"{}", None)), "tokenizer_not_recognized");
    assert_eq!(broken(&|file| file["added_tokens"] = json!({})), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["added_tokens"][1]["id"] = json!(99)), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["added_tokens"][1]["id"] = json!(u32::MAX)), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["model"]["vocab"]["b"] = json!(u32::MAX)), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["model"]["vocab"]["b"] = json!(6)), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["model"]["merges"] = json!(["a a"])), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["model"]["merges"] = json!(["a b b"])), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["model"]["continuing_subword_prefix"] = json!("é")), "tokenizer_malformed");
    assert_eq!(broken(&|file| file["model"]["dropout"] = json!(0.5)), "tokenizer_unsupported");
    assert_eq!(broken(&|file| file["model"]["type"] = json!("Magic")), "tokenizer_unsupported");
    let charsmap = json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
    assert_eq!(broken(&|file| file["normalizer"] = charsmap.clone()), "tokenizer_malformed");
    let no_length = json!({"type": "FixedLength", "length": 0});
    assert_eq!(broken(&|file| file["pre_tokenizer"] = no_length.clone()), "tokenizer_malformed");
}

const NORMAL: u8 = 1;
const UNKNOWN: u8 = 2;
const CONTROL: u8 = 3;
const USER_DEFINED: u8 = 4;
const UNUSED: u8 = 5;
const BYTE: u8 = 6;
const BPE: &[u8] = &[0x18, 2];
const BPE_WITH_BYTES: &[u8] = &[0x18, 2, 0x98, 0x02, 1];
const UNIGRAM: &[u8] = &[0x18, 1];
/// No dummy prefix, and white space is kept.
const PLAIN: &[u8] = &[0x18, 0, 0x20, 0];

const PIECES: &[(&str, f32, u8)] = &[
    ("<unk>", 0.0, UNKNOWN),
    ("<s>", 0.0, CONTROL),
    ("[T]", 0.0, USER_DEFINED),
    ("[", -9.0, NORMAL),
    ("T", -9.0, NORMAL),
    ("]", -9.0, NORMAL),
    ("T]", -1.0, NORMAL),
    ("——", 0.0, USER_DEFINED),
    ("a", -9.0, NORMAL),
    ("b", -9.0, NORMAL),
    ("ab", -2.0, UNUSED),
    ("aba", -3.0, NORMAL),
    ("\u{2581}", -9.0, NORMAL),
    ("\u{2581}a", -4.0, NORMAL),
];

fn sentencepiece(trainer: &[u8], normalizer: &[u8]) -> SentencePiece {
    SentencePiece::from_bytes(&write_sentencepiece(PIECES, trainer, normalizer), None).unwrap()
}

#[test]
fn a_user_defined_piece_cannot_be_forged() {
    for (trainer, normalizer) in [(BPE, PLAIN), (UNIGRAM, PLAIN)] {
        let tokenizer = sentencepiece(trainer, normalizer);
        assert_eq!(reference(&tokenizer, "b[T]b"), [9, 2, 9]);
        assert_eq!(ordinary(&tokenizer, "b[T]b"), [9, 3, 6, 9]);
        assert_eq!(tokenizer.added_tokens().iter().map(|token| token.id).collect::<Vec<_>>(), [0, 1, 2, 10]);
    }
}

#[test]
fn a_doubled_dash_is_text_even_as_a_user_defined_piece() {
    let tokenizer = sentencepiece(BPE, PLAIN);
    assert_eq!(ordinary(&tokenizer, "a——b"), [8, 7, 9]);
}

#[test]
fn an_unused_piece_is_taken_apart_and_leads_to_others() {
    let tokenizer = sentencepiece(BPE, PLAIN);
    assert_eq!(ordinary(&tokenizer, "ab"), [8, 9]);
    assert_eq!(ordinary(&tokenizer, "aba"), [11]);
}

#[test]
fn unknown_characters_side_by_side_are_one_token() {
    let tokens = ordinary_tokens(&sentencepiece(BPE, PLAIN), "aΩΩb", TextPlace::Start);
    assert_eq!(ids(&tokens), [8, 0, 9]);
    assert_eq!(spans(&tokens), [(0, 1), (1, 5), (5, 6)]);
}

#[test]
fn unknown_characters_fall_back_to_bytes_and_the_bytes_names_are_text() {
    let names: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut pieces = PIECES.to_vec();
    pieces.extend(names.iter().map(|name| (name.as_str(), 0.0, BYTE)));
    let tokenizer = SentencePiece::from_bytes(&write_sentencepiece(&pieces, BPE_WITH_BYTES, PLAIN), None).unwrap();
    let byte = |byte: u8| PIECES.len() as u32 + u32::from(byte);
    let tokens = ordinary_tokens(&tokenizer, "aΩ", TextPlace::Start);
    assert_eq!(ids(&tokens), [8, byte(0xCE), byte(0xA9)]);
    assert_eq!(spans(&tokens), [(0, 1), (1, 3), (1, 3)]);
    assert_eq!(ordinary(&tokenizer, "<0x0A>"), b"<0x0A>".map(byte));
}

#[test]
fn the_dummy_prefix_and_extra_spaces_follow_the_model() {
    let tokenizer = sentencepiece(BPE, &[]);
    let tokens = ordinary_tokens(&tokenizer, "  b  a ", TextPlace::Inside);
    assert_eq!(ids(&tokens), [12, 9, 13]);
    assert_eq!(spans(&tokens), [(2, 3), (2, 3), (3, 6)]);
    assert!(ordinary(&tokenizer, "   ").is_empty());
}

#[test]
fn white_space_stands_behind_words_where_the_model_says_so() {
    // The dummy prefix becomes a suffix: `treat_whitespace_as_suffix`.
    let tokenizer = sentencepiece(&[0x18, 2, 0xC0, 0x01, 1], &[]);
    for place in [TextPlace::Start, TextPlace::Inside] {
        assert_eq!(ids(&ordinary_tokens(&tokenizer, "b", place)), [9, 12], "{place:?}");
    }
    assert_eq!(reference(&tokenizer, "b"), [9, 12]);
}

#[test]
fn a_lone_user_defined_piece_of_one_byte_is_found() {
    let pieces = [("<unk>", 0.0, UNKNOWN), ("a", -9.0, NORMAL), ("x", 0.0, USER_DEFINED), ("ax", -1.0, NORMAL)];
    let tokenizer = SentencePiece::from_bytes(&write_sentencepiece(&pieces, BPE, PLAIN), None).unwrap();
    assert_eq!(reference(&tokenizer, "axa"), [1, 2, 1]);
}

#[test]
fn a_piece_whose_characters_are_no_pieces_is_still_merged() {
    let names: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut pieces = vec![("<unk>", 0.0, UNKNOWN), ("a", -9.0, NORMAL), ("ab", -1.0, NORMAL)];
    pieces.extend(names.iter().map(|name| (name.as_str(), 0.0, BYTE)));
    let tokenizer = SentencePiece::from_bytes(&write_sentencepiece(&pieces, BPE_WITH_BYTES, PLAIN), None).unwrap();
    assert_eq!(reference(&tokenizer, "aba"), [2, 1]);
    assert_eq!(ordinary(&tokenizer, "aba"), [2, 1]);
}

/// A BPE of bytes that encodes words of the vocabulary without merging.
fn bytes_ignoring_merges() -> Value {
    let alphabet = ByteAlphabet::new();
    let mut vocab: serde_json::Map<String, Value> =
        (0..=u8::MAX).map(|byte| (alphabet.spell(&[byte]), byte.into())).collect();
    vocab.insert(alphabet.spell("中文".as_bytes()), 256.into());
    json!({
        "added_tokens": [added(257, "\u{2014}\u{2014}", false)],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\p{L}+|[^\\p{L}]"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
        "model": {"type": "BPE", "ignore_merges": true, "vocab": vocab, "merges": []}
    })
}

#[test]
fn a_word_that_no_merge_produces_is_merged_in_a_longer_word() {
    let own = hugging_face(&bytes_ignoring_merges());
    let reference = hugging_face(&bytes_ignoring_merges()).with_reference_engine().unwrap();
    assert_eq!(own.engine(), Engine::Native);
    assert_eq!(ordinary(&own, "中文"), [256]);
    for text in ["中文", "人中文人人人人", "中文人人人人中文", "人人人人人中文", "中文", "中文 中文人人人人"]
    {
        assert_eq!(ordinary(&own, text), ordinary(&reference, text), "{text}");
    }
}

#[test]
fn tokens_up_to_a_limit_are_the_first_even_before_a_token_that_is_text() {
    let own = hugging_face(&bytes_ignoring_merges());
    let text = format!("{}\u{2014}\u{2014}b", "a ".repeat(2_000));
    let whole = ordinary(&own, &text);
    let mut first = Vec::new();
    own.encode_at_most(&text, TextPlace::Start, 10, &mut first).unwrap();
    assert!(first.len() > 10 && first.len() < whole.len());
    assert_eq!(ids(&first), whole[..first.len()]);
}

#[test]
fn a_long_text_that_composing_changes_has_the_tokens_of_its_lines() {
    let mut file = bytes_ignoring_merges();
    file["normalizer"] = json!({"type": "NFC"});
    let tokenizer = hugging_face(&file);
    assert_eq!(tokenizer.engine(), Engine::Native);
    let lines = ["cafe\u{301} 中文 x", "a", "e\u{301}e\u{301}\u{323}", "no change"];
    let (mut text, mut expected) = (String::new(), Vec::new());
    let mut parts = Vec::new();
    for line in lines.iter().cycle().take(60_000) {
        let mut tokens = Vec::new();
        tokenizer.encode_ordinary(line, TextPlace::Inside, &mut tokens).unwrap();
        let start = text.len();
        expected.extend(tokens.iter().map(|t| Token::new(t.id, start + t.start as usize, start + t.end as usize)));
        text += line;
        // A line break, which is one token.
        expected.push(Token::new(u32::from(b'\n'), text.len(), text.len() + 1));
        text.push('\n');
    }
    let mut tokens = Vec::new();
    tokenizer.encode_ordinary(&text, TextPlace::Inside, &mut tokens).unwrap();
    assert!(tokens == expected, "on all threads");
    tokenizer.encode_in_parts(&text, TextPlace::Inside, &mut |part| parts.extend_from_slice(part)).unwrap();
    assert!(parts == expected, "in parts");
}

#[test]
fn an_id_far_beyond_the_others_is_no_other() {
    let far = (1 << 22) + 1;
    let file = json!({
        "added_tokens": [],
        "model": {"type": "BPE", "unk_token": "?", "vocab": {"a": far, "b": 5, "c": 1, "ab": 3, "?": 7}, "merges": ["a b"]}
    });
    let tokenizer = hugging_face(&file);
    assert!(matches!(tokenizer.engine(), Engine::Crate { why } if why.contains("ids")), "{:?}", tokenizer.engine());
    assert_eq!(ordinary(&tokenizer, "abcba"), [3, 1, 5, far]);
}

#[test]
fn a_group_of_a_pattern_is_a_group() {
    let file = json!({
        "added_tokens": [],
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|b)+|."}, "behavior": "Isolated", "invert": false},
        "model": {"type": "BPE", "unk_token": "?", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "bc": 4, "?": 5}, "merges": ["a b", "b c"]}
    });
    let tokenizer = hugging_face(&file);
    assert_eq!(tokenizer.engine(), Engine::Native);
    assert_eq!(ordinary(&tokenizer, "abbcab"), [2, 1, 3, 2]);
}

#[test]
fn a_token_over_nothing_covers_the_character_beside_it() {
    for (text, at, span) in [("a", 1, (0, 1)), ("a", 0, (0, 1)), ("é", 2, (0, 2)), ("éa", 1, (0, 2)), ("", 0, (0, 0))]
    {
        let token = Token::covering(7, (at, at), text);
        assert_eq!((token.start, token.end), span, "{text:?} at {at}");
    }
}

#[test]
fn a_cache_keeps_apart_what_different_tokens_are_kept_out_of() {
    let cached = CachedTokenizer::new(Arc::new(hugging_face(&bpe())), 1 << 20);
    // By default it keeps all added tokens out of text, but this one keeps none of the tokens that
    // are text.
    let open = cached.keeping_out(&BTreeSet::from([0])).unwrap();
    let both = |text: &str| (ordinary(&cached, text), ordinary(&*open, text));
    for _ in 0..2 {
        assert_eq!(both("<t>"), (vec![2, 9, 4], vec![12]));
    }
}

#[test]
fn a_token_that_stands_alone_has_the_neighbours_that_the_reference_lets_it_have() {
    let mut token = added(12, "ab", false);
    token["single_word"] = json!(true);
    let mut file = bpe();
    file["added_tokens"] = json!([token]);
    file["model"]["vocab"]["ab"] = json!(12);
    file["model"]["merges"] = json!([]);
    let own = hugging_face(&file).keeping_out(&BTreeSet::new()).unwrap();
    let crates_own = hugging_face(&file);
    // Marks and joiners continue a word; a circled number is not part of one.
    for character in ['\u{fe0f}', '\u{e4c}', '\u{200d}', '\u{203f}', '_', 'é', '7', '\u{2460}', '\u{bd}', '-', '\u{a0}']
    {
        for text in [format!("{character}ab"), format!("ab{character}"), format!("ab {character} ab")] {
            assert_eq!(ordinary(&*own, &text), reference(&crates_own, &text), "{text:?}");
        }
    }
    assert!(ordinary(&*own, "\u{2460}ab").contains(&12));
    assert!(!ordinary(&*own, "ab\u{fe0f}").contains(&12));
}

#[test]
fn a_config_that_is_not_legacy_puts_the_prefix_at_the_start_only() {
    let config = br#"{"legacy": false, "added_tokens_decoder": {"1": {"content": "<go>", "special": true}}}"#;
    let tokenizer = SentencePiece::from_bytes(&write_sentencepiece(PIECES, BPE, &[]), Some(&config[..])).unwrap();
    assert_eq!(reference(&tokenizer, "a<go>a"), [13, 1, 8]);
    assert_eq!(ids(&ordinary_tokens(&tokenizer, "a", TextPlace::Inside)), [8]);
    assert_eq!((tokenizer.token_id("<go>"), tokenizer.token_id("<s>")), (Some(1), Some(1)));
    assert_eq!(tokenizer.token_text(1).as_deref(), Some("<go>"));
}

#[test]
fn a_broken_model_is_a_typed_error() {
    let load =
        |pieces: &[_], trainer| code(SentencePiece::from_bytes(&write_sentencepiece(pieces, trainer, PLAIN), None));
    assert_eq!(load(&PIECES[1..], BPE), "tokenizer_malformed");
    assert_eq!(load(&[PIECES[0], PIECES[0]], BPE), "tokenizer_malformed");
    assert_eq!(load(&[PIECES[0], ("", 0.0, NORMAL)], BPE), "tokenizer_malformed");
    assert_eq!(load(&[PIECES[0], ("a", f32::NAN, NORMAL)], BPE), "tokenizer_malformed");
    assert_eq!(load(&[PIECES[0], ("a", 0.0, 9)], BPE), "tokenizer_malformed");
    assert_eq!(load(&[PIECES[0], ("<0x00>", 0.0, BYTE)], BPE_WITH_BYTES), "tokenizer_malformed");
    assert_eq!(load(PIECES, &[0x18, 4]), "tokenizer_unsupported");
    assert_eq!(code(SentencePiece::from_bytes(b"", None)), "tokenizer_not_recognized");
    assert_eq!(code(SentencePiece::from_bytes(b"{\"model\": 1}", None)), "tokenizer_not_recognized");
    let file = write_sentencepiece(PIECES, BPE, PLAIN);
    assert_eq!(code(SentencePiece::from_bytes(&file[..file.len() - 1], None)), "tokenizer_truncated");
}

#[test]
fn no_cut_and_no_flipped_byte_makes_a_loader_panic() {
    let json = bpe().to_string().into_bytes();
    let model = write_sentencepiece(PIECES, BPE, &[]);
    for file in [json, model] {
        for at in 0..file.len() {
            exercise(&file[..at]);
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[at] ^= 1 << bit;
                exercise(&flipped);
            }
        }
    }
}

fn exercise(file: &[u8]) {
    let text = "ab<s> [T]——  Ω";
    let mut tokens = Vec::new();
    if let Ok(tokenizer) = HuggingFace::from_bytes(file, None) {
        let _ = tokenizer.encode_ordinary(text, TextPlace::Start, &mut tokens);
    }
    if let Ok(tokenizer) = SentencePiece::from_bytes(file, None) {
        let _ = tokenizer.encode_ordinary(text, TextPlace::Inside, &mut tokens);
    }
}

/// A byte vocabulary, with the pattern of a published tokenizer.
fn byte_level() -> Value {
    let mut vocab = serde_json::Map::new();
    for byte in 0..=u8::MAX {
        vocab.insert(crate::byte_alphabet::ByteAlphabet::new().spell(&[byte]), json!(byte));
    }
    let merges = ["t h", "th e", "Ġ t", "Ġt h", "ä ¸", "ä¸ Ń", "1 2", "Ċ Ċ"];
    for (merge, id) in merges.iter().zip(256..) {
        vocab.insert(merge.replace(' ', ""), json!(id));
    }
    let pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    json!({
        "added_tokens": [],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}
    })
}

#[test]
fn a_long_text_has_the_tokens_of_a_short_one_on_any_number_of_processors() {
    let mut random = 1u64;
    let mut text = String::new();
    let parts = ["the ", "\n\n   x", "中文字", "12345", "<s>", "ab", " \t", "é", "--, ", "\u{2581}a"];
    while text.len() < 1_700_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(parts[(random >> 33) as usize % parts.len()]);
    }
    let mut of_spaces = bpe();
    of_spaces["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always"});
    of_spaces["model"]["ignore_merges"] = json!(false);
    let mut pieces: Vec<(String, f32, u8)> = vec![("<unk>".into(), 0.0, 2)];
    pieces.extend((0..=u8::MAX).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    pieces.extend(["\u{2581}", "t", "h", "e", "a", "b"].map(|piece| (piece.to_owned(), -9.0, 1)));
    pieces.extend(
        ["\u{2581}t", "th", "the", "ab"].iter().zip(1u8..).map(|(piece, at)| (piece.to_string(), -f32::from(at), 1)),
    );
    let model = write_sentencepiece(&pieces, BPE_WITH_BYTES, PLAIN);
    let sentencepiece = || SentencePiece::from_bytes(&model, None).unwrap();
    let tokenizers: [(Box<dyn Tokenizer>, Box<dyn Tokenizer>); 3] = [
        (Box::new(hugging_face(&byte_level())), Box::new(hugging_face(&byte_level()))),
        (Box::new(hugging_face(&of_spaces)), Box::new(hugging_face(&of_spaces))),
        (Box::new(sentencepiece()), Box::new(sentencepiece().with_reference_engine())),
    ];
    for (tokenizer, other) in tokenizers {
        assert_eq!(tokenizer.engine(), Engine::Native);
        // A text with a limit is not divided, nor is one for the other engine.
        let mut alone = Vec::new();
        other.encode_at_most(&text, TextPlace::Start, usize::MAX - 1, &mut alone).unwrap();
        let together = ordinary_tokens(&*tokenizer, &text, TextPlace::Start);
        assert!(alone == together, "{}: {} and {} tokens", tokenizer.kind(), alone.len(), together.len());
        let mut in_parts = Vec::new();
        let mut most = 0;
        tokenizer
            .encode_in_parts(&text, TextPlace::Start, &mut |part| {
                most = most.max(part.len());
                in_parts.extend_from_slice(part);
            })
            .unwrap();
        assert!(in_parts == alone, "{}: in parts", tokenizer.kind());
        assert!(most < alone.len() / 2, "{}: {most} of {} tokens in one part", tokenizer.kind(), alone.len());
    }
}
