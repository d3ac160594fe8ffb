//! Prints the token ids of a request, and the tokens that end a reply:
//! `ids path/to/model < REQUEST`.

use std::io::read_to_string;

use rolecall::{Model, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model =
        Model::open(std::env::args().nth(1).ok_or("expected a model's folder or GGUF file as the first argument")?)?;
    let encoded = model.encode(Request::from_text(&read_to_string(std::io::stdin())?)?)?;
    println!("{:?}", encoded.ids());
    for stop in model.stops()? {
        println!("stop at {:?} {:?}: {}", stop.text, stop.id, stop.sources.join(", "));
    }
    Ok(())
}
