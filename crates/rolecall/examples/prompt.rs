//! Prints the prompt of a request: `prompt MODEL < REQUEST`, such as
//! `prompt internlm2 < examples/weather.json`.

use std::io::read_to_string;

use rolecall::{Model, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "internlm2".into()))?;
    let prompt = model.prompt(Request::from_text(&read_to_string(std::io::stdin())?)?)?;
    print!("{}", prompt.text());
    for left_out in prompt.prompt().left_out() {
        eprintln!("{} ({}): {}", left_out.first, left_out.count, left_out.why);
    }
    Ok(())
}
