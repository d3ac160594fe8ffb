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

use fields::{Fields, FrameworkFile};
use framework::Importer;
use python::NamedLiteral;

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
        true => import_python(text, name, None),
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
///
/// A file may have several, each assigned to a name or under a key of a dictionary, and other statements, which are
/// skipped. Then `wanted` is the name of one.
pub fn import_python(text: &str, name: &str, wanted: Option<&str>) -> Result<Format, LoadError> {
    let chosen = choose(python::read(text)?, wanted)?;
    let literal = chosen.read?;
    let mut format = import_json(&literal.json, name).map_err(|error| literal.placed(error))?;
    if let Some(title) = chosen.name.filter(|_| format.title == name) {
        format.title.clone_from(&title);
        if let Some(training) = &mut format.training {
            Arc::make_mut(training).title = title;
        }
    }
    Ok(format)
}

/// The most names that an error lists.
const MOST_NAMES: usize = 20;

/// Returns the literal of a name, or the only one that is a template.
fn choose<'t>(mut literals: Vec<NamedLiteral<'t>>, wanted: Option<&str>) -> Result<NamedLiteral<'t>, LoadError> {
    let is_template = |literal: &NamedLiteral<'_>| match &literal.read {
        Ok(literal) => FrameworkFile::parse(&literal.json).is_ok_and(|file| importer_of(&file.fields()).is_some()),
        // What it is cannot be said.
        Err(_) => true,
    };
    let templates: Vec<usize> = (0..literals.len()).filter(|at| is_template(&literals[*at])).collect();
    let is_wanted = |at: &usize| wanted.is_some() && literals[*at].name.as_deref() == wanted;
    let of_name: Vec<usize> = (0..literals.len()).filter(is_wanted).collect();
    if let [_, second, ..] = of_name[..] {
        let message = format!("several templates are named `{}`", wanted.unwrap_or_default());
        return Err(python::mistake("several_templates", message, literals[second].span.clone(), "rename one of them"));
    }
    let at = match (wanted, templates.as_slice()) {
        (Some(_), _) => of_name.first().copied(),
        // The error says what is missing.
        (None, []) => Some(0),
        (None, [only]) => Some(*only),
        (None, _) => None,
    };
    let Some(at) = at else {
        let mut names: Vec<String> = Vec::new();
        for name in templates.iter().filter_map(|at| literals[*at].name.as_deref()).map(|name| format!("`{name}`")) {
            if names.len() <= MOST_NAMES && !names.contains(&name) {
                names.push(if names.len() == MOST_NAMES { "..".to_owned() } else { name });
            }
        }
        let names = names.join(", ");
        let second = templates.get(1).or(templates.first()).map_or(0..0, |at| literals[*at].span.clone());
        return Err(match wanted {
            Some(wanted) => {
                let help = if names.is_empty() { "it has no name".to_owned() } else { format!("use one of {names}") };
                let mut error =
                    python::mistake("unknown_template", format!("there is no template `{wanted}`"), 0..0, &help);
                // It may be in a dictionary that cannot be read.
                let unread = literals.iter().find_map(|literal| literal.read.as_ref().err());
                error.diagnostics.extend(unread.into_iter().flat_map(|unread| unread.diagnostics.clone()));
                error
            }
            None => {
                let help = format!("name one of {names} after the file's name, as in `FILE.py:NAME`");
                let message = format!("expected one template, found {}", templates.len());
                python::mistake("several_templates", message, second, &help)
            }
        });
    };
    Ok(literals.swap_remove(at))
}

fn import_json(text: &str, name: &str) -> Result<Format, LoadError> {
    let file = FrameworkFile::parse(text)?;
    let fields = file.fields();
    let Some(importer) = importer_of(&fields) else { return Err(unknown_shape(fields.start())) };
    let mut format = (importer.import)(text, name)?;
    if format.title.is_empty() {
        format.title = name.to_owned();
    }
    if let Some(training) = &mut format.training {
        Arc::make_mut(training).title.clone_from(&format.title);
    }
    Ok(format)
}

/// Returns what imports a template with these fields.
fn importer_of(fields: &Fields<'_, '_>) -> Option<&'static Importer> {
    // LMFlow and LMDeploy share field names. LMFlow comes first: its fields hold lists, which tell
    // the two apart.
    let mut importers = FRAMEWORKS.iter().rev().filter_map(|framework| framework.importer.as_ref());
    importers.find(|importer| (importer.is_template)(fields))
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
