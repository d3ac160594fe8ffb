//! The cases of frameworks' formats.

#[path = "../../render/tests/common/render_case.rs"]
mod render_case;

use render_case::{check, folder};
use rolecall_conversation::{Conversation, Message};
use rolecall_fixture::Fixture;
use rolecall_format::{Slot, builtin};
use rolecall_interop::{FRAMEWORKS, import, register};
use rolecall_render::{Options, Writer};

#[test]
fn every_case_renders_as_it_says() {
    let mut registry = builtin();
    let others: Vec<String> = registry.iter().map(|format| format.name.clone()).chain(["calls".to_owned()]).collect();
    register(&mut registry).unwrap();
    let import = |text: &str| import(text, "mine").unwrap_or_else(|error| panic!("{error}"));
    Fixture::check_all("render", |case| {
        let folder = folder(case);
        match FRAMEWORKS.iter().any(|framework| framework.name == folder) {
            true => check(case, &registry, import),
            // These run in `render`.
            false => assert!(others.contains(&folder), "{}: no test runs it", case.path.display()),
        }
    });
}

#[test]
fn every_framework_has_cases() {
    let cases = Fixture::of_folder("render");
    for framework in FRAMEWORKS.iter().map(|framework| framework.name) {
        let own = cases.iter().filter(|case| folder(case) == framework).count();
        assert!(own >= 4, "fixtures/render/{framework} contains {own} cases");
    }
}

#[test]
fn every_format_renders_its_plainest_conversation_and_joins_to_its_text() {
    let mut registry = builtin();
    register(&mut registry).unwrap();
    for format in registry.iter() {
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
