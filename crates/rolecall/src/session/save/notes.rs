//! Notes as JSON.

use rolecall_conversation::{Json, object};
use rolecall_render::jinja::Spot;

use super::damaged;
use super::fields::Fields;
use super::write::number;
use crate::Error;
use crate::session::{Rewrite, SessionNote};

/// Returns a note about an id as JSON.
pub(super) fn write(at: usize, note: &SessionNote) -> Json {
    let mut object = object! { "id" => number(at), "code" => note.code() };
    let mut add = |key: &str, value: Json| object.insert(key, value);
    match note {
        SessionNote::AfterStop { ids } | SessionNote::Closed { ids } => add("ids", number(*ids)),
        SessionNote::OtherStop { found, expected } | SessionNote::Contradicted { found, expected } => {
            add("found", found.as_str().into());
            add("expected", expected.as_str().into());
        }
        SessionNote::StopInReasoning | SessionNote::CutCall | SessionNote::BrokenCall => {}
        // A session does not record it: it is about a message without ids.
        SessionNote::LeftOut { .. } => {}
        SessionNote::Kept(rewrite) => add("rewrite", write_rewrite(rewrite)),
        SessionNote::Rewritten { branch, ids } => {
            add("branch", number(*branch));
            add("ids", number(*ids));
        }
        SessionNote::Truncated { branch, messages, ids } => {
            add("branch", number(*branch));
            add("messages", number(*messages));
            add("ids", number(*ids));
        }
        SessionNote::Differs { message } => add("message", number(*message)),
    }
    object.into()
}

/// Reads a note about an id.
pub(super) fn read(saved: &Fields<'_>) -> Result<(usize, SessionNote), Error> {
    let ids = || saved.number("ids");
    let text = |key: &str| saved.text(key).map(str::to_owned);
    let note = match saved.text("code")? {
        "after_stop" => SessionNote::AfterStop { ids: ids()? },
        "closed" => SessionNote::Closed { ids: ids()? },
        "other_stop" => SessionNote::OtherStop { found: text("found")?, expected: text("expected")? },
        "contradicted" => SessionNote::Contradicted { found: text("found")?, expected: text("expected")? },
        "stop_in_reasoning" => SessionNote::StopInReasoning,
        "cut_call" => SessionNote::CutCall,
        "broken_call" => SessionNote::BrokenCall,
        "kept" => SessionNote::Kept(Box::new(read_rewrite(&saved.object("rewrite")?)?)),
        "rewritten" => SessionNote::Rewritten { branch: saved.number("branch")?, ids: ids()? },
        "truncated" => {
            SessionNote::Truncated { branch: saved.number("branch")?, messages: saved.number("messages")?, ids: ids()? }
        }
        "differs" => SessionNote::Differs { message: saved.number("message")? },
        _ => return Err(damaged("notes", "unknown kind")),
    };
    Ok((saved.number("id")?, note))
}

/// Returns a rewrite as JSON.
pub(super) fn write_rewrite(rewrite: &Rewrite) -> Json {
    let spot = |spot: Spot| [spot.line, spot.column, spot.offset].map(|part| Json::from(i64::from(part))).to_vec();
    object! {
        "byte" => number(rewrite.byte),
        "message" => rewrite.message.map_or(Json::Null, number),
        "line" => rewrite.line.map_or(Json::Null, |line| Json::Array(spot(line))),
        "ids" => number(rewrite.ids),
        "before" => rewrite.before.as_str(),
        "after" => rewrite.after.as_str(),
    }
    .into()
}

/// Reads a rewrite.
pub(super) fn read_rewrite(saved: &Fields<'_>) -> Result<Rewrite, Error> {
    let line = match saved.optional("line") {
        None => None,
        Some(_) => match saved.numbers("line")?[..] {
            [line, column, offset] => Some(Spot { line, column, offset }),
            _ => return Err(damaged("line", "expected three numbers")),
        },
    };
    Ok(Rewrite {
        byte: saved.number("byte")?,
        message: saved.optional_number("message")?,
        line,
        ids: saved.number("ids")?,
        before: saved.text("before")?.to_owned(),
        after: saved.text("after")?.to_owned(),
    })
}
