//! Settings from a file, the environment and flags.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::path::Path;

use rolecall_gateway::check;
use rolecall_gateway::settings::{ModelSettings, SettingPlace, Settings, Sources};

const FILE: &str = "listen = \"file:1\"\n[limits]\nrequests = 7\n[[models]]\nmodel = \"a\"\nengine = \"http://e:1\"\n";

const MODEL: &str = "[[models]]\nmodel = \"chatml\"\nengine = \"http://127.0.0.1:1\"\n";

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Settings {
    let file = Some((Path::new("gateway.toml"), file));
    Settings::read(&Sources { file, environment: pairs(environment), flags: pairs(flags) }).unwrap()
}

#[test]
fn a_flag_replaces_a_variable_and_a_variable_the_file() {
    assert_eq!((&*read(FILE, &[], &[]).listen, read(FILE, &[], &[]).limits.requests), ("file:1", 7));
    let variable = [("ROLECALL_LISTEN", "variable:1"), ("ROLECALL_LIMITS_REQUESTS", "8")];
    let settings = read(FILE, &variable, &[("listen", "flag:1")]);
    assert_eq!((&*settings.listen, settings.limits.requests), ("flag:1", 8));
}

#[test]
fn a_key_that_is_not_known_is_refused_with_its_place() {
    let file = Some((Path::new("gateway.toml"), "[limits]\nrequestz = 7\n"));
    let fault = Settings::read(&Sources { file, ..Sources::default() }).unwrap_err().to_string();
    assert!(fault.contains("requestz"), "{fault}");
}

#[test]
fn a_variable_that_is_not_known_gives_a_warning() {
    let own =
        [("ROLECALL_CONFIG", "x"), ("ROLECALL_LOCAL_PYTHON", "python3"), ("ROLECALL_LOCAL_SERVER", "llama-server")];
    let settings = read(FILE, &own, &[("local.context", "512")]);
    assert_eq!(settings.warnings, [""; 0]);
    assert_eq!((settings.local.python, settings.local.context), (Some("python3".into()), 512));
    let warnings = read(FILE, &[("ROLECALL_LISTN", "x")], &[]).warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("did you mean `ROLECALL_LISTEN`?"), "{warnings:?}");
}

/// Two models, of which the second has a name.
const TWO: &str = "[[models]]\nmodel = \"a\"\nengine = \"http://e:1\"\n\
    [[models]]\nname = \"second\"\nmodel = \"b\"\nengine = \"http://e:2\"\n";

#[test]
fn a_flag_of_a_model_is_for_the_one_that_is_named() {
    for (name, at) in [("a", 0), ("second", 1)] {
        let settings = read(TWO, &[], &[("name", name), ("engine", "http://f:1")]);
        let engines: Vec<_> =
            settings.models.iter().map(|model| model.engine.as_deref() == Some("http://f:1")).collect();
        assert_eq!(engines, [at == 0, at == 1], "{name}");
    }
    let code = |flags: &[(&str, &str)]| {
        let sources =
            Sources { file: Some((Path::new("gateway.toml"), TWO)), flags: pairs(flags), ..Sources::default() };
        Settings::read(&sources).unwrap_err().code
    };
    assert_eq!(code(&[("name", "b"), ("engine", "http://f:1")]), "unknown_model");
    assert_eq!(code(&[("engine", "http://f:1")]), "ambiguous_model");
}

#[test]
fn a_model_is_served_under_its_name_the_end_of_its_path_or_what_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(folder.path().join("other.gguf"), "").unwrap();
    let name = |name: Option<&str>, model: &Path| {
        let model = ModelSettings { model: Some(model.display().to_string()), ..ModelSettings::default() };
        ModelSettings { name: name.map(str::to_owned), ..model }.served_name()
    };
    assert_eq!(name(Some("own"), &path).as_deref(), Some("own"));
    assert_eq!(name(None, &path).as_deref(), Some("mine"));
    assert_eq!(name(None, &path.join(".")).as_deref(), Some("mine"));
    assert_eq!(name(None, &folder.path().join("other.gguf")).as_deref(), Some("other"));
    // A name that is no path has all of its parts.
    assert_eq!(name(None, Path::new("internlm/internlm2-chat-7b")).as_deref(), Some("internlm/internlm2-chat-7b"));
}

