//! Prints the origin of every byte of a prompt, and its ids, as JSON: `explain MODEL < REQUEST`.

use std::io::read_to_string;

use rolecall::conversation::json::{self, Layout};
use rolecall::{Model, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "internlm2".into()))?;
    let explanation = model.explain(Request::from_text(&read_to_string(std::io::stdin())?)?)?;
    println!("{}", json::write(&explanation.to_json(), &Layout::indented(2)));
    for spelled in &explanation.spelled {
        eprintln!("{:?} spells {:?} and stays text", spelled.origin, spelled.token);
    }
    Ok(())
}
