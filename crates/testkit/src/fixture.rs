use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::{env, fs};

/// The authority for an expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Another system, with its revision. `UPDATE=1` never overwrites the expectation.
    Reference(String),
    /// A person wrote the expectation, or reviewed our own output and found it right.
    ByHand(String),
    /// Our own output, not compared with anything.
    Own(String),
}

/// A case file: sections, each opened by a line `--- name`. Nothing is trimmed.
///
/// A section holds the lines below its opening line. The line break before the next opening line is
/// not part of it, nor is the last line break of the file.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The path of the file.
    pub path: PathBuf,
    sections: Vec<(String, String)>,
}

impl Fixture {
    /// Reads all cases in a folder below `fixtures/`, sorted by path.
    pub fn of_folder(folder: &str) -> Vec<Fixture> {
        let mut paths = Vec::new();
        collect(&super::root().join("fixtures").join(folder), &mut paths);
        paths.sort();
        assert!(!paths.is_empty(), "fixtures/{folder} contains no cases");
        paths.into_iter().map(Fixture::read).collect()
    }

    /// Runs a check, which panics on a wrong case, on every case of a folder, and reports all wrong
    /// cases at once.
    pub fn check_all(folder: &str, mut check: impl FnMut(&mut Fixture)) {
        let cases = Fixture::of_folder(folder);
        let count = cases.len();
        let wrong: Vec<String> = cases.into_iter().filter_map(|case| case.fault(&mut check)).collect();
        assert!(wrong.is_empty(), "{} of {count} cases fail:\n{}", wrong.len(), wrong.join("\n"));
    }

    /// Does the same on several threads, for checks that mostly wait.
    pub fn check_side_by_side(folder: &str, check: impl Fn(&mut Fixture) + Sync) {
        let cases = Fixture::of_folder(folder);
        let count = cases.len();
        let (waiting, wrong) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
        let next = || waiting.lock().expect("nothing panics while it holds this").next();
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(case) = next() {
                        let fault = case.fault(|case| check(case));
                        wrong.lock().expect("nothing panics while it holds this").extend(fault);
                    }
                });
            }
        });
        let wrong = wrong.into_inner().expect("nothing panicked");
        assert!(wrong.is_empty(), "{} of {count} cases fail:\n{}", wrong.len(), wrong.join("\n"));
    }

    /// Returns what a check of this case panics with.
    fn fault(mut self, mut check: impl FnMut(&mut Fixture)) -> Option<String> {
        let panic = catch_unwind(AssertUnwindSafe(|| check(&mut self))).err()?;
        Some(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| self.path.display().to_string()))
    }

    fn read(path: PathBuf) -> Fixture {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut sections: Vec<(String, String)> = Vec::new();
        for line in text.split('\n') {
            match (line.strip_prefix("--- "), sections.last_mut()) {
                (Some(name), _) => sections.push((name.to_owned(), String::new())),
                (None, Some((_, body))) => {
                    body.push_str(line);
                    body.push('\n');
                }
                (None, None) => assert!(
                    line.is_empty(),
                    "{}: expected `--- name` on the first line, found other text",
                    path.display()
                ),
            }
        }
        for (_, body) in &mut sections {
            // Each line added a line break. The last one belongs to the next opening line or to the
            // end of the file.
            body.pop();
        }
        if let Some((_, body)) = sections.last_mut()
            && body.ends_with('\n')
        {
            body.pop();
        }
        Fixture { path, sections }
    }

    /// Returns the text of a section, or `None` if there is no such section.
    pub fn section(&self, name: &str) -> Option<&str> {
        self.sections.iter().find(|(known, _)| known == name).map(|(_, body)| body.as_str())
    }

    /// Returns the name and the text of each section, in order.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sections.iter().map(|(name, body)| (name.as_str(), body.as_str()))
    }

    /// Returns the text of a section. A missing section fails the test.
    pub fn needed(&self, name: &str) -> &str {
        self.section(name).unwrap_or_else(|| panic!("{}: no section `{name}`", self.path.display()))
    }

    /// Returns the source of the expectation in a section, from the case's own section `source` or
    /// else from the nearest file `SOURCES` above the case.
    pub fn source(&self, name: &str) -> Result<Source, String> {
        let (mut place, mut text) = (self.path.clone(), self.section("source").map(str::to_owned));
        for folder in self.path.ancestors().skip(1) {
            if let Some(found) = text.as_deref().and_then(|text| source_in(text, name)) {
                return found.map_err(|error| format!("{}: {error}", place.display()));
            }
            if folder.ends_with("fixtures") {
                break;
            }
            place = folder.join("SOURCES");
            text = fs::read_to_string(&place).ok();
        }
        Err(format!(
            "{}: neither a section `source` nor a file `SOURCES` above the case names a source for `{name}`",
            self.path.display()
        ))
    }

    /// Compares an output with a section. With `UPDATE=1` in the environment, rewrites the file
    /// instead, unless the expectation comes from a reference.
    pub fn expect(&mut self, name: &str, found: &str) {
        let source = self.source(name).unwrap_or_else(|error| panic!("{error}"));
        if self.section(name) == Some(found) {
            return;
        }
        let is_ours = !matches!(source, Source::Reference(_)) || self.section(name).is_none();
        if env::var_os("UPDATE").is_some() && is_ours {
            match self.sections.iter_mut().find(|(known, _)| known == name) {
                Some((_, body)) => *body = found.to_owned(),
                None => self.sections.push((name.to_owned(), found.to_owned())),
            }
            self.write();
            return;
        }
        let expected = self.section(name).unwrap_or("(no such section)");
        let path = self.path.display();
        let advice = match source {
            Source::Reference(reference) => format!("it comes from {reference}, so UPDATE=1 does not rewrite it"),
            Source::ByHand(_) | Source::Own(_) => "UPDATE=1 rewrites it".to_owned(),
        };
        panic!("{path}: `{name}` differs ({advice})\n--- expected\n{expected}\n--- found\n{found}\n");
    }

    fn write(&self) {
        let mut text = String::new();
        for (name, body) in &self.sections {
            let _ = write!(text, "--- {name}\n{body}\n");
        }
        fs::write(&self.path, text).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
    }
}

