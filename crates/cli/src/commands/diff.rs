use std::path::Path;
use std::sync::Arc;

use rolecall::Model;
use rolecall::conversation::{Json, object};
use rolecall::dataset;
use rolecall::diff::{Comparison, Matrix, Telling, View, compare};
use rolecall::format::{Format, Registry};
use rolecall::model::{BosBy, Settings};
use rolecall::render::{Bos, Options};
use rolecall::training::check_replies;

use crate::args::{Diff, ViewArg};
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::diff::{Group, draw_matrix, draw_pair, group_models, list_formats, read_models, write_page};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files::{self, Formats};
use crate::job::refused;
use crate::output::Output;
use crate::source::Source;
use crate::versus::{self, OwnTokens, has_template};

pub fn run(args: &Diff, output: &Output) -> Result<Exit, Failure> {
    let mut formats = files::load_formats(&args.more)?;
    if let (Some(a), Some(b)) = (&args.a, &args.b)
        && (has_template(a) || has_template(b))
    {
        return compare_templates([a, b], args, &mut formats, output);
    }
    let mut choose = |asked: &Option<String>| asked.as_deref().map(|asked| formats.choose(asked)).transpose();
    // Either both are given, or a model is named.
    let [a, b] = [choose(&args.a)?.unwrap_or_default(), choose(&args.b)?.unwrap_or_default()];
    formats.warn(output);
    let options = Options {
        bos: args.bos.map_or(Bos::default(), BosBy::bos),
        rules: args.rules.unwrap_or_default(),
        choices: Vec::new(),
    };
    if let Some(model) = &args.model {
        return compare_for_model(&formats.registry, model, &options, args.json, output);
    }
    if let Some(path) = &args.models {
        return write_document(&formats.registry, path, &options, output);
    }
    let registry = formats.registry;
    let found =
        |name: &str| registry.find(name).ok_or_else(|| Failure::UnknownFormat { name: name.to_owned(), near: None });
    let given = args.input.as_deref().map(files::read_text).transpose()?;
    let tellings = given.as_ref().map_or_else(|| Ok(Telling::all()), read_telling)?;
    let views = match args.view.as_slice() {
        [] => View::ALL.to_vec(),
        views => View::ALL.into_iter().filter(|view| views.iter().any(|arg| arg.view() == *view)).collect(),
    };
    let comparison = compare([found(&a)?, found(&b)?], &tellings, &views, &options);
    match args.json {
        true => output.write_json(&comparison.to_json())?,
        // Show every difference of a conversation that the user passed.
        false => output.write(&draw_pair(&comparison, &views, args.all || given.is_some(), output.paint))?,
    }
    Ok(exit_of(&comparison))
}

/// Compares the prompts of two sides, at least one of which has a chat template.
fn compare_templates(asked: [&str; 2], args: &Diff, formats: &mut Formats, output: &Output) -> Result<Exit, Failure> {
    if let Some(view) = args.view.iter().map(|view| view.view()).find(|view| *view != View::Chat) {
        return Err(Failure::NoSuchView(view.name()));
    }
    let settings =
        Settings { bos: args.bos.unwrap_or_default(), rules: args.rules.unwrap_or_default(), ..Settings::default() };
    let tokens = OwnTokens { bos: &args.bos_tokens, eos: args.eos_token.as_deref() };
    let a = versus::open(asked[0], formats, &tokens, &settings)?;
    let b = versus::open(asked[1], formats, &tokens, &settings)?;
    formats.warn(output);
    let given = args.input.as_deref().map(files::read_text).transpose()?;
    let tellings = given.as_ref().map_or_else(|| Ok(Telling::of_templates()), read_telling)?;
    let comparison = versus::compare([&a, &b], &tellings)?;
    match args.json {
        true => output.write_json(&comparison.to_json())?,
        false => {
            output.write(&draw_pair(&comparison, &[View::Chat], args.all || given.is_some(), output.paint))?;
        }
    }
    if comparison.is_same() && sources_of(&a).is_some_and(|own| sources_of(&b).is_some_and(|other| own != other)) {
        output.show(&Diagnostic {
            severity: Severity::Note,
            code: "other_source",
            message: "the texts of the templates differ, but they render these conversations in the same way".into(),
            place: DiagnosticPlace::Nowhere,
            help: vec!["pass a conversation that they render differently as a third argument".into()],
        });
    }
    Ok(exit_of(&comparison))
}

