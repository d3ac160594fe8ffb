//! Prints the tokens of a conversation, and which of them carry loss:
//! `mask FORMAT path/to/tokenizer < REQUEST`.

use std::io::read_to_string;

use rolecall::loss::{self, LossPolicy};
use rolecall::model::Purpose;
use rolecall::{Model, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |at| std::env::args().nth(at).ok_or("expected a format and a tokenizer as arguments");
    let model = Model::builder().format(argument(1)?).tokenizer(argument(2)?).open()?;
    let mut request = Request::from_text(&read_to_string(std::io::stdin())?)?;
    // A training text is complete, so it has no generation prompt.
    request.conversation.add_generation_prompt = Some(false);
    let prompt = model.prompt_for(request, Purpose::Training)?;
    let loss = prompt.loss(&LossPolicy::assistant())?;
    let encoded = prompt.encode()?;
    for (token, learned) in encoded.tokens.iter().zip(loss::mask(&encoded, &loss)) {
        println!("{learned} {:>7} {:?}", token.id, &prompt.text()[token.start..token.end]);
    }
    Ok(())
}
