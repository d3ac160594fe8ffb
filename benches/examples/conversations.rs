//! Writes the given number of bytes of conversations as JSON lines, for `rolecall encode --jsonl`.
//! Every run writes the same ones.
//!
//!     cargo run --release -p rolecall-benches --example conversations -- 100000000 > chats.jsonl

use std::io::{self, BufWriter, Write};

use rolecall::conversation::json;
use rolecall::conversation::json::Layout;
use rolecall::conversation::{Json, object};

const WORDS: &str = "the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they \
    you were their one all we can her has there been if more when will would who so no out up into them then she what some \
    time about could only other new these two may first any my now such like our over man me even most made after also did \
    many before must through years where much your way well down should because each just those people how too little state \
    good very make world still own see men work long get here between both life being under never day same another know while \
    last might us great old year off come since against go came right used take three function returns value error template \
    tokenizer conversation assistant probability gradient integer database network configuration 12 2026 3.14 0x1f café naïve \
    Straße Москва 北京 你好 天气 怎么样 東京 한국어 مرحبا";

fn main() -> io::Result<()> {
    let asked = std::env::args().nth(1).and_then(|bytes| bytes.parse::<usize>().ok());
    let Some(bytes) = asked else {
        eprintln!("expected the number of bytes to write");
        std::process::exit(2);
    };
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut dice = Dice(20_260_101);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = 0;
    let mut id = 0;
    while written < bytes {
        let line = json::write(&conversation(id, &words, &mut dice), &Layout::compact());
        writeln!(out, "{line}")?;
        written += line.len() + 1;
        id += 1;
    }
    out.flush()
}

/// Makes one to six exchanges with short questions and longer answers.
fn conversation(id: i64, words: &[&str], dice: &mut Dice) -> Json {
    let message = |role: &str, text: String| Json::Object(object! { "role" => role, "content" => text });
    let mut messages = vec![message("system", "You are a helpful assistant.".into())];
    for _ in 0..=dice.below(6) {
        let question = 5 + dice.below(60);
        let answer = 20 + dice.below(250);
        messages.push(message("user", text(words, question, dice)));
        messages.push(message("assistant", text(words, answer, dice)));
    }
    Json::Object(object! { "id" => id, "messages" => Json::Array(messages) })
}

fn text(words: &[&str], count: usize, dice: &mut Dice) -> String {
    let mut text = String::new();
    for at in 0..count {
        // The first words of the list are the most frequent ones.
        let most = 1 + dice.below(words.len());
        text.push_str(words[dice.below(most)]);
        text.push_str(match dice.below(30) {
            _ if at + 1 == count => ".",
            0 | 1 => ", ",
            2 => ".\n\n",
            3 => ":\n    ",
            4 => " (\"",
            5 => "\") ",
            _ => " ",
        });
    }
    text
}

/// A generator of numbers that are the same on every machine (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}
