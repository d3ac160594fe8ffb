//! Templates made from real ones by changing their statements, and checks of what is inferred from them.
//!
//! The input is templates and seeds. The output is a [`Summary`] with each law that a template breaks.
//! `tree` reads the statements of a template and writes them again, `change` deletes, doubles, swaps and
//! nests them, and `laws` infers the layouts of the result and holds them against what it writes.
//!
//! Start reading at [`check`].

mod change;
mod laws;
mod run;
mod tree;

pub use change::changed;
pub use laws::{LawOutcome, Violation, check};
pub use run::{Failure, Origin, Summary, run};
pub use tree::Tree;

use crate::{Fixture, FolderTemplates};

/// Returns the templates of a folder that are changed.
pub fn of_folder(templates: &FolderTemplates) -> Vec<Origin> {
    let each = templates.compiled.iter();
    each.filter_map(|(label, template)| Origin::new(label, template.source(), template.tokens())).collect()
}

/// Returns the templates of the cases of inference, which need no other files.
pub fn of_cases() -> Vec<Origin> {
    let tokens = [("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
    let cases = Fixture::of_folder("inference");
    let origin = |case: &Fixture| {
        let label = case.path.file_stem().unwrap_or_default().to_string_lossy();
        Origin::new(&label, case.section("template")?, &tokens)
    };
    cases.iter().filter_map(origin).collect()
}
