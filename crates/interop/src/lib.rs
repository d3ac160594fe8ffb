//! Imports chat templates of other frameworks as [`Format`]s.
//!
//! Each framework has one module, which reads its template files. The templates that a framework
//! ships are in `formats/`, in the same file formats. No other library crate depends on these
//! frameworks.
//!
//! Start reading at [`import`].

mod about;
mod braces;
mod fields;
mod files;
mod framework;
mod frameworks;
mod models;
mod own;
mod path_rules;
mod python;
mod tokens;

use std::sync::Arc;

use rolecall_format::{Diagnostic, Format, LoadError};

pub use framework::{Dialect, Framework};
pub use frameworks::{FRAMEWORKS, dialects, formats, lmdeploy, lmflow, register, xtuner};
pub use models::{ModelRow, ModelTable};

use fields::FrameworkFile;

/// Imports a user's template: XTuner's six fields, LMDeploy's chat template or LMFlow's components.
/// The format gets this name if the file has none.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{Options, Writer};
///
/// let text = r#"{"INSTRUCTION": "Q: {input}\nA:", "SEP": "\n"}"#;
/// let format = rolecall_interop::import(text, "mine")?;
/// let writer = Writer::format(format, Options::default());
/// let prompt = writer.render(&Conversation::new(vec![Message::user("{input}?")])).unwrap();
/// assert_eq!(prompt.text(), "<s>Q: {input}?\nA:");
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
///
/// XTuner's fields may also be a Python literal, as in XTuner's documentation.
///
/// ```
/// let format = rolecall_interop::import("mine = dict(INSTRUCTION='Q: {input}\\nA:', SEP='\\n')", "mine")?;
/// assert_eq!(format.title, "mine");
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
pub fn import(text: &str, name: &str) -> Result<Format, LoadError> {
    match python::is_literal(text) {
        true => import_python(text, name),
        false => import_json(text, name),
    }
}

/// Reports whether a text is a Python literal: a call of `dict`, or braces whose first key is in
/// single quotes. No other supported kind of file starts like this.
pub fn is_python(text: &str) -> bool {
    python::is_literal(text)
}

/// Imports a template that is a Python literal, such as `dict(INSTRUCTION='{input}')`. The literal
/// is parsed and never evaluated.
pub fn import_python(text: &str, name: &str) -> Result<Format, LoadError> {
    let literal = python::read(text)?;
    let mut format = import_json(&literal.json, name).map_err(|error| literal.placed(error))?;
    if let Some(title) = literal.name.filter(|_| format.title == name) {
        format.title = title.to_owned();
        if let Some(training) = &mut format.training {
            Arc::make_mut(training).title = title.to_owned();
        }
    }
    Ok(format)
}

fn import_json(text: &str, name: &str) -> Result<Format, LoadError> {
    let file = FrameworkFile::parse(text)?;
    let fields = file.fields();
    // LMFlow and LMDeploy share field names. LMFlow comes first: its fields hold lists, which tell
    // the two apart.
    let mut importers = FRAMEWORKS.iter().rev().filter_map(|framework| framework.importer.as_ref());
    let Some(importer) = importers.find(|importer| (importer.is_template)(&fields)) else {
        return Err(unknown_shape(fields.start()));
    };
    let mut format = (importer.import)(text, name)?;
    if format.title.is_empty() {
        format.title = name.to_owned();
    }
    if let Some(training) = &mut format.training {
        Arc::make_mut(training).title.clone_from(&format.title);
    }
    Ok(format)
}

fn unknown_shape(span: std::ops::Range<usize>) -> LoadError {
    let signs: Vec<&str> = FRAMEWORKS.iter().filter_map(|framework| Some(framework.importer.as_ref()?.sign)).collect();
    LoadError {
        diagnostics: vec![Diagnostic {
            code: "unknown_shape",
            message: "these fields match no known framework's template".into(),
            span,
            help: Some(format!("add one of these fields: {}", signs.join(", "))),
        }],
    }
}

/// Returns XTuner's table of models.
pub fn xtuner_models() -> &'static ModelTable {
    &xtuner::XTUNER_MODELS
}

/// Returns the name and text of each data file of a framework: its templates in the framework's own
/// file format, and facts about them in `about.json` or `registry.json`.
///
/// ```
/// let files: Vec<&str> = rolecall_interop::framework_files("xtuner").map(|(name, _)| name).collect();
/// assert!(files.contains(&"about.json") && files.contains(&"vicuna.json"));
/// ```
pub fn framework_files(framework: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    files::all(framework)
}
