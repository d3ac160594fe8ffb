//! Conversations rendered by a model's own template: origins, training text, and continuing the
//! last message.

use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, json, object};
use rolecall::loss::{Loss, LossPolicy};
use rolecall::render::Error as RenderError;
use rolecall::render::Writer;
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall::{Error, Prompt};

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\
    {% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>{% endgeneration %}{% else %}{{ m.content }}</s>\
    {% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

fn conversation(messages: &str, switches: Object) -> Conversation {
    let mut request = object! { "messages" => json::parse(messages).expect("it is JSON") };
    for (name, value) in switches.iter() {
        request.insert(name, value.clone());
    }
    Conversation::from_json(request.into()).expect("it is a conversation")
}

fn rendered(conversation: &Conversation) -> Result<Prompt, Error> {
    let template = ChatTemplate::compile(TEMPLATE, vec![("bos_token".into(), "<s>".into())])?;
    Ok(Writer::template(template.clone(), TemplateOptions::default()).render(conversation)?)
}

fn loss(prompt: &Prompt, conversation: &Conversation, mut policy: LossPolicy) -> Result<Loss, RenderError> {
    policy.tagged = true;
    let template = ChatTemplate::compile(TEMPLATE, vec![("bos_token".into(), "<s>".into())])?;
    let stops = ["</s>".to_owned()];
    Writer::template(template.clone(), TemplateOptions::default()).loss(prompt, conversation, &stops, &policy)
}

fn learned<'a>(prompt: &'a Prompt, conversation: &Conversation, policy: LossPolicy) -> Vec<&'a str> {
    let loss = loss(prompt, conversation, policy).expect("some text carries loss");
    loss.ranges().into_iter().map(|range| &prompt.text()[range]).collect()
}

fn complete() -> Object {
    object! { "add_generation_prompt" => false }
}

#[test]
fn every_byte_of_a_message_says_so() {
    let conversation = conversation(r#"[{"role": "user", "content": "<s></s>"}]"#, object! {});
    let prompt = rendered(&conversation).expect("it renders");
    assert_eq!(prompt.text(), "<s><|user|><s></s></s><|assistant|>");
    let own: Vec<bool> = prompt.segments().map(|segment| segment.origin.message().is_some()).collect();
    let texts: Vec<&str> = prompt.segments().map(|segment| segment.text).collect();
    let expected = [("<s><|", false), ("user", true), ("|>", false), ("<s></s>", true), ("</s><|assistant|>", false)];
    let joined: Vec<(&str, bool)> = texts.into_iter().zip(own).collect();
    // Pieces of the template may be separate, but a message's text must not be joined to them.
    for (text, mine) in expected.iter().filter(|(_, mine)| *mine) {
        assert!(joined.contains(&(text, *mine)), "{joined:?}");
    }
    let template: String = joined.iter().filter(|(_, mine)| !mine).map(|(text, _)| *text).collect();
    assert_eq!(template, "<s><||></s><|assistant|>");
}

#[test]
fn what_the_template_marks_is_learned_but_not_of_a_message_without_weight() {
    let messages = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]"#;
    let conversation = conversation(messages, complete());
    let prompt = rendered(&conversation).expect("it renders");
    let marked: Vec<&str> = prompt.generated.iter().map(|span| &prompt.text()[span.clone()]).collect();
    assert_eq!(marked, ["b</s>", "d</s>"]);
    assert_eq!(learned(&prompt, &conversation, LossPolicy::assistant()), ["d</s>"]);
}

#[test]
fn of_the_last_reply_alone_no_other_mark_is_learned() {
    let messages = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]"#;
    let conversation = conversation(messages, complete());
    let prompt = rendered(&conversation).expect("it renders");
    assert_eq!(learned(&prompt, &conversation, LossPolicy::last()), ["d</s>"]);
}

#[test]
fn a_text_that_comes_in_two_pieces_is_one_messages() {
    let template = ChatTemplate::compile("<{{ messages[0].content }}|{{ messages[0].content }}>", Vec::new());
    let conversation = conversation(r#"[{"role": "user", "content": "a"}]"#, object! {});
    let prompt =
        Writer::template(template.expect("it is Jinja").clone(), TemplateOptions::default()).render(&conversation);
    let turns = prompt.expect("it renders").turns().iter().map(|turn| (turn.start, turn.message)).collect::<Vec<_>>();
    assert_eq!(turns, [(0, None), (1, Some(0)), (4, None)]);
}

#[test]
fn nothing_to_learn_is_refused() {
    let messages = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "loss": false}]"#;
    let conversation = conversation(messages, complete());
    let prompt = rendered(&conversation).expect("it renders");
    let refusal = loss(&prompt, &conversation, LossPolicy::assistant());
    assert!(matches!(refusal, Err(RenderError::NoLoss)), "{refusal:?}");
}

#[test]
fn a_continued_message_is_open_even_where_others_say_the_same() {
    let messages = r#"[{"role": "assistant", "content": "ab</s>"}, {"role": "user", "content": "ab</s>"},
        {"role": "assistant", "content": "ab</s>"}]"#;
    let conversation =
        conversation(messages, object! { "add_generation_prompt" => false, "continue_final_message" => true });
    let prompt = rendered(&conversation).expect("it renders");
    assert_eq!(prompt.text(), "<s><|assistant|>ab</s></s><|user|>ab</s></s><|assistant|>ab</s>");
}

