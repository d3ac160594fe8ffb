//! Cases in files: sections, each opened by a line `--- name`, nothing trimmed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;
use std::path::{Path, PathBuf};

/// A case in a file. A section holds the lines below its opening one; the line break before the next opening line (and
/// the last one of the file) is not part of it.
pub struct Fixture {
    pub path: PathBuf,
    sections: Vec<(String, String)>,
}

impl Fixture {
    /// All cases below `fixtures/jinja`, in the order of their paths.
    pub fn all() -> Vec<Fixture> {
        let mut paths = Vec::new();
        collect(&super::root().join("fixtures/jinja"), &mut paths);
        paths.sort();
        assert!(!paths.is_empty(), "fixtures/jinja holds no case");
        paths.into_iter().map(Fixture::read).collect()
    }

    fn read(path: PathBuf) -> Fixture {
        let text = fs::read_to_string(&path).unwrap();
        let mut sections: Vec<(String, String)> = Vec::new();
        for line in text.split('\n') {
            match (line.strip_prefix("--- "), sections.last_mut()) {
                (Some(name), _) => sections.push((name.to_owned(), String::new())),
                (None, Some((_, body))) => {
                    body.push_str(line);
                    body.push('\n');
                }
                (None, None) => assert!(line.is_empty(), "{}: text before the first `--- name`", path.display()),
            }
        }
        for (_, body) in &mut sections {
            body.pop();
        }
        if let Some((_, body)) = sections.last_mut()
            && body.ends_with('\n')
        {
            body.pop();
        }
        Fixture { path, sections }
    }

    pub fn section(&self, name: &str) -> Option<&str> {
        self.sections.iter().find(|(known, _)| known == name).map(|(_, body)| body.as_str())
    }

    /// Compares what came out with a section. With `UPDATE=1` in the environment the file is rewritten instead.
    pub fn expect(&mut self, name: &str, found: &str) {
        if self.section(name) == Some(found) {
            return;
        }
        if std::env::var_os("UPDATE").is_some() {
            match self.sections.iter_mut().find(|(known, _)| known == name) {
                Some((_, body)) => *body = found.to_owned(),
                None => self.sections.push((name.to_owned(), found.to_owned())),
            }
            let text: String = self.sections.iter().map(|(name, body)| format!("--- {name}\n{body}\n")).collect();
            fs::write(&self.path, text).unwrap();
            return;
        }
        let expected = self.section(name).unwrap_or("(no such section)");
        let path = self.path.display();
        panic!("{path}: `{name}` differs (UPDATE=1 rewrites it)\n--- expected\n{expected}\n--- found\n{found}\n");
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "case") {
            paths.push(path);
        }
    }
}
