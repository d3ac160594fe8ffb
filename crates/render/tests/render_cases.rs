//! The cases of the model makers' formats, and of shared call layouts. Those of frameworks run in `interop`.

#[path = "common/render_case.rs"]
mod render_case;

use render_case::{check, folder};
use rolecall_conversation::{Conversation, Message};
use rolecall_fixture::Fixture;
use rolecall_format::{Slot, builtin, load, shared_calls};
use rolecall_openai::Request;
use rolecall_render::{Options, Writer};

#[test]
fn every_case_renders_as_it_says() {
    let registry = builtin();
    let own = |folder: &str| folder == "calls" || registry.get(folder).is_some();
    let import = |_: &str| panic!("only frameworks have files of their own");
    Fixture::check_all("render", |case| {
        if own(&folder(case)) {
            check(case, &registry, import);
        }
    });
}

#[test]
fn every_built_in_format_has_cases() {
    let cases = Fixture::of_folder("render");
    for format in builtin().iter() {
        let own = cases.iter().filter(|case| folder(case) == format.name).count();
        assert!(own >= 4, "fixtures/render/{} contains {own} cases", format.name);
    }
}

#[test]
fn every_shared_call_layout_has_cases() {
    let cases = Fixture::of_folder("render");
    let named = cases.iter().filter(|case| folder(case) == "calls");
    let named: Vec<String> = named.filter_map(|case| Request::from_text(case.needed("request")).ok()?.format).collect();
    for (name, _) in shared_calls() {
        assert!(named.contains(&format!("calls:{name}")), "fixtures/render/calls has no case for {name}");
    }
}

#[test]
fn a_new_family_needs_no_rust() {
    // The file is the example of the manual.
    let manual = include_str!("../../../formats/README.md");
    let example = manual.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();

    let mut registry = builtin();
    registry.add(load(example).unwrap()).unwrap();

    let fit = registry.resolve("acme/tiny-chat-7b").unwrap();
    assert_eq!(fit.format.name, "tiny-chat");
    let conversation = Conversation::new(vec![Message::system("Be brief."), Message::user("Hi</s>")]);
    let prompt = Writer::format(fit.format.clone(), Options::default()).render(&conversation).unwrap();
    assert_eq!(prompt.text(), "<s><|im|>system\nBe brief.</s>\n<|im|>user\nHi</s></s>\n<|im|>assistant\n");
    assert_eq!(prompt.stop_ids(), [2]);
}

#[test]
fn every_format_renders_its_plainest_conversation_and_joins_to_its_text() {
    for format in builtin().iter() {
        let mut messages = vec![Message::user("q1"), Message::assistant("a1"), Message::user("q2")];
        if format.layout(Slot::System).is_some() || format.layout(Slot::Folded).is_some() {
            messages.insert(0, Message::system("s"));
        }
        let conversation = Conversation::new(messages);
        let prompt = Writer::format(format.clone(), Options::default())
            .render(&conversation)
            .unwrap_or_else(|error| panic!("{}: {error}", format.name));
        let joined: String = prompt.segments().map(|segment| segment.text).collect();
        assert_eq!(joined, prompt.text(), "{}", format.name);
        for text in ["q1", "a1", "q2"] {
            let at = prompt.text().find(text).unwrap_or_else(|| panic!("{}: no {text}", format.name));
            let origin = prompt.origin_at(at).unwrap();
            assert!(origin.message().is_some(), "{}: {text} is {origin:?}", format.name);
        }
    }
}