/// A tag in another text is text; transformers cuts at the last occurrence of its tag in any text.
#[test]
fn a_mark_in_another_text_is_text() {
    // The texts printed after the message have the tag at the position where the message's own text
    // has it.
    let source = "{% for m in messages %}<{{ m.content }}>{% endfor %}{{ documents[0].text }}{{ messages[1].note }}";
    let template = ChatTemplate::compile(source, Vec::new()).expect("it is Jinja");
    let mark = "CONTINUE_FINAL_MESSAGE_TAG ";
    let messages = json::parse(&format!(
        r#"[{{"role": "user", "content": "a{mark}"}}, {{"role": "assistant", "content": "b{mark}b", "note": "b{mark}b{mark}"}}]"#
    ));
    let conversation = Conversation::from_json(
        object! {
            "messages" => messages.expect("it is JSON"),
            "documents" => Json::Array(vec![object! { "text" => format!("b{mark}b{mark}") }.into()]),
            "continue_final_message" => true,
        }
        .into(),
    );
    let conversation = conversation.expect("it is a conversation");
    let prompt =
        Writer::template(template.clone(), TemplateOptions::default()).render(&conversation).expect("it renders");
    assert_eq!(prompt.text(), format!("<a{mark}><b{mark}b"));
}

#[test]
fn a_refusal_names_kind_line_and_words() {
    let source = "{% if messages[0].role == 'user' %}\n{{ raise_exception('no ' ~ messages[0].role) }}{% endif %}";
    let template = ChatTemplate::compile(source, Vec::new()).expect("it is Jinja");
    let conversation = conversation(r#"[{"role": "user", "content": "a"}]"#, object! {});
    let refusal = Writer::template(template.clone(), TemplateOptions::default()).render(&conversation);
    let Err(RenderError::Template { error, .. }) = refusal else { panic!("{refusal:?}") };
    assert_eq!((error.kind().code(), error.message(), error.place().line), ("rejected", "no user", 2));
}

#[test]
fn switches_of_the_caller_win_over_the_conversations() {
    let template = ChatTemplate::compile("{{ a }}{{ b }}", Vec::new()).expect("it is Jinja");
    let conversation = conversation(
        r#"[{"role": "user", "content": "a"}]"#,
        object! { "chat_template_kwargs" => object! { "a" => 1, "b" => 2 } },
    );
    let options = TemplateOptions { kwargs: object! { "b" => Json::from(3) }, ..TemplateOptions::default() };
    assert_eq!(
        Writer::template(template.clone(), options.clone()).render(&conversation).expect("it renders").text(),
        "13"
    );
}

/// Checks that a cut prompt keeps the part of each generation span before the cut, and nothing
/// after it.
#[test]
fn a_cut_prompt_has_no_generation_span_beyond_the_cut() {
    let messages = r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b日"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "dd"}]"#;
    let conversation = conversation(messages, complete());
    let prompt = rendered(&conversation).expect("it renders");
    let inside = |at: usize| prompt.generated.iter().any(|span| span.contains(&at));
    assert_eq!(prompt.generated.len(), 2);
    for end in 0..=prompt.text().len() {
        let Some(cut) = prompt.up_to(end) else {
            assert!(!prompt.text().is_char_boundary(end));
            continue;
        };
        assert_eq!(cut.text(), &prompt.text()[..end]);
        assert!(
            cut.generated.iter().all(|span| span.start < span.end && span.end <= end),
            "{end}: {:?}",
            cut.generated
        );
        assert!(cut.turns().iter().all(|turn| turn.start < end), "{end}: {:?}", cut.turns());
        for at in 0..end {
            assert_eq!(cut.generated.iter().any(|span| span.contains(&at)), inside(at), "{end} at {at}");
            assert_eq!(cut.origin_at(at), prompt.origin_at(at), "{end} at {at}");
        }
    }
}

#[test]
fn a_prompt_without_its_opening_token_has_its_spans_where_they_then_are() {
    let messages = r#"[{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]"#;
    let conversation = conversation(messages, complete());
    let prompt = rendered(&conversation).expect("it renders");
    let without = prompt.clone().without_bos("<s>");
    let shifted: Vec<_> = prompt.generated.iter().map(|span| span.start - 3..span.end - 3).collect();
    assert_eq!((without.text(), &without.generated), (&prompt.text()[3..], &shifted));
    let turns = |prompt: &Prompt, by: usize| -> Vec<_> {
        prompt.turns().iter().map(|turn| (turn.start.saturating_sub(by), turn.message)).collect()
    };
    let expected: Vec<_> = turns(&prompt, 3).into_iter().filter(|(_, message)| message.is_some()).collect();
    let found: Vec<_> = turns(&without, 0).into_iter().filter(|(_, message)| message.is_some()).collect();
    assert_eq!(found, expected);
    for at in 0..without.text().len() {
        assert_eq!(without.origin_at(at), prompt.origin_at(at + 3), "{at}");
    }
    // A text that only begins like the token is not cut, and neither is one from a message.
    assert_eq!(without.clone().without_bos("<s>").text(), without.text());
    assert_eq!(prompt.clone().without_bos("").text(), prompt.text());
}