/// Finds the source for a section: the first line `NAME, NAME: KIND: WHAT` that lists its name. `*`
/// matches every name. A line without names applies to all sections; it is `reviewed by hand` or
/// the name of a reference.
fn source_in(text: &str, name: &str) -> Option<Result<Source, String>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    for line in lines {
        let Some((names, rest)) = line.split_once(": ") else {
            return Some(Ok(match line {
                "reviewed by hand" => Source::ByHand(String::new()),
                reference => Source::Reference(reference.to_owned()),
            }));
        };
        // `ids *` matches every name that begins with `ids `.
        let fits = |known: &str| known == name || known.strip_suffix('*').is_some_and(|start| name.starts_with(start));
        if !names.split(',').map(str::trim).any(fits) {
            continue;
        }
        let (kind, what) = rest.split_once(": ").unwrap_or((rest, ""));
        return Some(match (kind, what) {
            ("reference", "") => Err(format!("expected a reference and its revision in {line:?}")),
            ("reference", what) => Ok(Source::Reference(what.to_owned())),
            ("by hand" | "reviewed by hand", what) => Ok(Source::ByHand(what.to_owned())),
            ("our own output", what) => Ok(Source::Own(what.to_owned())),
            _ => Err(format!("expected `reference`, `by hand` or `our own output` in {line:?}")),
        });
    }
    None
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        match path.is_dir() {
            true => collect(&path, paths),
            false if path.extension().is_some_and(|extension| extension == "case") => paths.push(path),
            false => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Fixture, Source, source_in};

    #[test]
    fn a_source_is_named_for_each_section() {
        let text = "# note\nprompt, ids *: reference: system 1.2\n*: our own output\n";
        assert_eq!(source_in(text, "prompt"), Some(Ok(Source::Reference("system 1.2".to_owned()))));
        assert_eq!(source_in(text, "ids small"), Some(Ok(Source::Reference("system 1.2".to_owned()))));
        assert_eq!(source_in(text, "segments"), Some(Ok(Source::Own(String::new()))));
        assert_eq!(source_in("prompt: by hand: read", "error"), None);
        assert_eq!(source_in("reviewed by hand", "error"), Some(Ok(Source::ByHand(String::new()))));
        assert_eq!(source_in("system 1.2", "error"), Some(Ok(Source::Reference("system 1.2".to_owned()))));
        assert!(source_in("*: reference", "error").is_some_and(|found| found.is_err()));
        assert!(source_in("*: somebody", "error").is_some_and(|found| found.is_err()));
    }

    #[test]
    fn an_update_does_not_overwrite_what_a_reference_said() {
        let path = std::env::temp_dir().join(format!("rolecall-source-{}.case", std::process::id()));
        let text = "--- source\n*: reference: system 1.2\n--- out\nx\n";
        std::fs::write(&path, text).unwrap();
        let mut fixture = Fixture::read(path.clone());
        assert_eq!(fixture.source("out"), Ok(Source::Reference("system 1.2".to_owned())));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fixture.expect("out", "y")));
        let kept = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(
            refused
                .is_err_and(|said| said.downcast_ref::<String>().is_some_and(|said| said.contains("does not rewrite")))
        );
        assert_eq!(kept, text);
    }

    #[test]
    fn sections_are_not_trimmed() {
        let path = std::env::temp_dir().join(format!("rolecall-fixture-{}.case", std::process::id()));
        std::fs::write(&path, "--- a\n x \n\n--- b\n--- c\n\n--- d\ny\n").unwrap();
        let fixture = Fixture::read(path.clone());
        let read: Vec<&str> = ["a", "b", "c", "d"].map(|name| fixture.needed(name)).to_vec();
        fixture.write();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "--- a\n x \n\n--- b\n\n--- c\n\n--- d\ny\n");
        std::fs::remove_file(path).unwrap();
        assert_eq!(read, [" x \n", "", "", "y"]);
    }
}
