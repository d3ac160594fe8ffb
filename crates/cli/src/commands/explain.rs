use rolecall::loss::TokenLoss;
use rolecall::training::RowEncoding;

use super::{read_input, warn_of_dropped, warn_of_loss, warn_of_reference};
use crate::args::Explain;
use crate::exit::Exit;
use crate::explain::{ExplainedPrompt, Tokens, View, draw_html, draw_terminal, write_json};
use crate::failure::Failure;
use crate::job::{Job, encode_each, load_tokenizer, refused, render_one};
use crate::output::Output;

pub fn run(args: &Explain, output: &Output) -> Result<Exit, Failure> {
    let mut job = Job::open(&args.chat, &args.own, args.tokenizer.as_deref(), args.text.protect, output)?;
    job.rows.stops = true;
    let added = job.model.tokenizer_path().map(|_| load_tokenizer(&job.model)).transpose()?;
    let encoding = RowEncoding { reference: args.text.reference_encoding, limit: None };
    if args.text.reference_encoding {
        warn_of_reference(output);
    }
    let source = read_input(&args.chat)?;
    let prompt = render_one(&job, &source)?;
    job.seen().tell(output);
    let mut tokens = Tokens::of(prompt.prompt()).map_err(|error| refused(error.into(), &source))?;
    let notes = match added {
        Some(_) => encode_each(encoding, &job.model, &prompt, &mut |token| tokens.push(token))?,
        None => Vec::new(),
    };
    let loss = job.loss_of(&prompt).map_err(|refusal| refused(refusal, &source))?;
    let view = View::new(ExplainedPrompt {
        conversation: &prompt.request().conversation,
        format: job.format_of(&prompt),
        prompt: prompt.prompt(),
        tokens: added.map(|_| &tokens),
        notes: &notes,
        added: added.unwrap_or_default(),
        loss: loss.as_ref().map(|loss| TokenLoss { loss, edges: job.rows.edges }),
    });
    if args.json {
        output.stream(|out| write_json(prompt.request().id.as_ref(), &view, out))?;
        return Ok(Exit::Good);
    }
    warn_of_dropped(&prompt, &source, output);
    warn_of_loss(loss.as_ref(), &source, output);
    output.stream(|out| match args.html {
        true => draw_html(&view, &source.name, out),
        false => draw_terminal(&view, output.paint, output.width, out),
    })?;
    Ok(Exit::Good)
}
