//! Measures how long a turn takes if a template's rendering is taken up where it stopped, at 2, 20,
//! 200 and 2,000 messages, and how long rendering the whole conversation takes.
//!
//! With the path of a folder, all its templates are measured:
//! `cargo bench -p rolecall-benches --bench growth_templates -- ../shared/templates`.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use rolecall::conversation::{Conversation, Message};
use rolecall::render::Writer;
use rolecall::render::growth::{Growth, Longer};
use rolecall::template::{ChatTemplate, DateTime, TemplateOptions};

const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const COUNTS: [usize; 4] = [2, 20, 200, 2000];

fn main() {
    println!(
        "{:<50} {:>8} {:>8} {:>8} {:>8} {:>6}   {:>10}",
        "a turn, in µs, at messages:", 2, 20, 200, 2000, "ratio", "whole, 200"
    );
    let chatml = ChatTemplate::compile(CHATML, Vec::new()).expect("a valid template");
    measure("ChatML", &chatml);
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut files: Vec<_> = folder
        .and_then(|folder| std::fs::read_dir(Path::new(&folder)).ok())
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "jinja")) {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let tokens = vec![("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
        let source = std::fs::read_to_string(path).unwrap_or_default();
        if let Ok(template) = ChatTemplate::compile(&source, tokens) {
            measure(&name, &template);
        }
    }
}

fn measure(name: &str, template: &ChatTemplate) {
    let noon = DateTime { year: 2026, month: 11, day: 30, hour: 12, minute: 0, second: 0, microsecond: 0 };
    let options = TemplateOptions { now: Some(noon), ..TemplateOptions::default() };
    let writer = Writer::template(template.clone(), options.clone());
    let mut times = Vec::new();
    for count in COUNTS {
        // A user speaks first and last.
        let mut conversation = conversation(count + 1);
        let longer: Vec<Message> = conversation.messages.clone();
        conversation.messages.truncate(count - 1);
        let Ok((_, Some(growth))) = writer.render_growing(&conversation) else { return };
        let Some(time) = time_of(|| turn(&writer, &growth, &conversation, &longer)) else {
            println!("{name:<50} is not grown");
            return;
        };
        times.push(time);
    }
    let conversation = conversation(199);
    let whole = time_of(|| writer.render(&conversation).ok().map(|prompt| prompt.text().len()));
    print!("{name:<50}");
    times.iter().for_each(|time| print!(" {time:>8.2}"));
    println!(" {:>6.2}   {:>10.1}", times[3] / times[0], whole.unwrap_or_default());
}

/// Renders a reply and the next question.
fn turn(writer: &Writer, growth: &Growth, frame: &Conversation, messages: &[Message]) -> Option<usize> {
    let head: Vec<&Message> = messages[..messages.len().min(4)].iter().collect();
    let tail: Vec<&Message> = messages[messages.len().saturating_sub(6)..].iter().collect();
    let longer = Longer { frame, count: messages.len(), head: &head, tail: &tail };
    writer.grow(growth, &longer).ok().map(|grown| grown.prompt.text().len())
}

/// Returns the least time of a call in µs, if it returns something. Other processes cannot make it
/// less.
fn time_of<T>(mut call: impl FnMut() -> Option<T>) -> Option<f64> {
    call()?;
    let times = (0..15).map(|_| {
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed().as_micros() < 2000 {
            black_box(call());
            calls += 1;
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    });
    times.min_by(f64::total_cmp)
}

fn conversation(count: usize) -> Conversation {
    let message = |at: usize| match at % 2 {
        0 => Message::user(format!("Question {at}: how far is it from here to the moon, and back?")),
        _ => Message::assistant(format!("Answer {at}: it is about 384,400 km on average, and as far back.")),
    };
    let messages = (0..count).map(message).collect();
    Conversation { add_generation_prompt: Some(true), ..Conversation::new(messages) }
}
