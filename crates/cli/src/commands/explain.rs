use super::{read_input, warn_of_dropped, warn_of_reference};
use crate::args::Explain;
use crate::exit::Exit;
use crate::explain::{Explained, View, draw_html, draw_terminal, to_json};
use crate::failure::Failure;
use crate::job::{Encoders, Job, refused, render_one};
use crate::output::Output;

pub fn run(args: &Explain, output: &Output) -> Result<Exit, Failure> {
    let job = Job::with_template(&args.chat, &args.own, args.tokenizer.as_deref())?;
    let load = |path| Encoders::load(path, args.reference_encoding, args.protect.mode(), None);
    let encoders = args.tokenizer.as_deref().map(load).transpose()?;
    if args.reference_encoding {
        warn_of_reference(output);
    }
    let source = read_input(&args.chat)?;
    let (asked, prompt) = render_one(&job, &source)?;
    let encoded = encoders.as_ref().map(|encoders| encoders.encode_one(&asked, &prompt)).transpose()?;
    let loss = job.loss.map(|policy| asked.loss(&prompt, policy)).transpose();
    let loss = loss.map_err(|refusal| refused(refusal, &source))?;
    let view = View::new(Explained {
        conversation: &asked.request.conversation,
        format: asked.format,
        prompt: &prompt,
        encoded: encoded.as_ref(),
        added: encoders.as_ref().map_or(&[], Encoders::added_tokens),
        loss: loss.as_deref(),
    });
    if args.json {
        output.write_json(&to_json(asked.request.id.as_ref(), &view))?;
        return Ok(Exit::Good);
    }
    warn_of_dropped(&prompt, &source, output);
    match args.html {
        true => output.write(&draw_html(&view, &source.name))?,
        false => output.write(&draw_terminal(&view, output.paint, output.width))?,
    }
    Ok(Exit::Good)
}
