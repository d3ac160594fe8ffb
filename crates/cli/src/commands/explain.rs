use super::{read_input, warn_of_dropped, warn_of_reference};
use crate::args::Explain;
use crate::exit::Exit;
use crate::explain::{Explained, Tokens, View, draw_html, draw_terminal, write_json};
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
    let mut tokens = Tokens::of(&prompt).map_err(|refusal| refused(refusal, &source))?;
    let notes = match &encoders {
        Some(encoders) => encoders.encode_each(&asked, &prompt, &mut |token| tokens.push(token))?,
        None => Vec::new(),
    };
    let loss = job.loss.map(|policy| asked.loss(&prompt, policy)).transpose();
    let loss = loss.map_err(|refusal| refused(refusal, &source))?;
    let view = View::new(Explained {
        conversation: &asked.request.conversation,
        format: asked.format,
        prompt: &prompt,
        tokens: encoders.as_ref().map(|_| &tokens),
        notes: &notes,
        added: encoders.as_ref().map_or(&[], Encoders::added_tokens),
        loss: loss.as_deref(),
    });
    if args.json {
        output.stream(|out| write_json(asked.request.id.as_ref(), &view, out))?;
        return Ok(Exit::Good);
    }
    warn_of_dropped(&prompt, &source, output);
    output.stream(|out| match args.html {
        true => draw_html(&view, &source.name, out),
        false => draw_terminal(&view, output.paint, output.width, out),
    })?;
    Ok(Exit::Good)
}
