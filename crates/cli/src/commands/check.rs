use std::sync::Arc;

use rolecall::conversation::{Json, object};
use rolecall::diff::{Telling, View};
use rolecall::format::{Format, Slot};
use rolecall::model::Settings;

use super::diff::exit_of;
use crate::args::{Check, MoreFormats};
use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::diff::draw_pair;
use crate::example::draw_example;
use crate::exit::Exit;
use crate::explain::counted;
use crate::failure::{Failure, count_of_mistakes, diagnostics_of_format, json_of_mistakes};
use crate::files;
use crate::output::Output;
use crate::paint::Style;
use crate::source::Source;
use crate::versus::{self, OwnTokens};

pub fn run(args: &Check, output: &Output) -> Result<Exit, Failure> {
    if args.file.extension().is_some_and(|extension| extension == "jinja") {
        return Err(Failure::NotAFormat { path: args.file.display().to_string() });
    }
    let (source, read) = files::read_format(&args.file)?;
    let loaded = read.map(Arc::new);
    if let (Ok(format), Some(against)) = (&loaded, &args.against) {
        return compare_with(format, against, args, output);
    }
    let exit = if loaded.is_ok() { Exit::Good } else { Exit::Refused };
    match loaded {
        Ok(format) if args.json => output.write_json(&Json::Object(object! {
            "file" => source.name.as_str(), "right" => true, "format" => format.name.as_str(), "mistakes" => Vec::new(),
        }))?,
        Err(error) if args.json => output.write_json(&Json::Object(object! {
            "file" => source.name.as_str(), "right" => false, "mistakes" => json_of_mistakes(&source, &error),
        }))?,
        Ok(format) => show_right(&format, &source, output)?,
        Err(error) => {
            for diagnostic in diagnostics_of_format(&source, &error) {
                output.show(&diagnostic);
            }
            output.show(&Diagnostic {
                severity: Severity::Error,
                code: "bad_format",
                message: format!("{} in the format file `{}`", count_of_mistakes(&error), source.name),
                place: DiagnosticPlace::Nowhere,
                help: Vec::new(),
            });
        }
    }
    Ok(exit)
}

/// Compares the format's prompts with those of a chat template, and shows the first difference in
/// each conversation.
fn compare_with(format: &Arc<Format>, against: &str, args: &Check, output: &Output) -> Result<Exit, Failure> {
    let mut formats = files::load_formats(&MoreFormats::default())?;
    formats.registry.replace(format.clone());
    let tokens = OwnTokens { bos: &args.bos_tokens, eos: args.eos_token.as_deref() };
    let own = versus::open(&format.name, &mut formats, &tokens, &Settings::default())?;
    let other = versus::open(against, &mut formats, &tokens, &Settings::default())?;
    let comparison = versus::compare([&own, &other], &Telling::of_templates())?;
    match args.json {
        true => output.write_json(&Json::Object(object! {
            "file" => args.file.display().to_string(), "right" => true, "format" => format.name.as_str(),
            "mistakes" => Vec::new(), "against" => comparison.to_json(),
        }))?,
        false => output.write(&draw_pair(&comparison, &[View::Chat], true, output.paint))?,
    }
    Ok(exit_of(&comparison))
}

fn show_right(format: &Arc<Format>, source: &Source, output: &Output) -> Result<(), Failure> {
    let paint = output.paint;
    let name = paint.text(Style::Strong, &crate::visible::escape(&source.name));
    let layouts = Slot::ALL.into_iter().filter(|slot| format.layout(*slot).is_some()).count();
    output.write(&format!(
        "{name} is valid: format `{}` with {} and {}\n\n",
        format.name,
        counted(layouts, "layout"),
        counted(format.controls.len(), "control token")
    ))?;
    match draw_example(format, paint, output.width) {
        Ok(example) => output.write(&example),
        Err(error) => {
            output.show(&Diagnostic {
                severity: Severity::Warning,
                code: error.code(),
                message: format!("the format refuses even a plain example: {error}"),
                place: DiagnosticPlace::Named(source.name.clone()),
                help: error.help().into_iter().collect(),
            });
            Ok(())
        }
    }
}
