//! Audits a tokenizer before prompts are encoded with it: how it treats a format's control tokens,
//! and which of its properties are dangerous.
//!
//! The audit probes the tokenizer by encoding texts that a prompt could contain, so it works for
//! every kind of file.

mod controls;
mod finding;
mod probes;

pub use controls::{ControlFit, Fit};
pub use finding::{Finding, FindingKind, Level};

use rolecall_format::Control;
use rolecall_render::ChatTemplate;

use rolecall_tokenizer::Tokenizer;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How the tokenizer treats each control token of the format; empty without a format.
    pub controls: Vec<ControlFit>,
    /// The findings, most severe first.
    pub findings: Vec<Finding>,
}

/// Audits a tokenizer, given the control tokens of the format or the chat templates that it will be
/// used with.
///
/// ```
/// use rolecall_encode::audit::{FindingKind, audit};
/// use rolecall_tokenizer::HuggingFace;
/// let json = br#"{
///   "added_tokens": [{"id": 3, "content": "<a>", "special": true,
///                     "normalized": false, "lstrip": false, "rstrip": true, "single_word": false}],
///   "model": {"type": "BPE", "vocab": {"<": 0, "a": 1, ">": 2}, "merges": []}
/// }"#;
/// let audit = audit(&HuggingFace::from_bytes(json, None)?, &[], &[]);
/// assert_eq!(audit.findings[0].kind, FindingKind::TakesSpace);
/// # Ok::<(), rolecall_tokenizer::Error>(())
/// ```
pub fn audit(tokenizer: &dyn Tokenizer, controls: &[Control], templates: &[ChatTemplate]) -> Audit {
    let fits: Vec<ControlFit> = controls.iter().map(|control| controls::fit(control, tokenizer)).collect();
    let mut findings = Vec::new();
    controls::find(&fits, controls, tokenizer, &mut findings);
    probes::find_in_added(tokenizer, &mut findings);
    probes::find_in_vocabulary(tokenizer, &mut findings);
    probes::find_in_templates(templates, tokenizer, &mut findings);
    findings.sort_by_key(|finding| (finding.kind.level(), finding.kind));
    Audit { controls: fits, findings }
}
