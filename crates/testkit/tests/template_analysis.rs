//! What the analysis says of real templates, beside what transformers wrote through them.

use std::collections::HashMap;
use std::fs;

use rolecall::{Capability, ChatTemplate, Json, Support, TemplateOptions, analyze_template, json};

/// A case of the golden files that shows a capability, by words of it that are then in the output.
const SHOWN: [(Capability, &str, &str); 3] = [
    (Capability::System, "system", "You are a careful assistant."),
    (Capability::Tools, "tools_offered", "get_weather"),
    (Capability::Documents, "documents", "330 m tall"),
];

/// A system message of one's own replaces the one that offers the tools, and the golden case has one.
const TOOLS_WITHOUT_SYSTEM: &str = "vllm--tool_chat_template_granite_20b_fc.jinja";

#[test]
fn what_real_templates_take_is_what_the_reference_wrote_through_them() {
    let Some(shared) = rolecall_testkit::shared() else {
        rolecall_testkit::say_skipped("no real template was analyzed");
        return;
    };
    let golden = fs::read_to_string(shared.join("golden/hf_jinja.jsonl")).expect("the golden outputs are there");
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
            let is_excused = capability == Capability::Tools && file == TOOLS_WITHOUT_SYSTEM;
            if wrote != (*analysis.support(capability) == Support::Yes) && !is_excused {
                differences.push(format!("{file}: {} {:?}", capability.name(), analysis.support(capability)));
            }
        }
        let parts = outputs.get(&(file.clone(), "content_parts".to_owned()));
        // The case has a system message in parts too, and white space at an end: not all that take parts take these.
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
