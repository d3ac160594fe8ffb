//! The audit of a tokenizer as JSON.

use rolecall_conversation::{Json, object};
use rolecall_encode::ProtectedTokens;
use rolecall_tokenizer::{AddedToken, Tokenizer};

use crate::tokenizer::{Audit, ControlFit, Finding, Fit, Level, TokenizerFile};

/// A tokenizer with its audit, and what else is known about it.
#[derive(Clone, Copy)]
pub struct AuditAnswer<'a> {
    /// The file that it was loaded from.
    pub file: Option<&'a TokenizerFile>,
    /// The tokenizer.
    pub tokenizer: &'a dyn Tokenizer,
    /// The name of the format whose control tokens were checked.
    pub format: Option<&'a str>,
    /// The audit.
    pub audit: &'a Audit,
    /// The tokens that text is never encoded to, if a template is given.
    pub protected: Option<&'a ProtectedTokens>,
}

/// Returns
/// `{"file", "kind", "algorithm", "engine", "size", "adds_bos", "adds_eos", "added_tokens", "text_tokens", "format"?, "controls"?, "protected"?, "findings"}`.
pub fn of_audited(audited: AuditAnswer<'_>) -> Json {
    let tokenizer = audited.tokenizer;
    let added = |tokens: &[AddedToken]| {
        let each = tokens.iter().map(|token| {
            Json::Object(object! {
                "text" => token.text.as_str(), "id" => i64::from(token.id), "special" => token.special,
                "normalized" => token.normalized, "lstrip" => token.lstrip, "rstrip" => token.rstrip,
                "single_word" => token.single_word,
            })
        });
        Json::Array(each.collect())
    };
    let token = |id: Option<u32>| match id {
        None => Json::Null,
        Some(id) => of_token(tokenizer.token_text(id).as_deref().unwrap_or_default(), Some(id)),
    };
    let mut answer = object! {
        "file" => audited.file.map_or(Json::Null, |file| file.path.display().to_string().into()),
        "kind" => audited.file.map_or(Json::Null, |file| file.kind.name().into()),
        "algorithm" => tokenizer.kind().to_string(),
        "engine" => tokenizer.engine().to_string(),
        "size" => tokenizer.vocabulary_size() as i64,
        "adds_bos" => token(tokenizer.adds_bos()),
        "adds_eos" => token(tokenizer.adds_eos()),
        "added_tokens" => added(tokenizer.added_tokens()),
        "text_tokens" => added(&tokenizer.text_tokens()),
    };
    if let Some(format) = audited.format {
        answer.insert("format", Json::from(format));
        answer.insert("controls", Json::Array(audited.audit.controls.iter().map(of_control).collect()));
    }
    if let Some(protected) = audited.protected {
        let each = protected.tokens().map(|token| {
            let reasons: Vec<Json> = token.reasons.iter().map(|reason| Json::from(reason.to_string())).collect();
            Json::Object(object! {
                "text" => token.text.as_str(), "id" => i64::from(token.id), "reasons" => reasons,
            })
        });
        answer.insert("protected", Json::Array(each.collect()));
    }
    answer.insert("findings", Json::Array(audited.audit.findings.iter().map(of_finding).collect()));
    Json::Object(answer)
}

/// Returns `{"text", "id"?}`.
fn of_token(text: &str, id: Option<u32>) -> Json {
    let mut token = object! { "text" => text };
    if let Some(id) = id {
        token.insert("id", Json::from(i64::from(id)));
    }
    Json::Object(token)
}

/// Returns `{"text", "written", "fit", ..}`.
fn of_control(control: &ControlFit) -> Json {
    let mut answer = object! { "text" => control.text.as_str(), "written" => control.emitted };
    match &control.fit {
        Fit::Single { id, spelled } => {
            answer.insert("fit", Json::from("single"));
            answer.insert("id", Json::from(i64::from(*id)));
            if let Some(spelled) = spelled {
                answer.insert("spelled", Json::from(spelled.as_str()));
            }
        }
        Fit::Appended { id } => {
            answer.insert("fit", Json::from("appended"));
            answer.insert("id", Json::from(i64::from(*id)));
        }
        Fit::OtherId { expected, found } => {
            answer.insert("fit", Json::from("other-id"));
            answer.insert("id", Json::from(i64::from(*found)));
            answer.insert("expected", Json::from(i64::from(*expected)));
        }
        Fit::Missing { id, instead } => {
            answer.insert("fit", Json::from("missing"));
            if let Some(id) = id {
                answer.insert("expected", Json::from(i64::from(*id)));
            }
            if let Some(instead) = instead {
                answer.insert("instead", Json::from(instead.as_str()));
            }
        }
        _ => {}
    }
    Json::Object(answer)
}

/// Returns `{"code", "level", "message", "tokens", "help"}`.
fn of_finding(finding: &Finding) -> Json {
    let level = match finding.kind.level() {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let tokens: Vec<Json> = finding.tokens.iter().map(|(text, id)| of_token(text, *id)).collect();
    Json::Object(object! {
        "code" => finding.kind.code(), "level" => level, "message" => finding.message.as_str(), "tokens" => tokens,
        "help" => finding.kind.help(),
    })
}
