//! local
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use rolecall_format::write_reply;
use rolecall_infer::infer;
use rolecall_parse::{ParseOptions, Reply, Stop, read};
use rolecall_render::ChatTemplate;
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&args[0]).unwrap();
    let source = match text.split_once("--- template\n") {
        Some((_, rest)) => rest.split_once("\n--- ").map_or(rest.trim_end(), |(t, _)| t).to_owned(),
        None => text,
    };
    let eos = std::env::var("EOS").unwrap_or("</s>".into());
    let template =
        ChatTemplate::compile(&source, vec![("bos_token".into(), "<s>".into()), ("eos_token".into(), eos)]).unwrap();
    let inferred = infer(&template);
    println!("{}", write_reply(&inferred.format));
    for (part, outcome) in &inferred.report.parts {
        println!("{}: {outcome:?}", part.name());
    }
    for note in &inferred.report.notes {
        println!("note {}: {} {:?}", note.part.name(), note.words, note.line);
    }
    println!("renders {} steps {}", inferred.report.renders, inferred.report.steps);
    if args.len() > 2 {
        let reply = Arc::new(Reply::new(&inferred.format));
        if std::env::var("DBG").is_ok() {
            println!("{reply:#?}");
        }
        let un = |s: &str| s.replace("\\n", "\n");
        let reading = read(
            &reply,
            ParseOptions { prompt_tail: un(&args[1]), ..ParseOptions::default() },
            &un(&args[2]),
            Stop::End,
        );
        println!("{reading:#?}");
    }
}
