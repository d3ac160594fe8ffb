//! Reads `[identity]`.

use std::ops::Range;

use super::table::Table;
use crate::{Diagnostic, Identity};

const KEYS: [&str; 4] = ["template", "without", "tokens", "architectures"];

pub(super) fn read_identity(table: Table<'_>, mistakes: &mut Vec<Diagnostic>) -> Identity {
    let span = table.span();
    let texts = |key: &str, mistakes: &mut Vec<Diagnostic>| {
        let texts = table.texts_with_spans(key, mistakes);
        mistakes.extend(texts.iter().filter(|(text, _)| text.is_empty()).map(|(_, span)| empty(key, span.clone())));
        texts
    };
    let [template, without, tokens, architectures] = KEYS.map(|key| texts(key, mistakes));
    if !without.is_empty() && template.is_empty() {
        mistakes.push(Diagnostic {
            code: "useless_key",
            message: "`without` says what a chat template lacks, and there is no `template` that says what it has"
                .into(),
            span: table.key_span("without"),
            help: Some("add `template = [\"..\"]`: texts that all stand in the model's chat template".into()),
        });
    }
    for (text, span) in without.iter().filter(|(text, _)| !text.is_empty()) {
        if let Some((has, _)) = template.iter().find(|(has, _)| has.contains(text)) {
            mistakes.push(Diagnostic {
                code: "never_fits",
                message: format!("no chat template has `{has}` and lacks `{text}`"),
                span: span.clone(),
                help: Some("take it out of `without`, or out of `template`".into()),
            });
        }
    }
    if template.is_empty() && tokens.is_empty() && architectures.is_empty() && without.is_empty() {
        mistakes.push(Diagnostic {
            code: "empty_table",
            message: "`[identity]` says nothing by which a model could be recognised".into(),
            span,
            help: Some("give `template`, `tokens` or `architectures`, or leave the table out".into()),
        });
    }
    table.finish(&KEYS, mistakes);
    let [template, without, tokens, architectures] =
        [template, without, tokens, architectures].map(|texts| texts.into_iter().map(|(text, _)| text).collect());
    Identity { template, without, tokens, architectures }
}

fn empty(key: &str, span: Range<usize>) -> Diagnostic {
    Diagnostic {
        code: "empty_text",
        message: format!("expected a text in `{key}`, found an empty one, which stands everywhere"),
        span,
        help: Some("take it out".into()),
    }
}
