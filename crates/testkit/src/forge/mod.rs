//! Tries to forge control tokens, and checks that honest texts get the reference's ids. Every text
//! of a conversation attacks, through every format and template, with every tokenizer that fits.
//!
//! The input is a number of conversations, a seed and folders. The output is a [`Summary`] and the
//! failures, each reduced to a small one. `plan` makes the subjects. `talk` (or `generate`) makes a
//! conversation with a number in place of each text. `attack` makes the hostile texts and `twin`
//! the honest texts of the same shape. `property` compares the results of the two, and `shrink`
//! reduces a failure. A seed makes the same conversations on any number of threads.
//!
//! Start reading at [`run`]; [`explain`] reduces a failure.

mod attack;
mod draft;
mod marks;
mod plan;
mod property;
mod shrink;
mod small;
mod subject;
mod summary;
mod talk;
mod twin;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::batches::Batches;

pub use crate::batches::BATCH;
pub use marks::Marks;
pub(crate) use marks::spelled_in;
pub(crate) use plan::is_token;
pub use plan::{Plan, Templates, Tokenizers};
pub use property::{Outcome, check};
pub use small::{small_templates, small_tokenizer_files, small_tokenizers};
pub use subject::{Subject, Voice};
pub use summary::{Failure, Summary};

/// How many forms of a conversation are tried; each form is simpler than the one before, which was
/// refused.
const TRIES: u32 = 3;

/// Tries `count` conversations, spread over the subjects, on `threads` threads, and reports to
/// `progress` how many are done.
pub fn run(
    subjects: &[Subject],
    count: usize,
    seed: u64,
    threads: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Summary {
    let (batches, done) = (Batches::new(count), AtomicUsize::new(0));
    let total = Mutex::new(Summary::default());
    let work = || {
        let mut summary = Summary::default();
        while let Some(batch) = batches.take() {
            let size = batch.len();
            for number in batch {
                // Take the subjects in turn, so that each gets the same number of conversations.
                let subject = &subjects[number % subjects.len()];
                try_one(subject, seed.wrapping_add(number as u64), &mut summary);
            }
            progress(done.fetch_add(size, Ordering::Relaxed) + size);
        }
        // If a thread panicked, the run has failed anyway.
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(summary);
    };
    if !subjects.is_empty() {
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
    }
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tries one conversation, in simpler forms while it is refused.
fn try_one(subject: &Subject, seed: u64, summary: &mut Summary) {
    summary.conversations += 1;
    for simplicity in 0..TRIES {
        let draft = subject.draft(seed, simplicity);
        match check(subject, &draft) {
            Outcome::Refused(why) => summary.refuse(&why),
            Outcome::OneRefused(why) => {
                summary.one_refused += 1;
                summary.refuse(&why);
            }
            Outcome::Compared(compared) => return summary.add(&subject.label, &compared),
            Outcome::Failed(_) => {
                let failure = Failure { subject: subject.label.clone(), seed, simplicity };
                return summary.fail(failure);
            }
        }
    }
    summary.never_rendered += 1;
}

/// Reduces a failing conversation, and describes the failure and the request.
pub fn explain(subjects: &[Subject], failure: &Failure) -> String {
    let Some(subject) = subjects.iter().find(|subject| subject.label == failure.subject) else {
        return "no such subject".to_owned();
    };
    let small = shrink::shrink(subject, &subject.draft(failure.seed, failure.simplicity));
    let why = match check(subject, &small) {
        Outcome::Failed(why) => why,
        other => format!("{other:?} after reduction"),
    };
    format!("{why}\n  request: {}", small.shown())
}
