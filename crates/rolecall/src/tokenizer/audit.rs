//! Auditing a tokenizer together with the chat templates that it is used with.

use rolecall_encode::audit::{Audit, Finding, FindingKind, audit};
use rolecall_format::Control;
use rolecall_tokenizer::Tokenizer;

use crate::template::{BosUse, ChatTemplate, ModelTemplates, TemplateOptions, analyze_template};

/// Audits a tokenizer: its dangers, how it treats the control tokens of a format, and whether it
/// suits chat templates.
pub fn audit_with(tokenizer: &dyn Tokenizer, controls: &[Control], templates: &ModelTemplates) -> Audit {
    // Templates with errors are reported where they render.
    let compiled = templates.templates.iter().map(|named| named.compile(&templates.tokens));
    let compiled: Vec<ChatTemplate> = compiled.flatten().collect();
    let mut audit = audit(tokenizer, controls, &compiled);
    if let Some(id) = tokenizer.adds_bos()
        && !audit.findings.iter().any(|finding| finding.kind == FindingKind::DoubleBos)
        && writes_bos(&compiled)
    {
        let text = tokenizer.token_text(id).unwrap_or_default();
        let message = format!("the chat template begins the prompt with `{text}`, and the tokenizer adds it as well");
        let place = audit.findings.partition_point(|finding| finding.kind < FindingKind::DoubleBos);
        audit.findings.insert(place, Finding { kind: FindingKind::DoubleBos, message, tokens: vec![(text, Some(id))] });
    }
    audit
}

/// Reports whether a template writes the token that opens a text.
fn writes_bos(templates: &[ChatTemplate]) -> bool {
    templates.iter().any(|template| {
        let analysis = analyze_template(template, &TemplateOptions::default());
        analysis.is_ok_and(|analysis| matches!(analysis.bos, BosUse::Written))
    })
}
