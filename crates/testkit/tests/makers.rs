//! Each format writes the text of its maker's own template on every case of the template vectors,
//! except for the differences that `fixtures/makers.toml` lists with their reasons.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::BTreeMap;
use std::fs;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::format::registry;
use rolecall::render::{Bos, Options, Writer};
use rolecall_testkit::{Makers, Pair};

#[test]
fn formats_give_the_text_of_their_makers_templates() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no maker's template is compared");
        return;
    };
    let text = fs::read_to_string(shared.join("golden/hf_jinja.jsonl")).unwrap();
    let (cases, goldens) = read(&text);
    let registry = registry();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for pair in Makers::read().pairs {
        let format = registry.get(&pair.format).unwrap_or_else(|| panic!("no format {}", pair.format));
        for (case, request) in &cases {
            let golden = goldens.get(&(pair.template.clone(), case.clone()));
            let golden = golden.unwrap_or_else(|| panic!("no golden {} {case}", pair.template));
            let bos = if pair.bos { Bos::Write } else { Bos::LeaveToTokenizer };
            let options = Options { bos, choices: pair.options.clone(), ..Options::default() };
            let conversation = Conversation::from_json(request.clone()).map_err(|error| error.to_string());
            let found = conversation.and_then(|conversation| {
                match Writer::format(format.clone(), options.clone()).render(&conversation) {
                    Ok(prompt) => Ok(prompt.into_text()),
                    Err(error) => Err(error.to_string()),
                }
            });
            compared += 1;
            let same = match (&found, golden.as_object().and_then(|golden| golden.get("output"))) {
                (Ok(found), Some(Json::String(output))) => found == output,
                (Err(_), None) => true,
                _ => false,
            };
            judge(&pair, case, same, &found, golden, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("{compared} cases compared");
}

fn judge(pair: &Pair, case: &str, same: bool, found: &Result<String, String>, golden: &Json, wrong: &mut Vec<String>) {
    let listed = pair.differs.contains_key(case);
    if same == listed {
        let note = if listed { "is listed as different but does not differ" } else { "differs but is not listed" };
        let golden = json::write(golden, &json::Layout::default());
        wrong.push(format!(
            "{} / {} {case} {note}\n  found:  {found:?}\n  golden: {golden}",
            pair.format, pair.template
        ));
    }
}

type Cases = Vec<(String, Json)>;
type Goldens = BTreeMap<(String, String), Json>;

fn read(text: &str) -> (Cases, Goldens) {
    let mut cases = Vec::new();
    let mut goldens = BTreeMap::new();
    for line in text.lines() {
        let Ok(Json::Object(row)) = json::parse(line) else { panic!("not a row: {line}") };
        match field(&row, "kind") {
            "case" => cases.push((field(&row, "id").to_owned(), request(&row))),
            "golden" => {
                let key = (field(&row, "template").to_owned(), field(&row, "case").to_owned());
                goldens.insert(key, Json::Object(row));
            }
            _ => {}
        }
    }
    (cases, goldens)
}

fn request(row: &Object) -> Json {
    let mut request = object! {};
    for key in ["messages", "tools", "documents", "add_generation_prompt", "continue_final_message"] {
        request.insert(key, row.get(key).cloned().unwrap_or(Json::Null));
    }
    request.insert("chat_template_kwargs", row.get("kwargs").cloned().unwrap_or(Json::Null));
    Json::Object(request)
}

fn field<'a>(row: &'a Object, key: &str) -> &'a str {
    row.get(key).and_then(Json::as_str).unwrap_or_default()
}
