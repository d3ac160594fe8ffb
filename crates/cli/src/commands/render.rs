use rolecall::answer;

use super::{read_input, warn_of_dropped};
use crate::args::Render;
use crate::batch::answer_lines;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{Job, render_one};
use crate::output::Output;

pub fn run(args: &Render, output: &Output) -> Result<Exit, Failure> {
    let job = Job::from_args(&args.chat)?;
    if args.batch.jsonl {
        return answer_lines(args.chat.input.as_deref(), output, |text| {
            let asked = job.read(text)?;
            Ok(answer::of_prompt(asked.request.id.as_ref(), &asked.render()?))
        });
    }
    let source = read_input(&args.chat)?;
    let (asked, prompt) = render_one(&job, &source)?;
    if args.batch.json {
        output.write_json(&answer::of_prompt(asked.request.id.as_ref(), &prompt))?;
    } else {
        warn_of_dropped(&prompt, &source, output);
        output.write(prompt.text())?;
    }
    Ok(Exit::Good)
}
