//! Parses a reply as it arrives: `reply MODEL < OUTPUT`, such as
//! `printf 'Hi!<|im_end|>' | reply internlm2`.

use std::io::{BufRead, stdin};

use rolecall::{Event, Model, Request, Stop};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::open(std::env::args().nth(1).unwrap_or_else(|| "internlm2".into()))?;
    let request = Request::from_text(r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)?;
    let mut parser = model.prompt(request)?.reply()?.text_parser();
    let mut said = |event: Event<'_>| println!("{event:?}");
    for line in stdin().lock().split(b'\n') {
        parser.push_text(&String::from_utf8(line?)?, &mut said);
    }
    parser.finish(Stop::End, &mut said);
    Ok(())
}
