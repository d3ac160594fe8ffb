//! Compares the analysis of real templates with what transformers renders through them.

use std::collections::HashMap;
use std::fs;

use rolecall::conversation::{Conversation, Json, json};
use rolecall::render::Writer;
use rolecall::template::{
    ArgumentForm, Capability, ChatTemplate, DateTime, FindingKind, Forms, Support, TemplateOptions, analyze_template,
};

/// The golden cases that show a capability, each with words that the output then contains.
const SHOWN: [(Capability, &str, &str); 3] = [
    (Capability::System, "system", "You are a careful assistant."),
    (Capability::Tools, "tools_offered", "get_weather"),
    (Capability::Documents, "documents", "330 m tall"),
];

/// A system message replaces the one that offers the tools, and the golden case has one.
const TOOLS_WITHOUT_SYSTEM: &str = "vllm--tool_chat_template_granite_20b_fc.jinja";

/// These templates take content only in parts, and the golden case has text.
const SYSTEM_IN_PARTS: [&str; 4] = [
    "trl--idefics3_training.jinja",
    "trl--llava_next.jinja",
    "trl--llava_next_training.jinja",
    "trl--llava_next_training~2.jinja",
];

#[test]
fn what_real_templates_take_is_what_the_reference_wrote_through_them() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real template is analyzed");
        return;
    };
    let golden = fs::read_to_string(shared.join("golden/hf_jinja.jsonl")).expect("the golden outputs exist");
    let rows = golden.lines().filter_map(|line| json::parse(line).ok());
    let mut outputs: HashMap<(String, String), String> = HashMap::new();
    for row in rows {
        let text = |key: &str| Some(row.as_object()?.get(key)?.as_str()?.to_owned());
        if let (Some(template), Some(case)) = (text("template"), text("case")) {
            outputs.insert((template, case), text("output").unwrap_or_default());
        }
    }
    let mut analyzed = 0;
    let mut differences = Vec::new();
    for (file, tokens) in templates(&shared) {
        let source = fs::read_to_string(shared.join("templates").join(&file)).expect("the index names files");
        let template = ChatTemplate::compile(&source, tokens).expect("a real template compiles");
        let analysis = analyze_template(&template, &TemplateOptions::default()).expect("a real template is analyzed");
        analyzed += 1;
        let lines: Vec<&str> = template.source().split('\n').collect();
        for finding in analysis.findings.iter().filter_map(|finding| finding.spot) {
            let line = lines.get(finding.line as usize - 1).expect("a finding is in the template");
            assert!(finding.column as usize <= line.chars().count() + 1, "{file}: {finding:?}");
        }
        for (capability, case, words) in SHOWN {
            let wrote = outputs.get(&(file.clone(), case.to_owned())).is_some_and(|output| output.contains(words));
            let is_excused = match capability {
                Capability::Tools => file == TOOLS_WITHOUT_SYSTEM,
                Capability::System => SYSTEM_IN_PARTS.contains(&file.as_str()),
                _ => false,
            };
            if wrote != (*analysis.support(capability) == Support::Yes) && !is_excused {
                differences.push(format!("{file}: {} {:?}", capability.name(), analysis.support(capability)));
            }
        }
        let parts = outputs.get(&(file.clone(), "content_parts".to_owned()));
        // The case also has a system message in parts, and white space at an end: some templates
        // with parts do not accept these.
        let is_list = |output: &str| output.contains("'type'") || output.contains("\"type\"");
        let wrote = parts.is_some_and(|output| output.contains("Part one. ") && !is_list(output));
        if wrote && *analysis.support(Capability::ContentParts) != Support::Yes {
            differences.push(format!("{file}: parts {:?}", analysis.support(Capability::ContentParts)));
        }
    }
    println!("{analyzed} templates analyzed");
    assert!(analyzed > 100);
    assert!(differences.is_empty(), "{} of {analyzed}:\n{}", differences.len(), differences.join("\n"));
}

