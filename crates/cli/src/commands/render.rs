use rolecall::encode::Protect;

use super::{read_input, warn_of_dropped, warn_of_loss};
use crate::args::Render;
use crate::batch::{BatchPlan, Journal, RowContents, answer_lines};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{Job, refused, render_one};
use crate::output::Output;

pub fn run(args: &Render, output: &Output) -> Result<Exit, Failure> {
    let mut job = Job::open(&args.chat, &args.own, None, Protect::default(), output)?;
    job.rows.stops = args.batch.json || args.batch.jsonl;
    if args.batch.jsonl {
        let plan = BatchPlan {
            inputs: &args.chat.inputs,
            options: &args.batch,
            target: None,
            wanted: RowContents::default(),
            journal: Journal::default(),
            shapes: Some(job.seen()),
        };
        return answer_lines(plan, output, move |line, rows| job.answer(line, rows));
    }
    let source = read_input(&args.chat)?;
    let prompt = render_one(&job, &source)?;
    job.seen().tell(output);
    let loss = job.loss_of(&prompt).map_err(|refusal| refused(refusal, &source))?;
    if args.batch.json {
        job.stream(&prompt, None, (loss.as_ref(), None), output)?;
    } else {
        warn_of_dropped(&prompt, &source, output);
        warn_of_loss(loss.as_ref(), &source, output);
        output.write(prompt.text())?;
    }
    Ok(Exit::Good)
}
