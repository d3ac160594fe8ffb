//! A model's chat templates and special tokens, from all kinds of files.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::path::PathBuf;

use rolecall::conversation::Json;
use rolecall::gguf::Problem;
use rolecall::identify::FileError;
use rolecall::template::{ModelTemplates, load};
use rolecall_testkit::{flaw_of, gguf_of, read_gguf};

const GGUF: &str = r#"{
    "general.architecture": "tiny",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>"],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.padding_token_id": 2,
    "tokenizer.chat_template": "{{ bos_token }}default",
    "tokenizer.chat_templates": ["tool_use", "rag"],
    "tokenizer.chat_template.tool_use": "tools",
    "tokenizer.chat_template.rag": "rag"
}"#;

/// A case: description, files, path in their folder; the templates as `name = text (place)`; the
/// tokens.
type Case = (&'static str, Vec<(&'static str, &'static str)>, &'static str, Vec<&'static str>, Vec<&'static str>);

const CONFIG: &str = r#"{"chat_template": "config", "bos_token": "<s>"}"#;
const NAMED: &str = r#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "rag", "template": "b"}]}"#;

/// Loads the path of each case and compares the templates and tokens.
fn check(cases: Vec<Case>) {
    for (what, files, path, templates, tokens) in cases {
        let folder = Folder::new(&files);
        let found = load(&folder.0.join(path)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let root = format!("{}/", folder.0.display());
        let shown: Vec<String> = found
            .templates
            .iter()
            .map(|one| format!("{} = {} ({})", one.name, one.source, one.place().trim_start_matches(&root)))
            .collect();
        assert_eq!(shown, templates, "{what}");
        let named: Vec<String> = found.tokens.iter().map(|(name, text)| format!("{name} {text}")).collect();
        assert_eq!(named, tokens, "{what}");
    }
}

#[test]
fn a_config_gives_its_templates() {
    check(vec![
        (
            "one text",
            vec![("tokenizer_config.json", CONFIG)],
            "",
            vec!["default = config (tokenizer_config.json, chat_template)"],
            vec!["bos_token <s>"],
        ),
        (
            "a list of named ones",
            vec![("tokenizer_config.json", NAMED)],
            "",
            vec![
                "default = a (tokenizer_config.json, chat_template.default)",
                "rag = b (tokenizer_config.json, chat_template.rag)",
            ],
            vec![],
        ),
        (
            "of two with the same name, the later one counts",
            vec![(
                "tokenizer_config.json",
                r#"{"chat_template": [{"name": "x", "template": "a"}, {"name": "y", "template": "b"}, {"name": "x", "template": "c"}]}"#,
            )],
            "",
            vec!["x = c (tokenizer_config.json, chat_template.x)", "y = b (tokenizer_config.json, chat_template.y)"],
            vec![],
        ),
    ]);
}

#[test]
fn template_files_replace_the_templates_of_the_config() {
    check(vec![
        (
            "a template file replaces all templates of the config, whose tokens stay",
            vec![
                (
                    "tokenizer_config.json",
                    r#"{"chat_template": [{"name": "rag", "template": "b"}], "eos_token": {"content": "</s>"}}"#,
                ),
                ("chat_template.jinja", "file\r\n"),
            ],
            "",
            vec!["default = file\r\n (chat_template.jinja)"],
            vec!["eos_token </s>"],
        ),
        (
            "named files next to it",
            vec![
                ("tokenizer_config.json", CONFIG),
                ("chat_template.jinja", "file"),
                ("additional_chat_templates/tool_use.jinja", "tools"),
                ("additional_chat_templates/rag.jinja", "rag"),
                ("additional_chat_templates/notes.txt", "no"),
            ],
            "",
            vec![
                "default = file (chat_template.jinja)",
                "rag = rag (additional_chat_templates/rag.jinja)",
                "tool_use = tools (additional_chat_templates/tool_use.jinja)",
            ],
            vec!["bos_token <s>"],
        ),
        (
            "named files alone also replace the config's template",
            vec![("tokenizer_config.json", CONFIG), ("additional_chat_templates/rag.jinja", "rag")],
            "",
            vec!["rag = rag (additional_chat_templates/rag.jinja)"],
            vec!["bos_token <s>"],
        ),
        (
            "a processor's template wins over the tokenizer's",
            vec![
                ("tokenizer_config.json", NAMED),
                ("chat_template.json", r#"{"chat_template": {"tool_use": "q", "default": "p"}}"#),
            ],
            "",
            vec![
                "tool_use = q (chat_template.json, chat_template.tool_use)",
                "default = p (chat_template.json, chat_template.default)",
            ],
            vec![],
        ),
    ]);
}

#[test]
fn a_file_given_by_its_path_wins_over_the_others() {
    check(vec![
        (
            "a processor's template by its path, with the tokenizer's tokens",
            vec![
                ("tokenizer_config.json", CONFIG),
                ("chat_template.json", r#"{"chat_template": "p"}"#),
                ("chat_template.jinja", "file"),
            ],
            "chat_template.json",
            vec!["default = p (chat_template.json, chat_template)"],
            vec!["bos_token <s>"],
        ),
        (
            "a config by its path, whatever its name",
            vec![
                ("old_config.json", CONFIG),
                ("chat_template.jinja", "file"),
                ("special_tokens_map.json", r#"{"bos_token": "<map>"}"#),
            ],
            "old_config.json",
            vec!["default = config (old_config.json, chat_template)"],
            vec!["bos_token <map>"],
        ),
        (
            "a template by its path, with the tokens of the files next to it",
            vec![("tokenizer_config.json", CONFIG), ("mine.jinja", "mine")],
            "mine.jinja",
            vec!["default = mine (mine.jinja)"],
            vec!["bos_token <s>"],
        ),
        (
            "a named template by its path, with the tokens of the model's folder",
            vec![("tokenizer_config.json", CONFIG), ("additional_chat_templates/rag.jinja", "rag")],
            "additional_chat_templates/rag.jinja",
            vec!["default = rag (additional_chat_templates/rag.jinja)"],
            vec!["bos_token <s>"],
        ),
    ]);
}

#[test]
fn special_tokens_come_from_the_config_and_the_map() {
    check(vec![
        (
            "every usual token, a null one, a model's own ones, and one that only looks like a token",
            vec![(
                "tokenizer_config.json",
                r#"{"chat_template": "", "bos_token": null, "eos_token": {"__type": "AddedToken", "content": "</s>"}, "unk_token": "<unk>", "sep_token": "<sep>", "pad_token": "<pad>", "cls_token": "<cls>", "mask_token": "<mask>", "image_token": "<image>", "add_bos_token": true, "additional_special_tokens": ["<x>"], "extra_special_tokens": {"audio_token": {"content": "<audio>"}, "boi": "<boi>", "messages": "forged"}}"#,
            )],
            "",
            vec!["default =  (tokenizer_config.json, chat_template)"],
            vec![
                "eos_token </s>",
                "unk_token <unk>",
                "sep_token <sep>",
                "pad_token <pad>",
                "cls_token <cls>",
                "mask_token <mask>",
                "image_token <image>",
                "audio_token <audio>",
                "boi <boi>",
            ],
        ),
        (
            "the map of special tokens wins if the config lists no added tokens, but not over a model's own text",
            vec![
                (
                    "tokenizer_config.json",
                    r#"{"chat_template": "t", "bos_token": "<s>", "pad_token": "<pad>", "image_token": "<image>", "audio_token": {"content": "<audio>"}, "video_token": {"content": "<video>"}, "extra_special_tokens": {"boi_token": "<boi>"}}"#,
                ),
                (
                    "special_tokens_map.json",
                    r#"{"bos_token": {"content": "<map>"}, "eos_token": "</map>", "pad_token": null, "image_token": "<map image>", "audio_token": "<map audio>", "video_token": null, "boi_token": "<map boi>", "additional_special_tokens": ["<x>"]}"#,
                ),
            ],
            "",
            vec!["default = t (tokenizer_config.json, chat_template)"],
            vec![
                "bos_token <map>",
                "image_token <image>",
                "audio_token <map audio>",
                "boi_token <boi>",
                "eos_token </map>",
            ],
        ),
        (
            "the map is ignored if the config lists added tokens",
            vec![
                ("tokenizer_config.json", r#"{"chat_template": "t", "bos_token": "<s>", "added_tokens_decoder": {}}"#),
                ("special_tokens_map.json", r#"{"bos_token": "<map>", "eos_token": "</map>"}"#),
            ],
            "",
            vec!["default = t (tokenizer_config.json, chat_template)"],
            vec!["bos_token <s>"],
        ),
    ]);
}

/// A case: files, path in their folder; the code, the message (`FOLDER` for the folder), and the
/// help.
type Refused = (Vec<(&'static str, &'static str)>, &'static str, &'static str, &'static str, &'static str);

#[test]
fn what_has_no_template_says_where_one_would_be() {
    let mend = "repair the file or remove it from the folder";
    let none = "base models have no chat template: give a .jinja file, or name a format";
    let nothing = "`FOLDER` has no chat template: there is no chat_template.jinja, chat_template.json or \
        additional_chat_templates in it, and no `chat_template` in its tokenizer_config.json";
    let cases: Vec<Refused> = vec![
        (vec![("config.json", "{}")], "", "no_template", nothing, none),
        (vec![("tokenizer_config.json", r#"{"chat_template": []}"#)], "", "no_template", nothing, none),
        (vec![("a.gguf", "")], "", "no_template", nothing, "give the file that may have one: FOLDER/a.gguf"),
        (
            vec![("b.gguf", ""), ("a.gguf", "")],
            "",
            "no_template",
            nothing,
            "give one of its .gguf files: FOLDER/a.gguf, ..",
        ),
        (
            vec![("tokenizer_config.json", "{}")],
            "tokenizer_config.json",
            "no_template",
            "`FOLDER/tokenizer_config.json` has no chat template: there is no `chat_template` in it",
            none,
        ),
        (
            vec![("tokenizer_config.json", r#"{"chat_template": [{"name": "x"}]}"#)],
            "",
            "model_damaged",
            "`FOLDER/tokenizer_config.json`: expected a list of templates with a `name` and a `template` for `chat_template`, found an object",
            mend,
        ),
        (
            vec![("chat_template.json", r#"{"chat_template": {"x": 1}}"#)],
            "",
            "model_damaged",
            "`FOLDER/chat_template.json`: expected an object of templates by name for `chat_template`, found a number",
            mend,
        ),
        (
            vec![("t.jinja", "x"), ("tokenizer_config.json", r#"{"bos_token": 1}"#)],
            "t.jinja",
            "model_damaged",
            "`FOLDER/tokenizer_config.json`: expected a string or an object with a `content` for `bos_token`, found a number",
            mend,
        ),
        (
            vec![("tokenizer_config.json", r#"{"chat_template": "x", "extra_special_tokens": {"image_token": 1}}"#)],
            "",
            "model_damaged",
            "`FOLDER/tokenizer_config.json`: expected an object of tokens by name for `extra_special_tokens`, found a number",
            mend,
        ),
        (
            vec![("x.gguf", "not one")],
            "x.gguf",
            "model_damaged",
            "`FOLDER/x.gguf`: not a GGUF file: it does not begin with `GGUF` (byte 0)",
            "the file is truncated or damaged: download it again, or give the model's .jinja file",
        ),
        (
            vec![("0a1b", "GGUF")],
            "0a1b",
            "model_damaged",
            "`FOLDER/0a1b`: expected at least 4 more bytes, found 0 before the end of the file (byte 4)",
            "the file is truncated or damaged: download it again, or give the model's .jinja file",
        ),
        (
            vec![("x.gguf", "GGUF\0\0\0\u{3}")],
            "x.gguf",
            "model_damaged",
            "`FOLDER/x.gguf`: a big-endian GGUF file, expected a little-endian one (byte 4)",
            "convert it with `gguf-convert-endian` of Python's `gguf` package",
        ),
        (
            vec![],
            "nothing.jinja",
            "model_unreadable",
            "cannot read `FOLDER/nothing.jinja`",
            "give the path of a file or folder that can be read",
        ),
    ];
    for (files, path, code, message, help) in cases {
        let folder = Folder::new(&files);
        let path = if path.is_empty() { folder.0.clone() } else { folder.0.join(path) };
        let error = load(&path).expect_err(message);
        let root = folder.0.display().to_string();
        let shown = |text: &str| text.replace(&root, "FOLDER");
        assert_eq!((error.code(), shown(&error.help()).as_str()), (code, help), "{error}");
        match error {
            // The rest is the message of the operating system.
            FileError::Unreadable { .. } => assert!(shown(&error.to_string()).starts_with(message), "{error}"),
            error => assert_eq!(shown(&error.to_string()), message),
        }
    }
}

#[test]
fn a_template_is_chosen_as_transformers_chooses() {
    let of = |names: &[&str]| {
        let named = names.iter().map(|name| ((*name).to_owned(), Json::from(*name))).collect();
        ModelTemplates::from_json(&Json::Object(named)).unwrap()
    };
    let all = of(&["rag", "tool_use", "default"]);
    let of_tools = of(&["rag", "tool_use"]);
    let cases = [
        (&all, None, false, "default"),
        (&all, None, true, "tool_use"),
        (&all, Some("rag"), true, "rag"),
        (&of(&["default", "rag"]), None, true, "default"),
        (&of_tools, None, true, "tool_use"),
        (&of(&["rag"]), None, true, "rag"),
    ];
    for (templates, name, has_tools, chosen) in cases {
        assert_eq!(templates.choose(name, has_tools).unwrap().source, chosen);
    }
    let none = of_tools.choose(None, false).unwrap_err();
    assert_eq!((none.code(), none.help().as_str()), ("no_default_template", "choose one by name: `rag`, `tool_use`"));
    let unknown = all.choose(Some("x"), false).unwrap_err();
    assert_eq!(unknown.to_string(), "the model has no chat template `x`");
    assert_eq!(unknown.help(), "choose one by name: `rag`, `tool_use`, `default`");
}

#[test]
fn templates_and_special_tokens_are_found() {
    let bytes = gguf_of(GGUF);
    let templates = ModelTemplates::from_gguf(&mut read_gguf(&bytes).unwrap(), "tiny.gguf".as_ref()).unwrap();
    let named: Vec<(&str, &str)> =
        templates.templates.iter().map(|template| (template.name.as_str(), template.source.as_str())).collect();
    assert_eq!(named, [("default", "{{ bos_token }}default"), ("tool_use", "tools"), ("rag", "rag")]);
    assert_eq!(templates.templates[1].place(), "tiny.gguf, tokenizer.chat_template.tool_use");
    let mut tokens: Vec<(&str, &str)> =
        templates.tokens.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [("bos_token", "<s>"), ("eos_token", "</s>"), ("pad_token", "</s>"), ("unk_token", "<unk>")]);
}

#[test]
fn a_wrong_value_is_named_with_its_key() {
    let wrong = |metadata: &str| {
        let bytes = gguf_of(metadata);
        let flaw = flaw_of(ModelTemplates::from_gguf(&mut read_gguf(&bytes).unwrap(), "x".as_ref()).unwrap_err());
        assert!(flaw.offset > 24, "{flaw:?}");
        (flaw.key, flaw.problem)
    };
    let kind = |expected, found| Problem::WrongKind { expected, found };
    let cases = [
        (r#"{"tokenizer.chat_template": 1}"#, "tokenizer.chat_template", kind("a string", "an integer")),
        (r#"{"tokenizer.chat_templates": "a"}"#, "tokenizer.chat_templates", kind("an array", "a string")),
        (r#"{"tokenizer.chat_templates": [1]}"#, "tokenizer.chat_templates", kind("a string", "an integer")),
        (
            r#"{"tokenizer.chat_templates": ["a"]}"#,
            "tokenizer.chat_templates",
            Problem::NoSuchTemplate { name: "a".into() },
        ),
        (
            r#"{"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.eos_token_id": 1}"#,
            "tokenizer.ggml.eos_token_id",
            Problem::NoSuchToken { id: 1, count: 1 },
        ),
        (
            r#"{"tokenizer.ggml.bos_token_id": 0}"#,
            "tokenizer.ggml.bos_token_id",
            Problem::NoSuchToken { id: 0, count: 0 },
        ),
        (
            r#"{"tokenizer.ggml.bos_token_id": -2}"#,
            "tokenizer.ggml.bos_token_id",
            kind("a non-negative integer", "an integer"),
        ),
    ];
    for (metadata, key, problem) in cases {
        assert_eq!(wrong(metadata), (key.to_owned(), problem), "{metadata}");
    }
    // This number means that there is no token.
    for none in ["4294967295", "-1"] {
        let none = gguf_of(&format!(r#"{{"tokenizer.ggml.bos_token_id": {none}}}"#));
        assert_eq!(ModelTemplates::from_gguf(&mut read_gguf(&none).unwrap(), "x".as_ref()).unwrap().tokens, []);
    }
    let adds = gguf_of(r#"{"tokenizer.ggml.add_bos_token": true}"#);
    assert_eq!(ModelTemplates::from_gguf(&mut read_gguf(&adds).unwrap(), "x".as_ref()).unwrap().adds_bos, Some(true));
}

#[test]
fn a_changed_byte_of_a_gguf_file_is_an_error_or_changes_what_is_read() {
    let bytes = gguf_of(GGUF);
    for at in 0..bytes.len() {
        for value in [0, 1, 9, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let templates = read_gguf(&changed).and_then(|mut gguf| ModelTemplates::from_gguf(&mut gguf, "x".as_ref()));
            if let Err(error) = templates {
                assert!(flaw_of(error).offset <= bytes.len() as u64);
            }
        }
    }
}

/// A folder with files, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = Folder(std::env::temp_dir().join(format!("rolecall-templates-{}-{number}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        for (name, text) in files {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