/// Checks that a call's arguments give the same prompt as JSON text and as an object, in the form
/// that the template wants. If the template takes either form, they also give the same prompt
/// unchanged.
#[test]
fn arguments_in_the_wanted_form_come_out_alike() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real template renders calls");
        return;
    };
    let conversation = |arguments: &str, content: &str| {
        let text = format!(
            r#"{{"messages": [{{"role": "user", "content": "Weather?"}},
            {{"role": "assistant", "content": {content}, "tool_calls": [{{"id": "call00001", "type": "function",
                "function": {{"name": "get_weather", "arguments": {arguments}}}}}]}},
            {{"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "sun"}}]}}"#
        );
        Conversation::from_json(json::parse(&text).expect("it is JSON")).expect("it is a conversation")
    };
    let (mut wanted, mut either) = (0, 0);
    for (file, tokens) in templates(&shared) {
        let source = fs::read_to_string(shared.join("templates").join(&file)).expect("the index names files");
        let template = ChatTemplate::compile(&source, tokens).expect("a real template compiles");
        let calls = template.wanted_calls().expect("a real template is within the budget");
        let Some(form) = calls.arguments else { continue };
        for content in ["\"\"", "null", "\"I look.\""] {
            let render = |arguments: &str, forms| {
                let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
                let options = TemplateOptions { now: Some(now), forms, ..TemplateOptions::default() };
                let prompt =
                    Writer::template(template.clone(), options.clone()).render(&conversation(arguments, content));
                prompt.map(|prompt| prompt.text().to_owned()).ok()
            };
            let [object, text] = [r#"{"city": "Rome"}"#, r#""{\"city\": \"Rome\"}""#];
            assert_eq!(render(object, Forms::AsWanted), render(text, Forms::AsWanted), "{file}, {form:?}");
            wanted += 1;
            if form == ArgumentForm::Either {
                assert_eq!(render(object, Forms::AsGiven), render(text, Forms::AsGiven), "{file}");
                either += 1;
            }
        }
    }
    println!("{wanted} pairs of conversations, {either} of them also unchanged");
    assert!(wanted > 100 && either > 10);
}

/// Compares findings about generation prompts with what the templates write.
#[test]
fn an_unguarded_generation_prompt_stands_behind_an_answer() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real template's generation prompt is checked");
        return;
    };
    let mut unguarded = Vec::new();
    for (file, tokens) in templates(&shared) {
        let source = fs::read_to_string(shared.join("templates").join(&file)).expect("the index names files");
        let template = ChatTemplate::compile(&source, tokens).expect("a real template compiles");
        let analysis = analyze_template(&template, &TemplateOptions::default()).expect("a real template is analyzed");
        if analysis.findings.iter().any(|finding| finding.kind == FindingKind::UnguardedGenerationPrompt) {
            unguarded.push(file);
        }
    }
    // Each was reviewed: a conversation that ends with an answer ends with an open turn there.
    assert_eq!(
        unguarded,
        [
            "hfjs--MadeAgents--Hammer2.1.jinja",
            "hfjs--codellama--CodeLlama-70b-Instruct-hf.jinja",
            "vllm--tool_chat_template_phi4_mini.jinja",
            "vllm--tool_chat_template_toolace.jinja",
        ]
    );
}

type Tokens = Vec<(String, String)>;

fn templates(shared: &std::path::Path) -> Vec<(String, Tokens)> {
    let index = fs::read_to_string(shared.join("templates/index.json")).expect("templates have an index");
    let index = json::parse(&index).expect("the index is JSON");
    let entries = index.as_object().and_then(|index| index.get("templates")?.as_array()).unwrap_or_default();
    let each = entries.iter().filter_map(Json::as_object).filter_map(|entry| {
        let token = |name: &str| Some((name.to_owned(), entry.get(name)?.as_str()?.to_owned()));
        let tokens = ["bos_token", "eos_token"].into_iter().filter_map(token).collect();
        Some((entry.get("file")?.as_str()?.to_owned(), tokens))
    });
    each.collect()
}
