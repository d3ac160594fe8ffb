use std::io;

use crate::answer;
use crate::answer::StreamedAnswer;
use crate::conversation::Json;
use crate::encode::EncodedToken;
use crate::model::explain::{ControlSpelling, of_spelled, of_token};

use super::forgery::Forgery;
use super::view::View;

/// Writes the library's answer with `"tokens"`, and `"spelled"` where the conversation spells
/// control tokens.
pub fn write(id: Option<&Json>, view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let explained = view.explained;
    let prompt = explained.prompt;
    let each;
    let mut streamed =
        StreamedAnswer { id, prompt, tokens: None, notes: explained.notes, loss: explained.loss, truncated: None };
    if let Some(tokens) = explained.tokens {
        each = move || Box::new(tokens.iter()) as Box<dyn Iterator<Item = EncodedToken>>;
        streamed.tokens = Some(&each);
    }
    answer::stream(out, &streamed, |stream| {
        if let Some(tokens) = explained.tokens {
            stream
                .list("tokens", tokens.iter(), |stream, token| stream.value(&Json::Object(of_token(prompt, &token))))?;
        }
        let mut forgeries = view.forgeries().peekable();
        if forgeries.peek().is_none() {
            return Ok(());
        }
        stream.list("spelled", forgeries, |stream, forgery| {
            let Forgery { span, origin, token, succeeded } = forgery;
            stream.value(&of_spelled(&ControlSpelling { token: token.to_owned(), span, origin, is_control: succeeded }))
        })
    })?;
    out.write_all(b"\n")
}
