//! Draws the audit of a tokenizer.

use rolecall::encode::Reason;
use rolecall::tokenizer::{AddedToken, ControlFit, Finding, Fit, Level};

use super::AuditReport;
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::explain::counted;
use crate::paint::{Paint, Style};
use crate::table::{self, Cell};
use crate::visible;

/// The number of tokens shown per finding without `--all`.
const SHOWN: usize = 8;

pub fn draw(audited: &AuditReport, all: bool, paint: Paint) -> String {
    let file = &audited.file;
    let name = paint.text(Style::Strong, &visible::escape(&file.path.display().to_string()));
    let mut out = format!("{name}  {}\n", file.kind.name());
    table::push_headed(&mut out, paint, "tokenizer", facts(audited));
    let (bytes, added): (Vec<&AddedToken>, Vec<_>) =
        audited.tokenizer.added_tokens().iter().partition(|token| !all && is_name_of_byte(&token.text));
    let most = if all { added.len() } else { 4 * SHOWN };
    let mut rows: Vec<Vec<Cell>> = added.iter().take(most).map(|token| of_added(token)).collect();
    if let ([first, ..], [.., last]) = (bytes.as_slice(), bytes.as_slice()) {
        let names = format!("{} .. {}", first.text, last.text);
        rows.push(vec![(Style::Control, names), plain(format!("{} .. {}", first.id, last.id)), plain("bytes".into())]);
    }
    if added.len() > most {
        rows.push(vec![plain(format!("and {} more", added.len() - most)), plain("use --all to list them".into())]);
    }
    match &audited.protected {
        None => table::push_headed(&mut out, paint, "tokens that text is never encoded to", rows),
        Some(protected) => {
            let rows = protected.tokens().map(|token| {
                let reasons: Vec<String> = token.reasons.iter().map(Reason::to_string).collect();
                vec![(Style::Control, token.text.clone()), plain(token.id.to_string()), plain(reasons.join(", "))]
            });
            table::push_headed(&mut out, paint, "tokens that text is never encoded to", rows.collect());
        }
    }
    if let Some(format) = &audited.format {
        let rows = audited.audit.controls.iter().map(of_control).collect();
        table::push_headed(&mut out, paint, &format!("control tokens of {format}"), rows);
    }
    if !audited.audit.findings.is_empty() {
        out.push_str(&format!("\n{}\n", paint.text(Style::Strong, "findings")));
    }
    for finding in &audited.audit.findings {
        let severity = match finding.kind.level() {
            Level::Error => Severity::Error,
            Level::Warning => Severity::Warning,
            Level::Note => Severity::Note,
        };
        let diagnostic = Diagnostic {
            severity,
            code: finding.kind.code(),
            message: finding.message.clone(),
            place: tokens_of(finding, all).map_or(DiagnosticPlace::Nowhere, DiagnosticPlace::Named),
            help: vec![finding.kind.help().to_owned()],
        };
        out.push_str(&format!("\n{}", diagnostic.draw(paint)));
    }
    out
}

fn facts(audited: &AuditReport) -> Vec<Vec<Cell>> {
    let tokenizer = &*audited.tokenizer;
    let token = |id: Option<u32>| match id {
        None => "nothing".to_owned(),
        Some(id) => match tokenizer.token_text(id) {
            Some(text) => format!("{text} ({id})"),
            None => format!("id {id}, which is not a token"),
        },
    };
    let row = |name: &str, value: String| vec![plain(name.into()), plain(value)];
    vec![
        row("algorithm", tokenizer.kind().to_string()),
        row("engine", tokenizer.engine().to_string()),
        row("size", counted(tokenizer.vocabulary_size(), "token")),
        row("adds before a text", token(tokenizer.adds_bos())),
        row("adds after a text", token(tokenizer.adds_eos())),
    ]
}

fn of_added(token: &AddedToken) -> Vec<Cell> {
    let flags = [
        (!token.special, "not special"),
        (token.normalized, "normalized"),
        (token.lstrip, "absorbs space before"),
        (token.rstrip, "absorbs space after"),
        (token.single_word, "single word"),
    ];
    let flags: Vec<&str> = flags.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    vec![(Style::Control, token.text.clone()), plain(token.id.to_string()), plain(flags.join(", "))]
}

fn of_control(control: &ControlFit) -> Vec<Cell> {
    let (id, about) = match &control.fit {
        Fit::Single { id, spelled: None } => (id.to_string(), "one token".to_owned()),
        Fit::Single { id, spelled: Some(text) } => (id.to_string(), format!("one token, spelled {text}")),
        Fit::Appended { id } => (id.to_string(), "appended to the file's vocabulary".to_owned()),
        Fit::OtherId { expected, found } => (found.to_string(), format!("different id: the format expects {expected}")),
        Fit::Missing { id, instead } => {
            let instead = instead.as_ref().map(|text| format!(": id {} is {text}", id.unwrap_or_default()));
            ("-".to_owned(), format!("missing{}", instead.unwrap_or_default()))
        }
        _ => (String::new(), String::new()),
    };
    let written = if control.emitted { "" } else { "never written" };
    vec![(Style::Control, control.text.clone()), plain(id), plain(about), plain(written.into())]
}

/// Returns the tokens of a finding, or `None` if its message already names the only one.
fn tokens_of(finding: &Finding, all: bool) -> Option<String> {
    if finding.tokens.len() < 2 {
        return None;
    }
    let shown = if all { finding.tokens.len() } else { SHOWN };
    let mut names: Vec<&str> = finding.tokens.iter().take(shown).map(|(text, _)| text.as_str()).collect();
    if finding.tokens.len() > shown {
        names.push("…");
    }
    Some(names.join("  "))
}

/// Reports whether a token's text is the name of a byte, such as `<0x0A>`.
fn is_name_of_byte(text: &str) -> bool {
    text.len() == 6 && text.starts_with("<0x") && text.ends_with('>')
}

fn plain(text: String) -> Cell {
    (Style::Plain, text)
}
