mod card;
mod facts;
mod list;
mod setting;

use rolecall::{Fit, Format, Json, Registry, object};

use crate::args::Formats;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::paint::Style;
use crate::visible;

pub fn run(args: &Formats, output: &Output) -> Result<Exit, Failure> {
    let mut registry = files::load_registry(args.formats.as_deref())?;
    if let Some(model) = &args.model {
        return show_fit(&registry, model, args.json, output);
    }
    if let Some(asked) = &args.name {
        let name = files::choose_format(&mut registry, asked)?;
        match registry.get(&name) {
            Some(format) if args.json => output.write_json(&facts::of_one(format))?,
            Some(format) => output.write(&card::draw(format, output.paint, output.width))?,
            None => {}
        }
        return Ok(Exit::Good);
    }
    let mut formats: Vec<&Format> = registry.iter().collect();
    formats.sort_by(|a, b| a.name.cmp(&b.name));
    match args.json {
        true => output.write_json(&Json::Array(formats.into_iter().map(facts::in_short).collect()))?,
        false => output.write(&list::draw(&formats, output.paint))?,
    }
    Ok(Exit::Good)
}

fn show_fit(registry: &Registry, model: &str, json: bool, output: &Output) -> Result<Exit, Failure> {
    let fit = registry.resolve(model);
    let Fit { format, pattern } =
        fit.map_err(|unresolved| Failure::NoFormatFor { model: model.to_owned(), unresolved })?;
    if json {
        output.write_json(&Json::Object(object! {
            "model" => model, "format" => format.name.as_str(), "title" => format.title.as_str(), "pattern" => pattern.as_str(),
        }))?;
        return Ok(Exit::Good);
    }
    let name = output.paint.text(Style::Strong, &format.name);
    output.write(&format!(
        "{name}  {}\n`{}` fits its pattern `{}`\n",
        visible::escape(&format.title),
        visible::escape(model),
        visible::escape(pattern.as_str())
    ))?;
    Ok(Exit::Good)
}
