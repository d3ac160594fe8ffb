//! The metadata of GGUF files is read, and a damaged or hostile file gives an error with its
//! position.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::gguf::{Error, Flaw, Problem, Value};
use rolecall_testkit::{flaw_of, gguf_of, read_gguf};

const MODEL: &str = r#"{
    "general.architecture": "tiny",
    "general.name": "Tiny Chat",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "é"],
    "tokenizer.ggml.scores": [0.5, -1.0],
    "tokenizer.ggml.token_type": [2, 3, 3, 1],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.padding_token_id": 2,
    "tokenizer.ggml.add_bos_token": true,
    "tokenizer.chat_template": "{{ bos_token }}default",
    "tokenizer.chat_templates": ["tool_use", "rag"],
    "tokenizer.chat_template.tool_use": "tools",
    "tokenizer.chat_template.rag": "rag",
    "nested": [[1, 2], [3]]
}"#;

#[test]
fn values_are_read_by_key_and_arrays_element_by_element() {
    let bytes = gguf_of(MODEL);
    let mut gguf = read_gguf(&bytes).unwrap();
    assert_eq!(gguf.text("general.name").unwrap(), Some("Tiny Chat"));
    assert_eq!(gguf.text("general.nothing").unwrap(), None);
    assert_eq!(gguf.number("tokenizer.ggml.eos_token_id").unwrap(), Some(2));
    assert_eq!(gguf.flag("tokenizer.ggml.add_bos_token").unwrap(), Some(true));
    assert_eq!(gguf.texts("tokenizer.ggml.tokens").unwrap().unwrap(), ["<unk>", "<s>", "</s>", "é"]);
    let scores: Vec<Value> =
        gguf.elements("tokenizer.ggml.scores").unwrap().unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(scores, [Value::Float(0.5), Value::Float(-1.0)]);
    let inner: Vec<Value> = gguf.elements("nested").unwrap().unwrap().collect::<Result<_, _>>().unwrap();
    assert!(matches!(inner[..], [Value::Array(a), Value::Array(b)] if a.len() == 2 && b.len() == 1), "{inner:?}");
    // Elements can be iterated again.
    assert_eq!(gguf.texts("tokenizer.ggml.tokens").unwrap().unwrap().len(), 4);
    assert_eq!(gguf.keys().count(), 15);
}

