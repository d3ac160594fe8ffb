//! Prints a grammar, in GBNF, that makes an engine sample only tool calls that fit their tools:
//! `grammar MODEL < REQUEST`.

use std::io::read_to_string;

use rolecall::grammar::{Options, ToolChoice};
use rolecall::{Model, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "internlm2".into()))?;
    let request = Request::from_text(&read_to_string(std::io::stdin())?)?;
    let options = Options { choice: ToolChoice::Required, ..Options::default() };
    println!("{}", model.prompt(request)?.reply()?.grammar(options)?.to_gbnf().text);
    Ok(())
}
