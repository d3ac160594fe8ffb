//! Auditing a tokenizer together with the chat templates that it is used with.

use rolecall_encode::audit::{Audit, Finding, FindingKind, audit};
use rolecall_format::Control;
use rolecall_tokenizer::Tokenizer;

use crate::template::{BosUse, ChatTemplate, ModelTemplates, TemplateOptions, analyze_template};

/// Audits a tokenizer: its dangers, how it treats the control tokens of a format, and whether it
/// suits chat templates.
pub fn audit_with(tokenizer: &dyn Tokenizer, controls: &[Control], templates: &ModelTemplates) -> Audit {
    let sources: Vec<&str> = templates.templates.iter().map(|named| named.source.as_str()).collect();
    let source = sources.join("\n");
    let mut audit = audit(tokenizer, controls, Some(source.as_str()).filter(|_| !sources.is_empty()));
    if let Some(id) = tokenizer.adds_bos()
        && !audit.findings.iter().any(|finding| finding.kind == FindingKind::DoubleBos)
        && writes_bos(templates)
    {
        let text = tokenizer.token_text(id).unwrap_or_default();
        let message = format!("the chat template begins the prompt with `{text}`, and the tokenizer adds it as well");
        let place = audit.findings.partition_point(|finding| finding.kind < FindingKind::DoubleBos);
        audit.findings.insert(place, Finding { kind: FindingKind::DoubleBos, message, tokens: vec![(text, Some(id))] });
    }
    audit
}

/// Reports whether a template writes the token that opens a text. Templates with errors do not.
fn writes_bos(templates: &ModelTemplates) -> bool {
    templates.templates.iter().any(|named| {
        let compiled = ChatTemplate::compile(&named.source, templates.tokens.clone());
        let analysis = compiled.and_then(|template| analyze_template(&template, &TemplateOptions::default()));
        analysis.is_ok_and(|analysis| matches!(analysis.bos, BosUse::Written))
    })
}