#[test]
fn a_hostile_file_is_refused_before_anything_is_made_of_it() {
    let head = |version: [u8; 4], keys: u64| {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(version);
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(keys.to_le_bytes());
        bytes
    };
    // One key `k` with a value of this type, then these bytes.
    let one = |kind: u32, rest: &[u8]| {
        let mut bytes = head([3, 0, 0, 0], 1);
        bytes.extend(1_u64.to_le_bytes());
        bytes.push(b'k');
        bytes.extend(kind.to_le_bytes());
        bytes.extend(rest);
        bytes
    };
    let array = |kind: u32, count: u64| [kind.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()].concat();
    let deep: Vec<u8> = std::iter::repeat_n(array(9, 1), 9).flatten().chain(array(4, 0)).collect();
    let zeros = |count: usize| vec![0_u8; count];
    // Many empty texts in nested arrays: more elements than any model has.
    let many = {
        let inner: Vec<u8> = array(8, 1 << 20).into_iter().chain(zeros(8 << 20)).collect();
        let all: Vec<u8> = std::iter::repeat_n(inner, 17).flatten().collect();
        [array(9, 17), all].concat()
    };
    let cases = [
        (b"GG".to_vec(), "", 0, Problem::NotGguf),
        (b"PK\x03\x04....".to_vec(), "", 0, Problem::NotGguf),
        (head([0, 0, 0, 3], 0), "", 4, Problem::BigEndian),
        (head([1, 0, 0, 0], 0), "", 4, Problem::Version(1)),
        (head([3, 0, 0, 0], u64::MAX), "", 16, Problem::Ends { needed: u64::MAX, left: 0 }),
        (b"GGUF\x03\0\0\0\0\0".to_vec(), "", 8, Problem::Ends { needed: 8, left: 2 }),
        (one(13, &[]), "k", 33, Problem::UnknownType(13)),
        (one(8, &u64::MAX.to_le_bytes()), "k", 37, Problem::Ends { needed: u64::MAX, left: 0 }),
        (one(9, &array(4, u64::MAX)), "k", 41, Problem::Ends { needed: u64::MAX, left: 0 }),
        (one(9, &array(8, 1)), "k", 41, Problem::Ends { needed: 8, left: 0 }),
        (one(9, &deep), "k", 85, Problem::Nested(4)),
        (
            one(9, &[array(0, (1 << 24) + 1), zeros((1 << 24) + 1)].concat()),
            "k",
            41,
            Problem::TooMany { what: "elements", found: (1 << 24) + 1, most: 1 << 24 },
        ),
        (
            one(8, &[((16 << 20) + 1_u64).to_le_bytes().to_vec(), zeros((16 << 20) + 1)].concat()),
            "k",
            37,
            Problem::TooMany { what: "bytes of a string", found: (16 << 20) + 1, most: 16 << 20 },
        ),
        (
            one(9, &many),
            "k",
            37 + 12 + 15 * (12 + (8 << 20)),
            Problem::TooMany { what: "elements", found: (1 << 24) + 17, most: 1 << 24 },
        ),
    ];
    for (bytes, key, offset, problem) in cases {
        let found = flaw_of(read_gguf(&bytes).unwrap_err());
        assert_eq!(found, Flaw { key: key.to_owned(), offset, problem });
    }
}

#[test]
fn a_key_that_comes_twice_and_text_that_is_none_are_refused() {
    let twice = {
        let mut bytes = gguf_of(r#"{"a": 1}"#);
        let entry = bytes[24..].to_vec();
        bytes.extend(entry);
        bytes[16] = 2;
        bytes
    };
    assert_eq!(
        flaw_of(read_gguf(&twice).unwrap_err()),
        Flaw { key: "a".into(), offset: 41, problem: Problem::KeyTwice }
    );
    let mut bytes = gguf_of(r#"{"general.name": "x", "list": ["y"]}"#);
    for letter in [b'x', b'y'] {
        let at = bytes.iter().rposition(|byte| *byte == letter).unwrap();
        bytes[at] = 0xff;
    }
    let mut gguf = read_gguf(&bytes).unwrap();
    let name = flaw_of(gguf.text("general.name").unwrap_err());
    assert_eq!((name.key.as_str(), name.problem), ("general.name", Problem::NotUtf8));
    let list = flaw_of(gguf.texts("list").unwrap_err());
    assert_eq!((list.key.as_str(), list.problem), ("list", Problem::NotUtf8));
}

#[test]
fn every_cut_and_every_changed_byte_is_an_error_or_a_file() {
    let bytes = gguf_of(MODEL);
    let use_it = |bytes: &[u8]| -> Result<(), Error> {
        let mut gguf = read_gguf(bytes)?;
        let keys: Vec<String> = gguf.keys().map(str::to_owned).collect();
        for key in keys {
            let _ = (gguf.text(&key), gguf.number(&key), gguf.flag(&key));
            let _ = gguf.texts(&key);
            let _ = gguf.elements(&key).ok().flatten().map_or(0, Iterator::count);
        }
        Ok(())
    };
    assert!(use_it(&bytes).is_ok());
    for end in 0..bytes.len() {
        let error = use_it(&bytes[..end]).expect_err("the file is cut off");
        assert!(flaw_of(error).offset <= end as u64);
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 9, 0x7f, 0x80, 0xff, bytes[at] ^ 1] {
            let mut changed = bytes.clone();
            changed[at] = value;
            if let Err(error) = use_it(&changed) {
                assert!(flaw_of(error).offset <= bytes.len() as u64);
            }
        }
    }
}
