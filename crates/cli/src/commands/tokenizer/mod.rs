//! `rolecall tokenizer`: shows facts about a tokenizer, how it treats control tokens, and the
//! findings of an audit.

mod page;

use std::path::Path;
use std::sync::Arc;

use rolecall::Model;
use rolecall::answer;
use rolecall::encode::ProtectedTokens;
use rolecall::format::{Control, Format};
use rolecall::template::ModelTemplates;
use rolecall::tokenizer::Tokenizer;
use rolecall::tokenizer::{Audit, Level, TokenizerFile, audit_with};

use crate::args;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;

/// A tokenizer and its audit.
struct AuditReport {
    file: TokenizerFile,
    tokenizer: Box<dyn Tokenizer>,
    format: Option<String>,
    audit: Audit,
    /// The tokens that text is never encoded to, if a template is given.
    protected: Option<ProtectedTokens>,
}

pub fn run(args: &args::Tokenizer, output: &Output) -> Result<Exit, Failure> {
    let format = load_format(args, output)?;
    let (file, tokenizer) = files::load_tokenizer_file(args.path())?;
    // `rolecall template` reports the errors of templates.
    let beside = files::templates_beside(&file).unwrap_or_default();
    let own = args.template.as_deref().map(|path| own_templates(path, &beside)).transpose()?;
    let controls: &[Control] = format.as_ref().map_or(&[], |format| &format.controls);
    let audit = audit_with(&*tokenizer, controls, own.as_ref().unwrap_or(&beside));
    let protected = match own {
        Some(own) => {
            let protection = own.beside(&beside).protection(None).protecting(args.protect);
            let path = args.path().display().to_string();
            let misfit = |error: rolecall_encode::Error| Failure::Misfit { tokenizer: path, error: error.into() };
            Some(ProtectedTokens::new(&protection, &*tokenizer).map_err(misfit)?)
        }
        None => None,
    };
    let is_wrong = audit.findings.iter().any(|finding| finding.kind.level() == Level::Error);
    let audited = AuditReport { file, tokenizer, format: format.map(|format| format.name.clone()), audit, protected };
    match args.json {
        true => output.write_json(&answer::of_audited(answer::AuditAnswer {
            file: Some(&audited.file),
            tokenizer: &*audited.tokenizer,
            format: audited.format.as_deref(),
            audit: &audited.audit,
            protected: audited.protected.as_ref(),
        }))?,
        false => output.write(&page::draw(&audited, args.all, output.paint))?,
    }
    Ok(if is_wrong { Exit::Refused } else { Exit::Good })
}

/// Returns the templates of a file. They may name the tokenizer's special tokens if their own files name
/// none.
fn own_templates(path: &Path, beside: &ModelTemplates) -> Result<ModelTemplates, Failure> {
    let mut templates = files::load_templates(path)?;
    for (name, token) in &beside.tokens {
        if templates.token(name).is_none() {
            templates.set_token(name, token.clone());
        }
    }
    Ok(templates)
}

fn load_format(args: &args::Tokenizer, output: &Output) -> Result<Option<Arc<Format>>, Failure> {
    let Some(asked) = &args.format else {
        // A folder that cannot be opened as a model may still have a tokenizer.
        let model = args.model.as_ref().and_then(|path| Model::open(path).ok());
        return Ok(model.and_then(|model| model.format().cloned()));
    };
    let mut formats = files::load_formats(&args.more)?;
    let name = formats.choose(asked)?;
    formats.warn(output);
    Ok(formats.registry.find(&name).cloned())
}
