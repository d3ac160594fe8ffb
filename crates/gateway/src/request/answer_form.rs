use rolecall::conversation::Json;
use rolecall::grammar::{Answer, Note};

use crate::{Fault, FaultCode};

/// What the answer of a reply must be.
#[derive(Clone, Debug, Default)]
pub struct AnswerForm {
    pub answer: Answer,
    /// Whether a schema that cannot be enforced whole is refused.
    pub is_strict: bool,
    /// Whether it has a text for the model, which no template writes.
    pub is_described: bool,
}

impl AnswerForm {
    /// Reports whether any text is an answer.
    pub fn is_free(&self) -> bool {
        self.answer == Answer::Free
    }

    /// Reads a `response_format`.
    pub fn read(value: &Json) -> Result<AnswerForm, Fault> {
        let wrong = |field: &str, wanted: &str| {
            let field = format!("response_format{field}");
            Err(Fault::at(&field, FaultCode::WrongValue, format!("{field}: expected {wanted}")))
        };
        let Some(format) = value.as_object() else { return wrong("", "an object with a `type`") };
        let kind = format.get("type").and_then(Json::as_str);
        let known: &[&str] = if kind == Some("json_schema") { &["type", "json_schema"] } else { &["type"] };
        if let Some((key, _)) = format.iter().find(|(key, _)| !known.contains(key)) {
            return Err(Fault::unsupported(&format!("response_format.{key}")));
        }
        match kind {
            Some("text") => Ok(AnswerForm::default()),
            Some("json_object") => Ok(AnswerForm { answer: Answer::Object, ..AnswerForm::default() }),
            Some("json_schema") => {
                let Some(about) = format.get("json_schema").and_then(Json::as_object) else {
                    return wrong(".json_schema", "an object with a `schema`");
                };
                let mut form = AnswerForm { answer: Answer::Object, ..AnswerForm::default() };
                for (key, value) in about.iter().filter(|(_, value)| !value.is_null()) {
                    match (key, value) {
                        ("schema", Json::Object(_)) => form.answer = Answer::Schema(value.clone()),
                        ("schema", _) => return wrong(".json_schema.schema", "an object"),
                        ("strict", Json::Bool(strict)) => form.is_strict = *strict,
                        ("strict", _) => return wrong(".json_schema.strict", "true or false"),
                        ("name", Json::String(_)) => {}
                        ("description", Json::String(text)) => form.is_described = !text.is_empty(),
                        (key, _) => return Err(Fault::unsupported(&format!("response_format.json_schema.{key}"))),
                    }
                }
                Ok(form)
            }
            _ => wrong(".type", "`text`, `json_object` or `json_schema`"),
        }
    }

    /// Refuses a grammar that allows more than a schema that must be kept strictly. `notes` are those of the
    /// grammar.
    pub fn check(&self, notes: &[Note]) -> Result<(), Fault> {
        if !self.is_strict {
            return Ok(());
        }
        match notes.iter().find(|note| matches!(note, Note::Keyword { .. })) {
            None => Ok(()),
            Some(note) => {
                let help = Some("leave the keyword or `strict` out".into());
                Err(Fault { help, ..Fault::at("response_format", FaultCode::UnsupportedSchema, note.to_string()) })
            }
        }
    }
}
