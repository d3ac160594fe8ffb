//! Compares rendering with minijinja 3 and with one copy of the output's bytes.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value, context};
use rolecall::conversation::{Conversation, Json, json};
use rolecall::format::Registry;
use rolecall::render::{Options, Writer};
use rolecall_benches::{Runner, in_turns, race};

/// The peer's templates of the same three families, written for this benchmark.
const TEMPLATES: [(&str, &str); 3] = [
    (
        "chatml",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    ),
    (
        "llama3",
        "{{ '<|begin_of_text|>' }}{% for m in messages %}\
         {{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    ),
    (
        "internlm2",
        "{{ '<s>' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    ),
];

fn main() {
    let registry = rolecall::format::registry();
    println!(
        "{:<10} {:>8} {:>7}  {:>9} {:>9} {:>9} {:>9} {:>9}   {:>8} {:>8} {:>7}",
        "format",
        "messages",
        "bytes",
        "minijinja",
        "its value",
        "rolecall",
        "from JSON",
        "copy",
        "× faster",
        "× JSON",
        "× copy"
    );
    for (name, template) in TEMPLATES {
        for messages in [3, 200] {
            measure(&registry, name, template, messages);
        }
    }
    println!("\ntimes in µs, medians; × faster: minijinja from its JSON value / rolecall from a conversation;");
    println!(
        "× JSON: as before, but rolecall's time includes checking the JSON value; × copy: rolecall / one copy of the output"
    );
}

fn measure(registry: &Registry, name: &str, template: &str, messages: usize) {
    let text = conversation(messages);
    let format = registry.get(name).expect("a built-in format");
    let options = Options::default();

    let mut environment = Environment::new();
    environment
        .set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("a valid syntax"));
    environment.add_template(name, template).expect("a valid template");
    let compiled = environment.get_template(name).expect("just added");
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let peer_messages = value.get("messages").cloned().expect("messages");
    let by_peer = || {
        let messages = Value::from(minijinja::value::Serde(&peer_messages));
        compiled.render(context! { messages, add_generation_prompt => true }).expect("it renders")
    };
    let converted = Value::from(minijinja::value::Serde(&peer_messages));
    let by_peer_converted = || {
        compiled.render(context! { messages => converted.clone(), add_generation_prompt => true }).expect("it renders")
    };

    let parsed: Json = json::parse(&text).expect("valid JSON");
    let ready = Conversation::from_json(parsed.clone()).expect("a conversation");
    let writer = Writer::format(format.clone(), options);
    let by_us = || writer.render(&ready).expect("it renders");
    let from_json = |value: Json| {
        let conversation = Conversation::from_json(value).expect("a conversation");
        let prompt = writer.render(&conversation).expect("it renders");
        (conversation, prompt)
    };

    let output = by_peer();
    assert_eq!(output, by_us().text(), "{name}: the two prompts differ");
    let times = race(vec![
        Runner::new("minijinja", by_peer),
        Runner::new("its value", by_peer_converted),
        Runner::new("rolecall", by_us),
        Runner::with_input("from JSON", || parsed.clone(), from_json),
        Runner::new("copy", || output.clone()),
    ]);
    let micros: Vec<f64> = times.iter().map(|(_, time)| time.as_nanos() as f64 / 1000.0).collect();
    println!(
        "{name:<10} {messages:>8} {:>7}  {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}   {:>8.1} {:>8.1} {:>7.1}",
        output.len(),
        micros[0],
        micros[1],
        micros[2],
        micros[3],
        micros[4],
        micros[0] / micros[2],
        micros[0] / micros[3],
        micros[2] / micros[4],
    );
}

/// Makes turns of about fifty words, some not ASCII.
fn conversation(messages: usize) -> String {
    let words = "the weather in Köln is 18.5 degrees and clear, 今天天气很好, so we walk along the river until the lights come on; \
                 tell me which of the three roads is the shortest one and why nobody takes it at night — «никто» — \
                 even though it is lit, dry and well known to all";
    in_turns(messages, |turn| format!("{turn}: {words}"))
}
