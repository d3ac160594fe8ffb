//! The journal of a run that writes a file. It records the progress for `--resume`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, object};

use super::lines::LineMark;
use super::tally::{Reason, Tally};

/// The progress of a run: how much of the output corresponds to how much of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The dependencies of the output by name; if a value changes, so may the output.
    pub made_of: Vec<(String, String)>,
    /// The time for templates in Unix seconds, taken when the run began.
    pub clock: i64,
    pub input: LineMark,
    /// The number of output bytes that are safely on disk.
    pub output: u64,
    pub tally: Tally,
    /// Whether the output covers the whole input.
    pub complete: bool,
}

impl Journal {
    /// Writes the journal atomically: a reader sees either the previous one or this one.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let fresh = beside(path, ".new");
        let mut file = File::create(&fresh)?;
        let text = json::write(&self.to_json(), &Layout::indented(2));
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n"))?;
        file.sync_data()?;
        fs::rename(&fresh, path)
    }

    /// Loads the journal of an interrupted run. Returns `None` if the file does not exist.
    pub fn load(path: &Path) -> io::Result<Option<Journal>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let journal = json::parse(&text).ok().and_then(|value| Journal::from_json(&value));
        journal.map(Some).ok_or_else(|| io::Error::other("not a journal of this version of rolecall"))
    }

    /// Returns the names of the dependencies that have changed.
    pub fn differs_in(&self, now: &[(String, String)]) -> Vec<String> {
        let value = |name: &str| self.made_of.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let changed = now.iter().filter(|(name, text)| value(name) != Some(text));
        changed.map(|(name, _)| name.clone()).collect()
    }

    fn to_json(&self) -> Json {
        let made_of: Object = self.made_of.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        Json::Object(object! {
            "made_of" => Json::Object(made_of),
            "clock" => self.clock,
            "input" => Json::Object(object! {
                "bytes" => self.input.bytes as i64,
                "lines" => self.input.lines as i64,
                "digest" => format!("{:016x}", self.input.digest),
            }),
            "output" => self.output as i64,
            "answered" => self.tally.answered as i64,
            "tokens" => self.tally.tokens as i64,
            "refused" => self.tally.refused as i64,
            "refused_lines" => Json::Array(self.tally.named.iter().map(|line| Json::from(*line as i64)).collect()),
            "reasons" => Json::Array(self.tally.reasons.iter().map(of_reason).collect()),
            "noted" => self.tally.noted as i64,
            "by_design" => self.tally.by_design as i64,
            "notes" => Json::Array(self.tally.notes.iter().map(of_reason).collect()),
            "complete" => Json::Bool(self.complete),
        })
    }

    fn from_json(value: &Json) -> Option<Journal> {
        let object = value.as_object()?;
        let input = object.get("input")?.as_object()?;
        let digest = u64::from_str_radix(input.get("digest")?.as_str()?, 16).ok()?;
        let made_of = object.get("made_of")?.as_object()?;
        let made_of = made_of.iter().map(|(name, value)| Some((name.to_owned(), value.as_str()?.to_owned())));
        let reasons = object.get("reasons").and_then(Json::as_array).unwrap_or_default().iter().map(reason_of);
        let notes = object.get("notes").and_then(Json::as_array).unwrap_or_default().iter().map(reason_of);
        let lines = object.get("refused_lines")?.as_array()?.iter().map(as_u64);
        Some(Journal {
            made_of: made_of.collect::<Option<_>>()?,
            clock: object.get("clock").and_then(|clock| match clock {
                Json::Number(number) => number.as_i64(),
                _ => None,
            })?,
            input: LineMark { bytes: as_u64(input.get("bytes")?)?, lines: as_u64(input.get("lines")?)?, digest },
            output: as_u64(object.get("output")?)?,
            tally: Tally {
                answered: as_u64(object.get("answered")?)?,
                refused: as_u64(object.get("refused")?)?,
                named: lines.collect::<Option<_>>()?,
                reasons: reasons.collect::<Option<_>>()?,
                tokens: as_u64(object.get("tokens")?)?,
                noted: object.get("noted").and_then(as_u64).unwrap_or_default(),
                by_design: object.get("by_design").and_then(as_u64).unwrap_or_default(),
                notes: notes.collect::<Option<_>>()?,
            },
            complete: *object.get("complete")? == Json::Bool(true),
        })
    }
}

fn of_reason(reason: &Reason) -> Json {
    let Reason { code, why, count, line, message, help } = reason;
    Json::Object(object! {
        "code" => code.as_str(), "count" => *count as i64, "line" => *line as i64, "message" => message.as_str(),
        "why" => why.as_str(),
        "help" => help.as_deref().map_or(Json::Null, Json::from),
    })
}

fn reason_of(value: &Json) -> Option<Reason> {
    let object = value.as_object()?;
    let text = |key: &str| Some(object.get(key)?.as_str()?.to_owned());
    let number = |key: &str| as_u64(object.get(key)?);
    let (code, message, help) = (text("code")?, text("message")?, text("help"));
    let why = text("why").unwrap_or_default();
    Some(Reason { code, why, count: number("count")?, line: number("line")?, message, help })
}

fn as_u64(value: &Json) -> Option<u64> {
    match value {
        Json::Number(number) => number.spelling().parse().ok(),
        _ => None,
    }
}

/// Appends an ending to the file name of a path.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let journal = Journal {
            made_of: vec![("format".into(), "a".into()), ("tokenizer".into(), "b\"".into())],
            clock: -3,
            input: LineMark { bytes: 10, lines: 2, digest: u64::MAX },
            output: 99,
            tally: Tally {
                answered: 2,
                refused: 1,
                named: vec![2],
                reasons: vec![Reason {
                    code: "a".into(),
                    why: String::new(),
                    count: 1,
                    line: 2,
                    message: "b".into(),
                    help: None,
                }],
                tokens: 7,
                noted: 1,
                by_design: 2,
                notes: vec![Reason {
                    code: "c".into(),
                    why: "f".into(),
                    count: 1,
                    line: 1,
                    message: "d".into(),
                    help: Some("e".into()),
                }],
            },
            complete: true,
        };
        assert_eq!(Journal::from_json(&journal.to_json()), Some(journal.clone()));
        assert!(Journal::from_json(&Json::Null).is_none());
        assert!(journal.differs_in(&journal.made_of).is_empty());
        let other = [("format".to_owned(), "a".to_owned()), ("tokenizer".to_owned(), "c".to_owned())];
        assert_eq!(journal.differs_in(&other), ["tokenizer"]);
    }
}
