//! Prints the rendered text of each conversation in a dataset of any shape, with one record per
//! line: `dataset MODEL < data.jsonl`.

use std::io::{BufRead, stdin};

use rolecall::{Model, dataset};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "chatml".into()))?;
    for (number, line) in (1..).zip(stdin().lock().lines()) {
        match dataset::read(&line?, None) {
            Ok((shape, samples)) => {
                for mut sample in samples {
                    sample.request.conversation.add_generation_prompt = Some(false);
                    println!("{number}, {shape}: {:?}", model.prompt(sample.request)?.text());
                }
            }
            Err(error) => eprintln!("{number}: {error} ({})", error.help()),
        }
    }
    Ok(())
}
