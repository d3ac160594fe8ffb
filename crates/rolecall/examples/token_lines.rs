//! Prints the token ids of texts, to compare with other programs.
//!
//!     cargo run -p rolecall --example token_lines -- TOKENIZER [ordinary|reference] < LINES
//!
//! Each input line is a JSON string. Each output line has its ids, or an error.

use std::io::BufRead;
use std::path::Path;

use rolecall::conversation::{Json, json};
use rolecall::tokenizer;
use rolecall::tokenizer::TextPlace;

fn main() {
    let argument = |at: usize| std::env::args().nth(at).unwrap_or_default();
    let tokenizer = match tokenizer::load(Path::new(&argument(1))) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return println!("{}: {error}", error.code()),
    };
    let is_reference = argument(2) == "reference";
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(Json::String(text)) = json::parse(&line) else { continue };
        let mut tokens = Vec::new();
        let encoded = match is_reference {
            true => tokenizer.encode_reference(&text, TextPlace::Start, &mut tokens),
            false => tokenizer.encode_ordinary(&text, TextPlace::Start, &mut tokens),
        };
        match encoded {
            Ok(()) => println!("{}", tokens.iter().map(|token| token.id.to_string()).collect::<Vec<_>>().join(" ")),
            Err(error) => println!("{}: {error}", error.code()),
        }
    }
}