fn sources_of(model: &Model) -> Option<Vec<&str>> {
    Some(model.templates()?.templates.iter().map(|named| named.source.as_str()).collect())
}

/// Returns the exit code. Two sides that refuse every conversation do not count as equal.
pub fn exit_of(comparison: &Comparison) -> Exit {
    if comparison.is_same() && comparison.says_anything() { Exit::Good } else { Exit::Refused }
}

fn read_telling(source: &Source) -> Result<Vec<Telling>, Failure> {
    let (_, samples) = dataset::read(&source.text, None).map_err(|error| refused(error.into(), source))?;
    let mut tellings = Vec::new();
    for sample in samples {
        let conversation = sample.request.conversation;
        check_replies(&conversation, source.text.len()).map_err(|error| refused(error.into(), source))?;
        let name = sample.side.map_or_else(|| source.name.clone(), |side| format!("{} ({})", source.name, side.name()));
        tellings.push(Telling::of(name, conversation));
    }
    Ok(tellings)
}

fn compare_for_model(
    registry: &Registry,
    model: &str,
    options: &Options,
    json: bool,
    output: &Output,
) -> Result<Exit, Failure> {
    let listed = list_formats(registry, &files::load_model(model)?).map_err(Failure::NoFormatFor)?;
    let formats: Vec<&Arc<Format>> = listed.iter().map(|listed| &listed.format).collect();
    let matrix = Matrix::new(&formats, &Telling::all(), options);
    if json {
        let why = listed.iter().map(|listed| {
            let mut object = object! { "format" => listed.format.name.as_str(), "why" => listed.why.as_str() };
            if let Some(warning) = &listed.warning {
                object.insert("warning", Json::from(warning.as_str()));
            }
            Json::Object(object)
        });
        let mut answer = object! { "model" => model, "listed" => Json::Array(why.collect()) };
        for (key, value) in matrix.to_json().as_object().into_iter().flat_map(|object| object.iter()) {
            answer.insert(key, value.clone());
        }
        output.write_json(&Json::Object(answer))?;
    } else {
        output.write(&draw_matrix(model, &listed, &matrix, output.paint))?;
    }
    let same = matrix.cells.iter().all(|(.., cell)| cell.apart.is_empty());
    Ok(if same { Exit::Good } else { Exit::Refused })
}

/// Writes one document for many models. Differences are expected and do not affect the exit code.
fn write_document(registry: &Registry, path: &Path, options: &Options, output: &Output) -> Result<Exit, Failure> {
    let (groups, without) = group_models(registry, &read_models(path)?);
    let tellings = Telling::all();
    let compared = |group: Group| {
        let formats: Vec<&Arc<Format>> = group.listed.iter().map(|listed| &listed.format).collect();
        let matrix = Matrix::new(&formats, &tellings, options);
        (group, matrix)
    };
    let groups: Vec<(Group, Matrix)> = groups.into_iter().map(compared).collect();
    let command = format!("rolecall diff --models {}", path.display());
    output.write(&write_page(&groups, &without, &tellings, &command))?;
    Ok(Exit::Good)
}

impl ViewArg {
    fn view(self) -> View {
        match self {
            ViewArg::Chat => View::Chat,
            ViewArg::Training => View::Training,
            ViewArg::Serving => View::Serving,
            ViewArg::ServingBack => View::ServingBack,
        }
    }
}
