//! Settings from a file, the environment and flags.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::path::Path;

use rolecall_gateway::settings::{Settings, Sources};

const FILE: &str = "listen = \"file:1\"\n[limits]\nrequests = 7\n[[models]]\nmodel = \"a\"\nengine = \"http://e:1\"\n";

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
