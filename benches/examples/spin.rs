//! Renders one conversation for a few seconds, for use with a profiler: `spin [FORMAT]`.
use rolecall::conversation::{Conversation, Message};
use rolecall::format::registry;
use rolecall::render::{Options, render};

fn main() {
    let registry = registry();
    let name = std::env::args().nth(1);
    let format = registry.get(name.as_deref().unwrap_or("chatml")).expect("a format's name");
    let text = "word ".repeat(60);
    let messages =
        (0..200).map(|turn| if turn % 2 == 0 { Message::user(text.clone()) } else { Message::assistant(text.clone()) });
    let conversation = Conversation::new(messages.collect());
    let options = Options::default();
    let mut bytes = 0;
    for _ in 0..100_000 {
        bytes += render(&conversation, format, &options).map_or(0, |prompt| prompt.text().len());
    }
    println!("{bytes}");
}
