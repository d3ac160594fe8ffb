//! Measures what the account adds: to rendering 200 messages, by formats and templates, and to the rows of
//! `rolecall encode --jsonl`.
//!
//! The templates and the tokenizer are those of `../shared`, or of the folder in the first argument.

#[path = "training/conversations.rs"]
mod conversations;

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use rolecall::account::Account;
use rolecall::answer::{self, Answer};
use rolecall::conversation::{Conversation, json};
use rolecall::format::{Format, registry};
use rolecall::loss::Edges;
use rolecall::model::ModelPrompt;
use rolecall::render::{Options, Writer};
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::training::{Ready, RowOptions};
use rolecall::{Model, Request};
use rolecall_benches::{Runner, folder, in_turns, race, tokenizer_in};

const FORMATS: [&str; 4] = ["chatml", "llama3", "internlm2", "qwen2.5"];

/// About fifty words, some not ASCII.
const WORDS: &str = "the weather in Köln is 18.5 degrees and clear, 今天天气很好, so we walk along the river until the lights come on; \
     tell me which of the three roads is the shortest one and why nobody takes it at night — «никто» — \
     even though it is lit, dry and well known to all";

/// A short template, as the simplest models have.
const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Templates of others that write calls and reasoning in different ways.
const TEMPLATES: [&str; 8] = [
    "trl--qwen3",
    "llamacpp--Qwen-Qwen2.5-7B-Instruct",
    "axolotl--llama3",
    "hfjs--mistralai--Mistral-Nemo-Instruct-2407",
    "llamacpp--GLM-4.6",
    "llamacpp--Kimi-K2-Instruct",
    "hfjs--deepseek-ai--DeepSeek-R1",
    "llamacpp--google-gemma-4-31B-it",
];

/// A format and templates of the tokenizer's models.
const OF_ROWS: [&str; 3] = ["qwen2.5", "llamacpp--Qwen-Qwen2.5-7B-Instruct", "trl--qwen3"];

/// The number of rows, and how many times all are encoded.
const ROWS: usize = 2000;
const ROUNDS: usize = 9;

fn main() {
    let folder = folder();
    let plain = conversation(&in_turns(200, |turn| format!("{turn}: {WORDS}")));
    // A turn of a conversation with tools takes up to four messages.
    let calls = conversation(&conversations::groups([200], 2)[0][1]);
    let heads = ["render", "kept", "share", "asked", "share"].map(|head| format!("{head:>9}")).join(" ");
    println!("{:<48} {:<6} {heads}", "200 messages by", "with");
    let registry = registry();
    for name in FORMATS {
        let format = registry.get(name).expect("a built-in format");
        measure_format(name, "text", format, &plain);
        measure_format(name, "calls", format, &calls);
    }
    let chatml = ChatTemplate::compile(CHATML, Vec::new()).expect("a valid template");
    measure_template("a short template", "text", &chatml, &plain);
    for name in TEMPLATES {
        if let Some(template) = template(&folder, name) {
            measure_template(name, "text", &template, &plain);
            measure_template(name, "calls", &template, &calls);
        }
    }
    println!(
        "\ntimes in µs, medians; kept: rendering, with what the account follows from, as a model's prompt has it;"
    );
    println!("asked: the same, and the account at once, because somebody asks for it; share: what that adds, in %");

    let Some(tokenizer) = tokenizer_in(&folder) else { return };
    println!("\n{:<48} {:<9} {:>9} {:>9} {:>9}", "rows by", "for", "row", "account", "share");
    for name in OF_ROWS {
        let Ok(model) = model(&folder, &tokenizer, name) else { continue };
        for policy in [None, Some("assistant")] {
            measure_rows(name, &model, policy);
        }
    }
    println!(
        "\ntimes in µs for each row: from JSON to its line and the notes of the closing summary; account: its part of that"
    );
}

fn conversation(text: &str) -> Conversation {
    Request::from_text(text).expect("a request").conversation
}

