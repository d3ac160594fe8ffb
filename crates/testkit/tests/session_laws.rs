//! Laws of sessions, over every built-in format, templates of our own, and every real template.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod canonical;
mod chains;
mod difference;
mod line;
mod names;
mod own;
mod random;
mod replies;

use rolecall_testkit::sessions::{Subject, Vocabulary};

/// Returns our own templates, and the real ones if they are there.
fn templates(vocabulary: &Vocabulary) -> Vec<Subject> {
    let mut subjects = own::subjects(vocabulary);
    match rolecall_testkit::shared() {
        Some(shared) => subjects.extend(Subject::of_folder(&shared.join("templates"), vocabulary).0),
        None => rolecall_testkit::say_skipped("only our own templates are played"),
    }
    subjects
}

/// Returns a vocabulary that joins bytes: that of a real tokenizer, if it is there.
fn vocabulary() -> Vocabulary {
    match rolecall_testkit::shared() {
        Some(shared) => Vocabulary::real(&shared),
        None => {
            rolecall_testkit::say_skipped("sessions are played with a small vocabulary only");
            Vocabulary::small()
        }
    }
}

/// Whether a template comes from `../shared`. Without these there are fewer cases.
fn is_real(subject: &Subject) -> bool {
    subject.source.is_some() && !subject.name.starts_with("own: ")
}
