mod card;
mod fit;
mod list;

use rolecall::answer;
use rolecall::conversation::Json;
use rolecall::format::{Format, Registry, reply_files, reply_format};
use rolecall::identify::identify;

use crate::args::Formats;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;

pub fn run(args: &Formats, output: &Output) -> Result<Exit, Failure> {
    let mut formats = files::load_formats(&args.more)?;
    let chosen = args.name.as_deref().map(|asked| formats.choose(asked)).transpose()?;
    formats.warn(output);
    if let Some(model) = &args.model {
        return show_fit(&formats.registry, model, args.json, output);
    }
    if let Some(name) = chosen {
        match formats.registry.find(&name) {
            Some(format) if args.json => output.write_json(&answer::of_format(format))?,
            Some(format) => output.write(&card::draw(format, output.paint, output.width))?,
            None => {}
        }
        return Ok(Exit::Good);
    }
    let replies = reply_files().filter_map(|(name, _)| reply_format(name));
    let mut formats: Vec<&Format> = formats.registry.iter().chain(replies).map(|format| &**format).collect();
    formats.sort_by(|a, b| a.name.cmp(&b.name));
    match args.json {
        true => output.write_json(&Json::Array(formats.into_iter().map(answer::of_format_in_short).collect()))?,
        false => output.write(&list::draw(&formats, output.paint))?,
    }
    Ok(Exit::Good)
}

fn show_fit(registry: &Registry, asked: &str, json: bool, output: &Output) -> Result<Exit, Failure> {
    let model = files::load_model(asked)?;
    let identified = identify(&model, registry).map_err(Failure::NoFormatFor)?;
    match json {
        true => output.write_json(&answer::of_model(&model, &identified))?,
        false => output.write(&fit::draw(&identified, output.paint))?,
    }
    Ok(Exit::Good)
}
