//! Renders one conversation for a few seconds, for use with a profiler: `spin [FORMAT [MESSAGES]]`.
use rolecall::conversation::{Conversation, Message};
use rolecall::format::registry;
use rolecall::render::{Options, Writer};

fn main() {
    let registry = registry();
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let format = registry.get(name.as_deref().unwrap_or("chatml")).expect("a format's name");
    let count = arguments.next().map_or(200, |count| count.parse().expect("a number of messages"));
    let text = "word ".repeat(60);
    let messages = (0..count)
        .map(|turn| if turn % 2 == 0 { Message::user(text.clone()) } else { Message::assistant(text.clone()) });
    let conversation = Conversation::new(messages.collect());
    let writer = Writer::format(format.clone(), Options::default());
    let mut bytes = 0;
    for _ in 0..20_000_000 / count.max(1) {
        bytes += writer.render(&conversation).map_or(0, |prompt| prompt.text().len());
    }
    println!("{bytes}");
}
