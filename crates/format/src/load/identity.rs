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
            message: "`without` needs `template`, which is missing".into(),
            span: table.key_span("without"),
            help: Some("add `template = [\"..\"]` with texts that the model's chat template contains".into()),
        });
    }
    for (text, span) in without.iter().filter(|(text, _)| !text.is_empty()) {
        if let Some((has, _)) = template.iter().find(|(has, _)| has.contains(text)) {
            mistakes.push(Diagnostic {
                code: "never_fits",
                message: format!("no chat template can contain `{has}` without `{text}`"),
                span: span.clone(),
                help: Some("remove the text from `without` or from `template`".into()),
            });
        }
    }
    if template.is_empty() && tokens.is_empty() && architectures.is_empty() && without.is_empty() {
        mistakes.push(Diagnostic {
            code: "empty_table",
            message: "`[identity]` has nothing that identifies a model".into(),
            span,
            help: Some("add `template`, `tokens` or `architectures`, or remove the table".into()),
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
        message: format!("expected a text in `{key}`, found an empty one, which every text contains"),
        span,
        help: Some("remove it".into()),
    }
}
