//! The subcommands, one file each.

#[cfg(feature = "gateway")]
pub mod chat;
mod check;
mod completions;
mod decode;
mod diff;
mod encode;
mod explain;
mod formats;
mod grammar;
#[cfg(feature = "gateway")]
pub mod interpreter;
#[cfg(not(feature = "gateway"))]
mod not_built;
mod parse;
mod render;
mod rollout;
mod roundtrip;
#[cfg(feature = "gateway")]
mod serve;
mod session;
mod stability;
mod template;
mod tokenizer;

#[cfg(not(feature = "gateway"))]
use {not_built as serve, not_built as chat, not_built as interpreter};

use std::path::Path;

use rolecall::account::{LeafKind, Remedy};
use rolecall::conversation::Place as Field;
use rolecall::encode::Note;
use rolecall::loss::{Loss, note_code, note_message, note_text};
use rolecall::model::ModelPrompt;
use rolecall::training::{TruncationReport, truncation_notes};

use crate::args::{Chat, Verb};
use crate::diagnostic::{Diagnostic, Severity};
use crate::exit::Exit;
use crate::failure::{Failure, place_in_input};
use crate::files;
use crate::flags;
use crate::output::Output;
use crate::refusal::AS_WANTED;
use crate::source::Source;

pub fn run(verb: &Verb, output: &Output) -> Result<Exit, Failure> {
    match verb {
        Verb::Render(args) => render::run(args, output),
        Verb::Encode(args) => encode::run(args, output),
        Verb::Decode(args) => decode::run(args, output),
        Verb::Parse(args) => parse::run(args, output),
        Verb::Roundtrip(args) => roundtrip::run(args, output),
        Verb::Session(args) => session::run(args, output),
        Verb::Rollout(args) => rollout::run(args, output),
        Verb::Stability(args) => stability::run(args, output),
        Verb::Grammar(args) => grammar::run(args, output),
        Verb::Explain(args) => explain::run(args, output),
        Verb::Formats(args) => formats::run(args, output),
        Verb::Diff(args) => diff::run(args, output),
        Verb::Check(args) => check::run(args, output),
        Verb::Template(args) => template::run(args, output),
        Verb::Tokenizer(args) => tokenizer::run(args, output),
        Verb::Serve(args) => serve::run(args, output),
        Verb::Chat(args) => chat::run(args, output),
        Verb::Interpreter(args) => interpreter::run(args, output),
        Verb::Completions(args) => completions::run(args, output),
    }
}

/// Reads the only conversation of a run.
fn read_input(chat: &Chat) -> Result<Source, Failure> {
    match chat.inputs.as_slice() {
        [] => files::read_text(Path::new("-")),
        [one] => files::read_text(one),
        several => Err(Failure::SeveralFiles(several.len())),
    }
}

/// Warns about options with unusual values and about parts of the conversation that are not in the
/// prompt. Of each kind, it shows the first and the count.
fn warn_of_dropped(prompt: &ModelPrompt, source: &Source, output: &Output) {
    for unusual in &prompt.prompt().unusual {
        let usual: Vec<String> = unusual.usual.iter().map(|value| format!("`{value}`")).collect();
        output.show(&Diagnostic {
            severity: Severity::Warning,
            code: "unusual_option",
            message: format!("`{}` is an unusual value for the option `{}`", unusual.value, unusual.option),
            place: crate::diagnostic::DiagnosticPlace::Named(format!("option {}", unusual.option)),
            help: vec![format!("usual values are {}", usual.join(", "))],
        });
    }
    for group in prompt.account().groups() {
        let is_loss = group.kind.is_loss();
        output.show(&Diagnostic {
            severity: if is_loss { Severity::Warning } else { Severity::Note },
            code: if is_loss { group.kind.name() } else { LeafKind::LeftOut.name() },
            message: group.to_string(),
            place: place_in_input(source, &group.first.place),
            help: (group.remedy == Some(Remedy::FormsAsWanted)).then(|| AS_WANTED.to_owned()).into_iter().collect(),
        });
    }
}

/// Warns about possible problems at the ends of a prompt's ids.
fn warn_of_ends(notes: &[Note], output: &Output) {
    for note in notes {
        output.show(&Diagnostic {
            severity: Severity::Warning,
            code: note.code(),
            message: note.to_string(),
            place: match note {
                Note::WrongType { .. } => crate::diagnostic::DiagnosticPlace::Nowhere,
                _ => crate::diagnostic::DiagnosticPlace::Named("the prompt's first token".into()),
            },
            help: flags::in_flags(vec![note.help().into()], note.code()),
        });
    }
}

/// Warns about the loss of a conversation. Of each kind, it shows the first and the count.
fn warn_of_loss(loss: Option<&Loss>, source: &Source, output: &Output) {
    let notes = loss.map_or(&[][..], |loss| loss.notes.as_slice());
    for (at, note) in notes.iter().enumerate() {
        let code = note_code(note);
        if notes[..at].iter().any(|before| note_code(before) == code) {
            continue;
        }
        let more = notes[at..].iter().filter(|note| note_code(note) == code).count() - 1;
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        output.show(&Diagnostic {
            severity: Severity::Warning,
            code,
            message: format!("{}{more}", note_text(note)),
            place: match note_message(note) {
                Some(message) => place_in_input(source, &Field::message(message, "")),
                None => crate::diagnostic::DiagnosticPlace::Named(source.name.clone()),
            },
            help: flags::in_flags(Vec::new(), code),
        });
    }
}

/// Warns about what truncation removed.
fn warn_of_truncation(truncated: Option<&TruncationReport>, source: &Source, output: &Output) {
    for (code, message) in truncated.iter().flat_map(|truncated| truncation_notes(truncated)) {
        output.show(&Diagnostic {
            severity: Severity::Warning,
            code,
            message,
            place: crate::diagnostic::DiagnosticPlace::Named(source.name.clone()),
            help: Vec::new(),
        });
    }
}

/// Warns that control tokens can be forged.
fn warn_of_reference(output: &Output) {
    output.show(&Diagnostic {
        severity: Severity::Warning,
        code: "reference_encoding",
        message:
            "encoding as the reference does: text that spells a control token becomes that token, even in messages"
                .into(),
        place: crate::diagnostic::DiagnosticPlace::Named("command line, --reference-encoding".into()),
        help: vec!["omit it if messages come from users".into()],
    });
}
