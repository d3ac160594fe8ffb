use std::io;

use rolecall::answer;
use rolecall::answer::Streamed;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::encode::EncodedToken;

use super::view::View;

/// Writes the library's answer with `"tokens"`, and `"spelled"` where the conversation spells control tokens.
pub fn write(id: Option<&Json>, view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let explained = view.explained;
    let prompt = explained.prompt;
    let each;
    let mut streamed = Streamed { id, prompt, tokens: None, notes: explained.notes, loss: explained.loss };
    if let Some(tokens) = explained.tokens {
        each = move || Box::new(tokens.iter()) as Box<dyn Iterator<Item = EncodedToken>>;
        streamed.tokens = Some(&each);
    }
    answer::stream(out, &streamed, |stream| {
        if let Some(tokens) = explained.tokens {
            stream.list("tokens", tokens.iter(), |stream, token| {
                let mut inner: Object = object! {
                    "id" => i64::from(token.id),
                    "text" => prompt.text().get(token.start..token.end).unwrap_or_default(),
                    "start" => token.start as i64,
                    "end" => token.end as i64,
                    "control" => token.control,
                };
                if let Some(origin) = prompt.origin_at(token.start) {
                    inner.insert("origin", answer::of_origin(&origin));
                }
                stream.value(&Json::Object(inner))
            })?;
        }
        let mut forgeries = view.forgeries().peekable();
        if forgeries.peek().is_none() {
            return Ok(());
        }
        stream.list("spelled", forgeries, |stream, forgery| {
            stream.value(&Json::Object(object! {
                "token" => forgery.token,
                "start" => forgery.span.start as i64,
                "end" => forgery.span.end as i64,
                "origin" => answer::of_origin(&forgery.origin),
                "control" => forgery.succeeded,
            }))
        })
    })?;
    out.write_all(b"\n")
}
