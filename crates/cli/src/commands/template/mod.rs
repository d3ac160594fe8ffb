//! `rolecall template`: each template of a file or folder, analyzed.

mod json;
mod page;

use rolecall::template::{ModelTemplates, NamedTemplate};
use rolecall::tokenizer::{self, Tokenizer};
use rolecall::{ChatTemplate, Json, TemplateAnalysis, TemplateOptions, analyze_template, object};

use crate::args::Template;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::source::Source;
use crate::template::{as_source, refused};

/// A template and what was found in it.
struct Analyzed {
    name: String,
    source: Source,
    analysis: TemplateAnalysis,
}

pub fn run(args: &Template, output: &Output) -> Result<Exit, Failure> {
    let mut model = files::load_templates(&args.path)?;
    for (name, token) in [("bos_token", &args.bos_token), ("eos_token", &args.eos_token)] {
        if let Some(token) = token {
            model.set_token(name, token.clone());
        }
    }
    let adds_bos = adds_bos(args)?;
    let asked = |named: &&NamedTemplate| args.template_name.as_ref().is_none_or(|name| *name == named.name);
    let mut analyzed = Vec::new();
    for named in model.templates.iter().filter(asked) {
        analyzed.push(analyze(named, &model, adds_bos)?);
    }
    if analyzed.is_empty() {
        // Says which there are.
        let chosen = model.choose(args.template_name.as_deref(), false).map(|_| ());
        chosen.map_err(|why| Failure::NoTemplate { path: args.path.display().to_string(), why })?;
    }
    if args.json {
        let templates: Vec<Json> = analyzed.iter().map(json::of_analyzed).collect();
        output.write_json(&Json::Object(object! { "templates" => templates }))?;
    } else {
        let pages: Vec<String> = analyzed.iter().map(|one| page::draw(one, output.paint)).collect();
        output.write(&pages.join("\n"))?;
    }
    Ok(Exit::Good)
}

fn analyze(named: &NamedTemplate, model: &ModelTemplates, adds_bos: Option<bool>) -> Result<Analyzed, Failure> {
    let analysis = ChatTemplate::compile(&named.source, model.tokens.clone())
        .and_then(|template| analyze_template(&template, &TemplateOptions::default()));
    let mut analysis = analysis.map_err(|error| Failure::Refused {
        refusal: refused(named, error),
        source: Source { name: String::new(), text: String::new() },
    })?;
    if let Some(adds_bos) = adds_bos {
        analysis.note_tokenizer(adds_bos);
    }
    Ok(Analyzed { name: named.name.clone(), source: as_source(named), analysis })
}

/// Whether the tokenizer writes the token that opens a text: the one that is named, else the one beside the template.
fn adds_bos(args: &Template) -> Result<Option<bool>, Failure> {
    let said = |tokenizer: &dyn Tokenizer| Some(tokenizer.adds_bos().is_some());
    match &args.tokenizer {
        Some(path) => Ok(said(&*files::load_tokenizer(path)?)),
        None if args.path.is_dir() => match tokenizer::load(&args.path) {
            Ok(tokenizer) => Ok(said(&*tokenizer)),
            Err(tokenizer::Error::Missing { .. }) => Ok(None),
            Err(_) => files::load_tokenizer(&args.path).map(|tokenizer| said(&*tokenizer)),
        },
        None => Ok(None),
    }
}
