//! The sides of a comparison: a format, or a model's chat template.

use std::path::Path;

use rolecall::diff::{Comparison, Telling, compare_models};
use rolecall::model::Settings;
use rolecall::{Error, Model};

use crate::failure::Failure;
use crate::files::Formats;
use crate::job::{misfit, unopened};
use crate::source::Source;

/// Names of JSON files that hold chat templates; any other JSON file is a framework's template.
const TEMPLATES: [&str; 2] = ["tokenizer_config.json", "chat_template.json"];

/// BOS and EOS tokens for templates that have no model files next to them.
pub struct OwnTokens<'a> {
    pub bos: &'a [String],
    pub eos: Option<&'a str>,
}

/// Reports whether the argument names a model's folder or a file with a chat template.
pub fn has_template(asked: &str) -> bool {
    let path = Path::new(asked);
    let is = |endings: &[&str]| path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one));
    path.is_dir()
        || is(&["jinja", "gguf"])
        || TEMPLATES.iter().any(|name| path.file_name().is_some_and(|file| file == *name))
}

/// Opens one side.
pub fn open(asked: &str, formats: &mut Formats, tokens: &OwnTokens<'_>, settings: &Settings) -> Result<Model, Failure> {
    let mut builder = Model::builder().settings(settings.clone());
    match has_template(asked) {
        true => {
            builder = builder.model(asked);
            if !tokens.bos.is_empty() {
                builder = builder.bos_tokens(tokens.bos.iter().cloned());
            }
            if let Some(token) = tokens.eos {
                builder = builder.eos_token(token);
            }
        }
        false => builder = builder.format(formats.choose(asked)?),
    }
    builder.registry(formats.registry.clone()).open().map_err(|error| unopened(error, Some(Path::new(asked))))
}

/// Compares two sides over a set of conversations.
pub fn compare(models: [&Model; 2], tellings: &[Telling]) -> Result<Comparison, Failure> {
    compare_models(models, tellings).map_err(|error| match error {
        Error::Tokenizer { .. } | Error::File(_) => misfit(error, models[0]),
        error => Failure::Refused { refusal: error.into(), source: Source::default() },
    })
}
