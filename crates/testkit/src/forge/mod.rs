//! Whether anybody can forge a control token: conversations whose every text attacks, through every format and template, with
//! every tokenizer that fits; and whether honest texts get the reference's ids.
//! In: how many conversations, a seed, folders. Out: a [`Summary`], and each failure as small as it gets.
//! Between: `plan` makes the subjects, `talk` (or `generate`) a conversation with a number in place of each text, `attack` the
//! hostile texts and `twin` the honest ones of their shape, `property` compares what came of the two, `shrink` makes a failure small.
//! The same seed makes the same conversations, whatever the number of threads.
//! Start reading at [`run`]; [`explain`] makes a failure small.

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

pub use marks::Marks;
pub use plan::{Plan, Templates, Tokenizers};
pub use property::{Outcome, check};
pub use small::{small_templates, small_tokenizer_files, small_tokenizers};
pub use subject::{Subject, Voice};
pub use summary::{Failure, Summary};

/// How often a conversation that is refused is tried again in a simpler form.
const TRIES: u32 = 3;
/// Conversations that a thread takes at a time.
pub const BATCH: usize = 64;

/// Tries so many conversations, spread over the subjects, on so many threads; `progress` is told how many are done.
pub fn run(
    subjects: &[Subject],
    count: usize,
    seed: u64,
    threads: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Summary {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let total = Mutex::new(Summary::default());
    let work = || {
        let mut summary = Summary::default();
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= count {
                break;
            }
            let batch = first..(first + BATCH).min(count);
            let size = batch.len();
            for number in batch {
                // Subjects come in turns, so that each gets as many as any other.
                let subject = &subjects[number % subjects.len()];
                try_one(subject, seed.wrapping_add(number as u64), &mut summary);
            }
            progress(done.fetch_add(size, Ordering::Relaxed) + size);
        }
        // A thread that panicked has ended the run anyway.
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

/// One conversation, in simpler forms while it is refused.
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

/// A failing conversation, made small: what is wrong, and the request.
pub fn explain(subjects: &[Subject], failure: &Failure) -> String {
    let Some(subject) = subjects.iter().find(|subject| subject.label == failure.subject) else {
        return "no such subject".to_owned();
    };
    let small = shrink::shrink(subject, &subject.draft(failure.seed, failure.simplicity));
    let why = match check(subject, &small) {
        Outcome::Failed(why) => why,
        other => format!("{other:?}, once it was made smaller"),
    };
    format!("{why}\n  request: {}", small.shown())
}
