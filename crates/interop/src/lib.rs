//! In: other frameworks' chat templates, in the shapes that they keep them in. Out: [`Format`]s.
//! Between: one module a framework reads its shape; `formats/` has the frameworks' own templates as such data.
//! No other library crate knows that these frameworks exist.
//! Start reading at [`import`].

mod about;
mod braces;
mod builtin;
mod dialects;
mod fields;
mod files;
pub mod lmdeploy;
pub mod lmflow;
mod models;
mod own;
mod path_rules;
mod python;
mod tokens;
pub mod xtuner;

use std::sync::Arc;

use rolecall_format::{Diagnostic, Format, LoadError};

pub use builtin::{formats, register};
pub use dialects::{Dialect, dialects};
pub use models::{ModelRow, ModelTable};

use fields::File;
use tokens::Tokens;

/// Reads a user's own template in any of the shapes: XTuner's six fields, LMDeploy's chat template, LMFlow's components.
/// The name is what the format is called where the file does not say it.
///
/// ```
/// use rolecall_conversation::{Conversation, Message};
/// use rolecall_render::{Options, render};
///
/// let text = r#"{"INSTRUCTION": "Q: {input}\nA:", "SEP": "\n"}"#;
/// let format = rolecall_interop::import(text, "mine")?;
/// let prompt = render(&Conversation::new(vec![Message::user("{input}?")]), &format, &Options::default()).unwrap();
/// assert_eq!(prompt.text(), "<s>Q: {input}?\nA:");
/// # Ok::<(), rolecall_format::LoadError>(())
/// ```
///
/// XTuner's fields may also be a literal of Python, as its document prints them.
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

/// Whether a text is a literal of Python that calls `dict`: no other kind of file looks like this.
pub fn is_python(text: &str) -> bool {
    python::is_literal(text)
}

/// Reads a template that is a literal of Python, such as `dict(INSTRUCTION='{input}')`. Nothing in it is evaluated.
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
    let file = File::parse(text)?;
    let fields = file.fields();
    let tokens = Tokens::usual();
    let is_list = |key: &str| {
        matches!(key, "user" | "assistant" | "system")
            && matches!(fields.value(key), Some(rolecall_conversation::Json::Array(_)))
    };
    let mut format = if xtuner::is_template(fields.keys()) {
        xtuner::import(text, name, &tokens.bos, tokens.eos.as_deref())?
    } else if lmflow::is_template(fields.keys(), is_list) {
        lmflow::import(text, name, &tokens.bos, tokens.eos.as_deref())?
    } else if lmdeploy::is_template(fields.keys()) {
        let template = lmdeploy::read(text, lmdeploy::builtin)?;
        let mut format = template.into_format(name);
        // The built-in one keeps its names.
        format.aliases.clear();
        format
    } else {
        let help = "it may have XTuner's `INSTRUCTION`, LMDeploy's `model_name` or LMFlow's `user_formatter`";
        return Err(LoadError {
            diagnostics: vec![Diagnostic {
                code: "unknown_shape",
                message: "this is no framework's template: none of its fields is known".into(),
                span: fields.start(),
                help: Some(help.into()),
            }],
        });
    };
    if format.title.is_empty() {
        format.title = name.to_owned();
    }
    if let Some(training) = &mut format.training {
        Arc::make_mut(training).title.clone_from(&format.title);
    }
    Ok(format)
}

/// XTuner's table of models.
pub fn xtuner_models() -> &'static ModelTable {
    &builtin::XTUNER_MODELS
}