fn template(folder: &Path, name: &str) -> Option<ChatTemplate> {
    let tokens = vec![("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
    let source = std::fs::read_to_string(folder.join(format!("templates/{name}.jinja"))).ok()?;
    ChatTemplate::compile(&source, tokens).ok()
}

/// Returns a model that writes with a template of the folder or a built-in format.
fn model(folder: &Path, tokenizer: &Path, name: &str) -> Result<Model, rolecall::model::OpenError> {
    let builder = Model::builder().tokenizer(tokenizer);
    let template = folder.join(format!("templates/{name}.jinja"));
    if template.is_file() { builder.template(template) } else { builder.format(name) }.open()
}

fn measure_format(name: &str, with: &str, format: &Format, conversation: &Conversation) {
    let writer = Writer::format(format.clone(), Options::default());
    if writer.render(conversation).is_err() {
        return;
    }
    let prompt = || writer.render(conversation).expect("it rendered before");
    // The origins that every prompt has are all that is kept.
    let times = race(vec![
        Runner::new("render", prompt),
        Runner::new("kept", prompt),
        Runner::new("asked", || {
            let prompt = prompt();
            let account = Account::by_origins(conversation, &prompt);
            (prompt, account)
        }),
    ]);
    tell(name, with, [times[0].1, times[1].1, times[2].1]);
}

fn measure_template(name: &str, with: &str, template: &ChatTemplate, conversation: &Conversation) {
    let writer = &Writer::template(template.clone(), TemplateOptions::default());
    if writer.render(conversation).is_err() {
        return;
    }
    let times = race(vec![
        Runner::new("render", || writer.render(conversation).expect("it rendered before")),
        Runner::new("kept", || writer.record(conversation).expect("it rendered before")),
        Runner::new("asked", || writer.account(conversation).expect("it rendered before")),
    ]);
    tell(name, with, [times[0].1, times[1].1, times[2].1]);
}

/// Measures all rows, from JSON to the line that is written, and the account of each: what it adds to the rendering by a
/// template, and the notes, for which a format's account is determined.
fn measure_rows(name: &str, model: &Model, policy: Option<&str>) {
    let options = RowOptions { for_training: policy.map(str::to_owned), ..RowOptions::default() };
    let recipe = options.recipe().expect("valid options");
    let rows: Vec<String> = conversations::groups([3, 9, 20], ROWS).concat();
    let read = |row: &String| recipe.read(model, json::parse_unique(row).expect("valid JSON")).expect("it renders").1;
    let (mut whole, mut parts, mut line) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..ROUNDS {
        let (mut all, mut part) = (Duration::ZERO, Duration::ZERO);
        for row in &rows {
            let mut ready = Vec::new();
            all += time_of(|| ready = black_box(read(row)));
            let notes = time_of(|| ready.iter().for_each(|(_, ready)| drop(black_box(ready.notes()))));
            all += time_of(|| ready.iter().for_each(|(_, ready)| write(&mut line, ready)));
            // What a template's account costs is a part of reading the row.
            let by_template =
                |has_account| time_of(|| ready.iter().for_each(|(_, row)| again(&row.prompt, has_account)));
            (all, part) = (all + notes, part + notes + by_template(true).saturating_sub(by_template(false)));
            all += time_of(|| drop(ready));
        }
        whole.push(all);
        parts.push(part);
    }
    let [whole, part] = [whole, parts].map(|mut times| {
        times.sort();
        micros(times[ROUNDS / 2]) / ROWS as f64
    });
    let what = if policy.is_some() { "training" } else { "ids" };
    println!("{name:<48} {what:<9} {whole:>9.2} {part:>9.2} {:>9.1}", 100.0 * part / (whole - part));
}

/// Writes a row as a line of JSON.
fn write(line: &mut String, row: &Ready) {
    line.clear();
    let (encoded, truncated) = (row.encoded.as_ref(), row.truncated.as_ref());
    let loss = row.token_loss(Edges::default());
    answer::write(
        line,
        &Answer { id: None, side: None, prompt: row.prompt.prompt(), encoded, loss, truncated, part: row.part },
    );
    black_box(line);
}

/// Renders a prompt of a template again, with its account or without.
fn again(prompt: &ModelPrompt, has_account: bool) {
    let Some(template) = prompt.template() else { return };
    let options = TemplateOptions { now: prompt.now(), ..TemplateOptions::default() };
    let writer = Writer::template(template.clone(), options);
    let conversation = &prompt.request().conversation;
    match has_account {
        true => drop(black_box(writer.account(conversation))),
        false => drop(black_box(writer.render(conversation))),
    }
}

fn time_of(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn tell(name: &str, with: &str, times: [Duration; 3]) {
    let [render, kept, asked] = times.map(micros);
    let share = |with: f64| 100.0 * (with / render - 1.0);
    println!("{name:<48} {with:<6} {render:>9.2} {kept:>9.2} {:>9.1} {asked:>9.2} {:>9.1}", share(kept), share(asked));
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