#[test]
fn a_check_opens_the_template_that_is_given_and_warns_of_a_file_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let vocabulary = r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}}"#;
    write("tokenizer.json", vocabulary);
    write("tokenizer_config.json", r#"{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}"#);
    let model = ModelSettings {
        model: Some(folder.path().display().to_string()),
        engine: Some("http://127.0.0.1:1".to_owned()),
        template: Some(write("mine.jinja", "{% for m in messages %}>{{ m.content }}{% endfor %}")),
        ..ModelSettings::default()
    };
    let keys = Some(write("keys.txt", "\n"));
    let settings = Settings { store: "memory".to_owned(), keys, models: vec![model], ..Settings::default() };
    let report = check(&settings).unwrap();
    assert!(report.models[0].parts.iter().any(|part| part.contains("mine.jinja")), "{:?}", report.models[0].parts);
    assert_eq!(report.keys, Some(0));
    assert!(report.warnings.iter().any(|warning| warning.contains("no key")), "{:?}", report.warnings);
}

#[test]
fn a_file_of_tools_may_declare_mcp_servers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tools.toml");
    let open = |text: &str| {
        std::fs::write(&file, text).unwrap();
        read(MODEL, &[], &[("tools", file.to_str().unwrap())]).open()
    };
    let config =
        open("[[mcp]]\nname = \"a\"\nargv = [\"x\"]\n[[mcp]]\nname = \"b\"\nurl = \"http://h/mcp\"\n").unwrap();
    assert_eq!(config.servers.iter().map(|server| server.name()).collect::<Vec<_>>(), ["a", "b"]);
    let fault = open("\n[[mcp]]\nname = \"a\"\n").unwrap_err();
    assert!(matches!(&fault.place, SettingPlace::File { line: 2, .. }), "{fault:?}");
    let fault = open("[[tool]]\nname = \"weather\"\nargv = [\"x\"]\n").unwrap_err();
    assert_eq!((fault.code, &fault.place), ("tools_file", &SettingPlace::Flag("--tools".to_owned())));
    assert!(fault.message.contains("`weather`"), "{fault:?}");
    std::fs::remove_file(&file).unwrap();
    let missing = read(MODEL, &[("ROLECALL_TOOLS", file.to_str().unwrap())], &[]);
    assert_eq!(missing.open().unwrap_err().code, "unreadable_file");
}

#[test]
fn a_check_asks_mcp_servers_for_their_tools() {
    let folder = tempfile::tempdir().unwrap();
    let vocabulary = r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}}"#;
    std::fs::write(folder.path().join("tokenizer.json"), vocabulary).unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"chat_template": "{{ messages[0].content }}"}"#)
        .unwrap();
    let model = ModelSettings {
        model: Some(folder.path().display().to_string()),
        engine: Some("http://127.0.0.1:1".to_owned()),
        ..ModelSettings::default()
    };
    let tools = crate::mcp::Tools::new(&[]);
    let file = tools.file("[[mcp]]\nname = \"gone\"\nargv = [\"no-such-program\"]\n");
    let (store, models) = ("memory".to_owned(), vec![model]);
    let report = check(&Settings { store, models, tools: Some(file), ..Settings::default() }).unwrap();
    assert_eq!(report.servers, [("own".to_owned(), vec!["echo.it".to_owned(), "fail".to_owned()])]);
    assert!(report.lines().contains(&("MCP server", "own: echo.it, fail".to_owned())));
    assert_eq!(report.faults.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["mcp_server_failed"]);
}
