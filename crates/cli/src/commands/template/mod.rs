//! `rolecall template`: analyzes each template of a file or folder, or prints the layouts of one.

mod json;
mod layout;
mod page;

use std::path::Path;
use std::sync::Arc;

use rolecall::answer;
use rolecall::conversation::{Json, object};
use rolecall::encode::Decoder;
use rolecall::template::jinja::Spot;
use rolecall::template::{ModelTemplates, NamedTemplate};
use rolecall::template::{TemplateAnalysis, TemplateOptions, analyze_template};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;

use crate::args::TemplateArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::refusal::Refusal;
use crate::source::Source;
use crate::template::refused;

/// A template and its analysis.
struct TemplateReport {
    name: String,
    source: Source,
    analysis: TemplateAnalysis,
}

pub fn run(args: &TemplateArgs, output: &Output) -> Result<Exit, Failure> {
    let mut model = files::load_templates(args.path())?;
    for (name, token) in [("bos_token", &args.bos_token), ("eos_token", &args.eos_token)] {
        if let Some(token) = token {
            model.set_token(name, token.clone());
        }
    }
    if args.layout {
        layout::print(args, &model, control_tokens(args)?, output)?;
        return Ok(Exit::Good);
    }
    let adds_bos = adds_bos(args, &model)?;
    let asked = |named: &&NamedTemplate| args.template_name.as_ref().is_none_or(|name| *name == named.name);
    let analyzed: Vec<(&NamedTemplate, Result<TemplateReport, Refusal>)> =
        model.templates.iter().filter(asked).map(|named| (named, analyze(named, &model, adds_bos))).collect();
    if analyzed.is_empty() {
        // The error lists the available templates.
        let chosen = model.choose(args.template_name.as_deref(), false).map(|_| ());
        chosen.map_err(|why| Failure::NoTemplate { path: args.path().display().to_string(), why })?;
    }
    let exit = if analyzed.iter().any(|(_, result)| result.is_err()) { Exit::Refused } else { Exit::Good };
    if args.json {
        let templates = analyzed.iter().map(|(named, result)| match result {
            Ok(analyzed) => answer::of_analysis(named, &analyzed.analysis),
            Err(refusal) => json::of_refused(&named.name, refusal),
        });
        output.write_json(&Json::Object(object! { "templates" => templates.collect::<Vec<Json>>() }))?;
        return Ok(exit);
    }
    let mut pages = Vec::new();
    for (_, result) in analyzed {
        match result {
            Ok(analyzed) => pages.push(page::draw(&analyzed, output.paint)),
            // An invalid template does not hide the others.
            Err(refusal) => {
                let source = Source { name: String::new(), text: String::new() };
                for diagnostic in (Failure::Refused { refusal, source }).diagnostics() {
                    output.show(&diagnostic);
                }
            }
        }
    }
    output.write(&pages.join("\n"))?;
    Ok(exit)
}

fn analyze(named: &NamedTemplate, model: &ModelTemplates, adds_bos: Option<bool>) -> Result<TemplateReport, Refusal> {
    let analysis =
        named.compile(&model.tokens).and_then(|template| analyze_template(&template, &TemplateOptions::default()));
    let mut analysis = analysis.map_err(|error| refused(named, error))?;
    if let Some(adds_bos) = adds_bos {
        analysis.note_tokenizer(adds_bos);
    }
    Ok(TemplateReport { name: named.name.clone(), source: Source::of_template(named), analysis })
}

/// Returns the texts of the control tokens of the model's tokenizer, or of the one on the command line.
fn control_tokens(args: &TemplateArgs) -> Result<Vec<String>, Failure> {
    let markers = |tokenizer| Decoder::new(tokenizer).markers();
    if let Some(path) = &args.tokenizer {
        return Ok(markers(files::load_tokenizer(path)?));
    }
    let path = args.path();
    // A file with a template alone belongs to no tokenizer.
    if files::is_stdin(path) || !(path.is_dir() || path.extension().is_some_and(|extension| extension == "gguf")) {
        return Ok(Vec::new());
    }
    match tokenizer::load(path) {
        Ok(tokenizer) => Ok(markers(Arc::from(tokenizer))),
        Err(_) => Ok(Vec::new()),
    }
}

/// Reports whether the tokenizer adds the BOS token. Asks the tokenizer from the command line, else
/// the model's own file, else the tokenizer next to the template.
fn adds_bos(args: &TemplateArgs, model: &ModelTemplates) -> Result<Option<bool>, Failure> {
    let said = |tokenizer: &dyn Tokenizer| Some(tokenizer.adds_bos().is_some());
    if let Some(path) = &args.tokenizer {
        return Ok(said(&*files::load_tokenizer(path)?));
    }
    if model.adds_bos.is_some() || files::is_stdin(args.path()) {
        return Ok(model.adds_bos);
    }
    let folder = if args.path().is_dir() { Some(args.path()) } else { args.path().parent() };
    let Some(folder) = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) else {
        return Ok(None);
    };
    match tokenizer::load(folder) {
        Ok(tokenizer) => Ok(said(&*tokenizer)),
        Err(tokenizer::Error::Missing { .. }) => Ok(None),
        Err(_) => files::load_tokenizer(folder).map(|tokenizer| said(&*tokenizer)),
    }
}

/// Formats a position as `line:column`.
fn shown(spot: &Spot) -> String {
    format!("{}:{}", spot.line, spot.column)
}
