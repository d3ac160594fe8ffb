//! For every real chat template, the pieces join to the prompt, and the text of each message or
//! tool has its own origin.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::fs;

use rolecall::conversation::{Conversation, Json, json};
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, DateTime, TemplateOptions};
use rolecall::{Origin, Prompt};

/// Each text occurs only once, so each of its bytes can only come from one place.
const CONVERSATIONS: [&str; 4] = [
    r#"{"messages": [{"role": "system", "content": "Sys0 words"}, {"role": "user", "content": "User1 words"},
        {"role": "assistant", "content": "Answer2 words"}, {"role": "user", "content": "User3 words"}]}"#,
    r#"{"messages": [{"role": "user", "content": "User0 words"}, {"role": "assistant", "content": "Answer1 words"},
        {"role": "user", "content": "User2 words"}]}"#,
    r#"{"messages": [{"role": "user", "content": "User0 words"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
            "function": {"name": "Call1name", "arguments": {"Call1key": "Call1value"}}}]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "Call1name", "content": "Result2 words"}],
        "tools": [{"type": "function", "function": {"name": "Tool0name", "description": "Tool0 words", "parameters":
            {"type": "object", "properties": {"Tool0key": {"type": "string", "description": "Tool0 more"}}}}}]}"#,
    r#"{"messages": [{"role": "user", "content": "<|im_end|>Mark0"}, {"role": "assistant", "content": "</s>Mark1"},
        {"role": "user", "content": "Mark2<|eot_id|>"}], "add_generation_prompt": false}"#,
];

#[test]
fn each_text_is_tagged_with_the_message_or_tool_that_said_it() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real template is checked");
        return;
    };
    let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
    let options = TemplateOptions { now: Some(now), ..TemplateOptions::default() };
    let (mut templates, mut prompts, mut found) = (0, 0, 0);
    for entry in fs::read_dir(shared.join("templates")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jinja") {
            continue;
        }
        let tokens = vec![("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
        let template = ChatTemplate::compile(&fs::read_to_string(&path).unwrap(), tokens).unwrap();
        templates += 1;
        for text in CONVERSATIONS {
            let conversation = Conversation::from_json(json::parse(text).unwrap()).unwrap();
            // Many templates refuse a system message, tools or an order of roles.
            let Ok(prompt) = Writer::template(template.clone(), options.clone()).render(&conversation) else {
                continue;
            };
            prompts += 1;
            let joined: String = prompt.segments().map(|segment| segment.text).collect();
            assert_eq!(joined, prompt.text(), "{}", path.display());
            found += tagged(&prompt, &words(text)).unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()));
        }
    }
    println!("{templates} templates, {prompts} prompts, {found} texts found with their origins");
    assert!(templates > 100 && prompts > 2 * templates && found > 4 * templates, "{templates} {prompts} {found}");
}

/// Returns the distinctive words of a conversation, each with whether it belongs to a tool, and the
/// number of its message or tool.
fn words(text: &str) -> Vec<(String, bool, usize)> {
    let mut words: Vec<(String, bool, usize)> = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        let Some(at) = word.find(|c: char| c.is_ascii_digit()) else { continue };
        let known = ["Sys", "User", "Answer", "Call", "Result", "Mark", "Tool"].contains(&&word[..at]);
        let digit = word[at..=at].parse().unwrap();
        // The result of a call repeats the call's name.
        if known && word != "Call1name" && !words.iter().any(|(other, ..)| other == word) {
            words.push((word.to_owned(), &word[..at] == "Tool", digit));
        }
    }
    words
}

/// Counts the occurrences of the words in the prompt, and checks the origin of each of their bytes.
fn tagged(prompt: &Prompt, words: &[(String, bool, usize)]) -> Result<usize, String> {
    let mut found = 0;
    for (word, is_tool, number) in words {
        for (start, _) in prompt.text().match_indices(word.as_str()) {
            found += 1;
            for at in start..start + word.len() {
                let right = match prompt.origin_at(at) {
                    Some(Origin::Message { message, .. }) => !is_tool && message == *number,
                    Some(Origin::Tool { tool }) => *is_tool && tool == *number,
                    _ => false,
                };
                if !right {
                    let text = json::write(&Json::from(prompt.text()), &json::Layout::default());
                    return Err(format!("`{word}` at byte {at} is {:?} in {text}", prompt.origin_at(at)));
                }
            }
        }
    }
    Ok(found)
}
