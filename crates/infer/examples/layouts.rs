//! Prints the layouts inferred from chat templates: `layouts FILE..`. Special tokens come from an
//! `index.json` in the same folder.

use std::time::Instant;
use std::{env, fs, path::Path};

use rolecall_conversation::{Json, json};
use rolecall_format::{Codec, Op, Slot};
use rolecall_infer::infer;
use rolecall_render::ChatTemplate;

fn main() {
    for file in env::args().skip(1) {
        let path = Path::new(&file);
        let Ok(source) = fs::read_to_string(path) else { continue };
        let index = path.with_file_name("index.json");
        let index = fs::read_to_string(index).ok().and_then(|text| json::parse(&text).ok());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let tokens = index.as_ref().map(|index| tokens_of(index, name)).unwrap_or_default();
        println!("== {name}");
        let template = match ChatTemplate::compile(&source, tokens) {
            Ok(template) => template,
            Err(error) => {
                println!("   {error}");
                continue;
            }
        };
        let start = Instant::now();
        let inferred = infer(&template);
        let took = start.elapsed();
        for slot in Slot::ALL {
            if let Some(layout) = inferred.format.layout(slot) {
                println!("{:>22} = {}", slot.key(), written(layout.ops()));
            }
        }
        for (part, outcome) in &inferred.report.parts {
            println!("   {}: {outcome:?}", part.name());
        }
        for note in &inferred.report.notes {
            println!("   note {}: {} {:?}", note.part.name(), note.words, note.line);
        }
        println!("   {} renders, {took:?}", inferred.report.renders);
    }
}

fn written(ops: &[Op]) -> String {
    let mut text = String::new();
    for op in ops {
        match op {
            Op::Literal(literal) => text.push_str(
                &format!("{literal:?}").trim_matches('"').replace("\\\"", "\"").replace('{', "{{").replace('}', "}}"),
            ),
            Op::Hole { field, codec: Codec::Text, .. } => text.push_str(&format!("{{{}}}", field.name())),
            Op::Hole { field, codec, .. } => text.push_str(&format!("{{{}:{}}}", field.name(), codec.spelling())),
            Op::Group(inner) => text.push_str(&format!("[[{}]]", written(inner))),
            other => text.push_str(&format!("{other:?}")),
        }
    }
    text
}

fn tokens_of(index: &Json, file: &str) -> Vec<(String, String)> {
    let entries =
        index.as_object().and_then(|index| index.get("templates")).and_then(Json::as_array).unwrap_or_default();
    let entry =
        entries.iter().filter_map(Json::as_object).find(|entry| entry.get("file").and_then(Json::as_str) == Some(file));
    let Some(entry) = entry else { return Vec::new() };
    let token = |key: &str| Some((key.to_owned(), entry.get(key)?.as_str()?.to_owned()));
    ["bos_token", "eos_token"].into_iter().filter_map(token).collect()
}
