//! What a model's template cannot write is written in another form, or refused by name: nothing is ignored.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod common;

use std::sync::Arc;

use common::{Server, StandIn, Step, at};
use rolecall::Model;
use rolecall::format::registry;
use rolecall::template::ModelTemplates;
use rolecall_gateway::engine::Kind;
use rolecall_gateway::{Keys, Limits};
use rolecall_testkit::Toy;

/// It fails without a content, and leaves out roles that it does not know, tools and documents.
const NARROW: &str = r"{%- for message in messages %}{%- if 'forged' in message.content %}{{- 'x' }}{% endif %}
{%- if message.role in ['system', 'user', 'assistant'] %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}";

/// It writes Python's `None`, and every role.
const CARELESS: &str = r"{%- for message in messages %}{{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}";

/// A server with a template, whose model says nothing.
async fn server(template: &str) -> Server {
    let templates = ModelTemplates::from_json(&template.into()).unwrap();
    let toy = Toy::of(registry().get("chatml").unwrap());
    let model = Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let engine = StandIn::new(Kind::LlamaCpp, vec![Step::End("eos")]);
    let address = engine.start().await;
    Server::of(&address, model, "model", engine, Limits::default(), Keys::default()).await
}

/// Returns the prompt that messages give, or the code, the field and the index of the error.
async fn prompt(server: &Server, messages: &str, more: &str) -> Result<String, (String, String, Option<i64>)> {
    let body = format!(r#"{{"messages": [{messages}]{more}}}"#);
    let (status, answer) = server.post("/v1/chat/completions", &body).await;
    if status != 200 {
        let text = |path: &str| at(&answer, path).as_str().unwrap_or_default().to_owned();
        let index = answer.as_object().and_then(|answer| answer.get("error")?.as_object()?.get("message_index"));
        let index = index.map(|index| i64::from(common::integer(index)));
        assert_eq!(status, 400, "{answer:?}");
        return Err((text("error.code"), text("error.param"), index));
    }
    let ids = server.engine.prompt();
    let toy = Toy::of(registry().get("chatml").unwrap());
    Ok(toy.written(&ids))
}

fn refused(code: &str, field: &str, index: Option<i64>) -> Result<String, (String, String, Option<i64>)> {
    Err((code.to_owned(), field.to_owned(), index))
}

const HI: &str = r#"{"role": "user", "content": "Hi"}"#;

#[tokio::test]
async fn a_developer_s_message_is_the_system_s_where_the_template_knows_only_that() {
    let developer = format!(r#"{{"role": "developer", "content": "Be brief."}}, {HI}"#);
    let end = "Be brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    let narrow = server(NARROW).await;
    assert_eq!(prompt(&narrow, &developer, "").await, Ok(format!("<|im_start|>system\n{end}")));
    let careless = server(CARELESS).await;
    assert_eq!(prompt(&careless, &developer, "").await, Ok(format!("<|im_start|>developer\n{end}")));
}

#[tokio::test]
async fn a_call_without_content_has_an_empty_one_where_the_template_cannot_write_that() {
    let call = r#"{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    for content in [r#""content": null,"#, r#""content": "","#, ""] {
        let messages = format!(r#"{HI}, {{"role": "assistant", {content} "tool_calls": [{call}]}}, {HI}"#);
        let wanted = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
        for template in [NARROW, CARELESS] {
            let server = server(template).await;
            assert_eq!(prompt(&server, &messages, "").await.as_deref(), Ok(wanted), "{content}");
        }
    }
}

#[tokio::test]
async fn what_the_template_leaves_out_is_refused_by_name() {
    let narrow = server(NARROW).await;
    let messages = format!(r#"{HI}, {{"role": "critic", "content": "Bad."}}"#);
    assert_eq!(prompt(&narrow, &messages, "").await, refused("left_out", "content", Some(1)));
    let goes_on = r#", "continue_final_message": true"#;
    let after = format!(r#"{messages}, {{"role": "assistant", "content": "Well"}}"#);
    assert_eq!(prompt(&narrow, &after, goes_on).await, refused("left_out", "content", Some(1)));
    let messages = format!(r#"{HI}, {{"role": "function", "name": "f", "content": "42"}}"#);
    assert_eq!(prompt(&narrow, &messages, "").await, refused("left_out", "content", Some(1)));
    // Where a session has messages before, the client counts its own.
    let session = r#", "session_id": 7"#;
    assert!(prompt(&narrow, HI, session).await.is_ok());
    let critic = r#"{"role": "critic", "content": "Bad."}"#;
    assert_eq!(prompt(&narrow, critic, session).await, refused("left_out", "content", Some(0)));
    assert!(prompt(&narrow, HI, session).await.is_ok());
    let careless = server(CARELESS).await;
    let end = "critic\nBad.<|im_end|>\n<|im_start|>assistant\n";
    assert!(prompt(&careless, critic, "").await.unwrap().ends_with(end));

    let tool = r#"{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}"#;
    for (more, field) in [
        (format!(r#", "tools": [{tool}]"#), "tools[0]"),
        (r#", "documents": [{"title": "a", "text": "b"}]"#.to_owned(), "documents[0]"),
        (r#", "chat_template_kwargs": {"enable_thinking": false}"#.to_owned(), "chat_template_kwargs.enable_thinking"),
    ] {
        // Also when it is asked for again, and if the last message goes on.
        let goes_on = format!(r#"{more}, "continue_final_message": true"#);
        for more in [&more, &more, &goes_on] {
            assert_eq!(prompt(&narrow, HI, more).await, refused("unsupported_parameter", field, None), "{more}");
        }
    }
    // Without a wish for calls, the tools do not matter.
    let more = format!(r#", "tools": [{tool}], "tool_choice": "none""#);
    assert!(prompt(&narrow, HI, &more).await.is_ok());
}

#[tokio::test]
async fn a_message_that_the_template_leaves_out_because_of_its_place_is_no_error() {
    // As some of Mistral's templates, which write the instructions only before a last message of the user.
    let template = r"{%- if messages[0].role == 'system' and messages[-1].role == 'user' %}{{- messages[0].content }}{% endif %}
{%- for message in messages if message.role != 'system' %}{{- message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}";
    let server = server(template).await;
    let system = r#"{"role": "system", "content": "Be brief."}"#;
    let asked = prompt(&server, &format!("{system}, {HI}"), "").await.unwrap();
    assert_eq!(asked, "Be brief.user\nHi<|im_end|>\n");
    let tool = r#"{"role": "tool", "tool_call_id": "call00000", "content": "42"}"#;
    let told = prompt(&server, &format!("{system}, {HI}, {tool}"), "").await.unwrap();
    assert_eq!(told, "user\nHi<|im_end|>\ntool\n42<|im_end|>\n");
}

#[tokio::test]
async fn what_an_engine_cannot_see_is_refused_by_name() {
    for template in [NARROW, CARELESS] {
        let server = server(template).await;
        for kind in ["image_url", "input_audio", "video_url", "file"] {
            let part =
                format!(r#"[{{"type": "text", "text": "look"}}, {{"type": "{kind}", "{kind}": {{"url": "a"}}}}]"#);
            let messages = format!(r#"{HI}, {{"role": "user", "content": {part}}}"#);
            let wanted = refused("unsupported_parameter", "content[1]", Some(1));
            assert_eq!(prompt(&server, &messages, "").await, wanted, "{kind}");
        }
    }
}
