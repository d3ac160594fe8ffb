use super::{read_input, warn_of_dropped, warn_of_reference};
use crate::args::Encode;
use crate::batch::answer_lines;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::{Encoders, Job, refused, render_one};
use crate::output::Output;

pub fn run(args: &Encode, output: &Output) -> Result<Exit, Failure> {
    let job = Job::with_template(&args.chat, &args.own, Some(&args.tokenizer))?;
    let mut encoders = Encoders::load(&args.tokenizer, args.reference_encoding, args.max_length)?;
    if args.reference_encoding {
        warn_of_reference(output);
    }
    if args.batch.jsonl {
        return answer_lines(args.chat.input.as_deref(), output, |text| {
            let asked = job.read(text)?;
            let prompt = asked.render()?;
            let encoded = encoders.encode(asked.format, &prompt)?;
            asked.answer(&prompt, Some(&encoded), job.loss)
        });
    }
    let source = read_input(&args.chat)?;
    let (asked, prompt) = render_one(&job, &source)?;
    let encoded = encoders.encode_one(asked.format, &prompt)?;
    if args.batch.json {
        let answer = asked.answer(&prompt, Some(&encoded), job.loss).map_err(|refusal| refused(refusal, &source))?;
        output.write_json(&answer)?;
    } else {
        warn_of_dropped(&prompt, &source, output);
        let ids: Vec<String> = encoded.ids().iter().map(u32::to_string).collect();
        output.write(&format!("{}\n", ids.join(" ")))?;
    }
    Ok(Exit::Good)
}
