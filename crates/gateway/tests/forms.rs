//! What a model's template cannot write is written in another form, or refused by name: nothing is ignored.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use crate::common::{Server, StandIn, Step, at};
use rolecall::Model;
use rolecall::format::registry;
use rolecall::session::OnRewrite;
use rolecall::template::ModelTemplates;
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Config, Gateway, Keys, Limits, ModelConfig, OpenFault};
use rolecall_testkit::Toy;

/// It fails without a content, and leaves out roles that it does not know, tools and documents.
const NARROW: &str = r"{%- for message in messages %}{%- if 'forged' in message.content %}{{- 'x' }}{% endif %}
{%- if message.role in ['system', 'user', 'assistant'] %}{{- '<|im_start|>' + message.role + '\n' + message.content }}
{%- for call in message.tool_calls or [] %}{{- call.function.name }}{% endfor %}{{- '<|im_end|>\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}";

/// It writes Python's `None`, and every role.
const CARELESS: &str = r"{%- for message in messages %}{{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content }}
{%- for call in message.tool_calls or [] %}{{- call.function.name }}{% endfor %}{{- '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}";

/// A server with a template, whose model says nothing.
async fn server(template: &str) -> Server {
    let templates = ModelTemplates::from_json(&template.into()).unwrap();
    let toy = Toy::of(registry().get("chatml").unwrap());
    let model = Model::builder().templates(templates).loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::End("eos")]);
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
        let index = index.map(|index| i64::from(crate::common::integer(index)));
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
        let wanted = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nf<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
        for template in [NARROW, CARELESS] {
            let server = server(template).await;
            assert_eq!(prompt(&server, &messages, "").await.as_deref(), Ok(wanted), "{content}");
        }
    }
}

/// Checks what a template gives of a call whose content is null or an empty text.
async fn check_empty_call(template: &str) {
    let server = server(template).await;
    let call = r#"{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    for content in ["null", r#""""#] {
        let messages = format!(r#"{HI}, {{"role": "assistant", "content": {content}, "tool_calls": [{call}]}}, {HI}"#);
        let wanted = "user\nHi<|im_end|>\nassistant\nf<|im_end|>\nuser\nHi<|im_end|>\n";
        assert_eq!(prompt(&server, &messages, "").await.as_deref(), Ok(wanted), "{content}");
    }
}

#[tokio::test]
async fn a_call_with_an_empty_content_has_none_where_the_template_writes_it_only_so() {
    check_empty_call(r"{%- for message in messages %}{{- message.role + '\n' }}{%- if message.content is none %}{{- message.tool_calls[0].function.name }}{%- else %}{{- message.content }}{% endif %}{{- '<|im_end|>\n' }}{% endfor %}").await;
}

#[tokio::test]
async fn a_call_without_content_has_parts_where_the_template_reads_the_first_one() {
    check_empty_call(r"{%- for message in messages %}{{- message.role + '\n' }}{%- if message.tool_calls %}{%- if message.content[0].thinking %}{{- message.content[0].thinking }}{% endif %}{{- message.tool_calls[0].function.name }}{%- else %}{{- message.content }}{% endif %}{{- '<|im_end|>\n' }}{% endfor %}").await;
}

/// It fails with a result that has no name.
const NAMING: &str = r"{%- for message in messages %}{%- if message.role == 'tool' %}{%- if message.name is not defined %}{{- raise_exception('a result needs a name') }}{% endif %}{{- message.name + ': ' + message.content + '\n' }}{%- else %}{{- message.role + ':' }}{%- for call in message.tool_calls or [] %}{{- ' ' + call.function.name }}{% endfor %}{%- if message.content %}{{- ' ' + message.content }}{% endif %}{{- '\n' }}{% endif %}{% endfor %}";

#[tokio::test]
async fn a_result_has_the_name_of_its_call_where_the_template_needs_it() {
    let calls = r#"{"role": "assistant", "content": null, "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "sun", "arguments": "{}"}},
        {"id": "call00002", "type": "function", "function": {"name": "moon", "arguments": "{}"}}]}"#;
    let results = r#"{"role": "tool", "tool_call_id": "call00002", "content": "full"},
        {"role": "tool", "tool_call_id": "call00001", "content": "hot"}"#;
    let server = server(NAMING).await;
    let wanted = "user: Hi\nassistant: sun moon\nmoon: full\nsun: hot\n";
    assert_eq!(prompt(&server, &format!("{HI}, {calls}, {results}"), "").await.as_deref(), Ok(wanted));
    // A name that the client gives stays, and ids may come again.
    let own = r#"{"role": "tool", "tool_call_id": "call00001", "name": "star", "content": "far"}"#;
    let again = r#"{"role": "assistant", "content": "", "tool_calls": [
        {"id": "call00002", "type": "function", "function": {"name": "mars", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call00002", "content": "red"}"#;
    let messages = format!("{HI}, {calls}, {results}, {own}, {again}");
    let wanted = format!("{wanted}star: far\nassistant: mars\nmars: red\n");
    assert_eq!(prompt(&server, &messages, "").await.as_deref(), Ok(&*wanted));
    // The call is in the session, as it was or with other tools.
    let names = [("", "sun"), (r#", "tools": []"#, "sun")];
    for (at, (more, name)) in names.into_iter().enumerate() {
        let id = format!(r#", "session_id": "s{at}""#);
        assert!(prompt(&server, &format!("{HI}, {calls}, {HI}"), &id).await.is_ok());
        let result = r#"{"role": "tool", "tool_call_id": "call00001", "content": "hot"}"#;
        let prompt = prompt(&server, result, &format!("{id}{more}")).await.unwrap();
        assert!(prompt.ends_with(&format!("\n{name}: hot\n")), "{prompt}");
    }
    // A template that fails without tools is tried with one.
    let tooled = format!("{{%- for tool in tools %}}{{{{- tool.function.name + '; ' }}}}{{% endfor %}}{NAMING}");
    let tools = r#", "tool_choice": "none", "tools": [{"type": "function", "function": {"name": "sun"}}]"#;
    let prompt_of_tooled = prompt(&self::server(&tooled).await, &format!("{HI}, {calls}, {results}"), tools).await;
    assert_eq!(prompt_of_tooled, Ok("sun; user: Hi\nassistant: sun moon\nmoon: full\nsun: hot\n".to_owned()));
    // Nobody knows the name.
    let unknown = r#"{"role": "tool", "tool_call_id": "call00009", "content": "hot"}"#;
    assert_eq!(prompt(&server, &format!("{HI}, {calls}, {unknown}"), "").await.unwrap_err().0, "rejected");
}

#[tokio::test]
async fn what_a_rewritten_conversation_lacks_is_named_and_what_it_has_is_not_refused() {
    // It writes instructions first, wherever they stand, and only if the user speaks last.
    let template = r"{%- if messages[-1].role == 'user' %}{%- for message in messages if message.role == 'system' %}{{- message.content + '<|im_end|>\n' }}{% endfor %}{% endif %}
{%- for message in messages if message.role != 'system' %}{{- message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}{{- 'assistant\n' }}";
    let server = server(template).await;
    let system = r#"{"role": "system", "content": "Be brief."}"#;
    let left_out = async |messages: &str, more: &str| {
        let body = format!(r#"{{"messages": [{messages}]{more}}}"#);
        let answer = server.request("/v1/chat/completions", &body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        (header("x-rolecall-left-out"), header("x-rolecall-session").unwrap().contains("rewritten"))
    };
    let first = format!("{system}, {HI}");
    assert_eq!(left_out(&first, "").await, (None, false));
    let reply = r#"{"role": "assistant", "content": ""}"#;
    let tool = r#"{"role": "tool", "tool_call_id": "call00000", "content": "42"}"#;
    let told = left_out(&format!("{first}, {reply}, {HI}, {tool}"), "").await;
    assert_eq!(told, (Some("messages[0]".to_owned()), true));
    // New instructions are written before what was sent.
    let session = r#", "session_id": 7"#;
    assert_eq!(left_out(HI, session).await, (None, false));
    assert_eq!(left_out(&format!("{system}, {HI}"), session).await, (None, true));
    assert!(Toy::of(registry().get("chatml").unwrap()).written(&server.engine.prompt()).starts_with("Be brief."));
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
    // As an earlier one of them, which leaves out the calls of earlier turns and their results.
    let template = r"{%- set last = namespace(user=0) %}{%- for message in messages %}{%- if message.role == 'user' %}{%- set last.user = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}{%- if message.role == 'user' or message.content and not message.tool_calls and message.role != 'tool' or loop.index0 > last.user %}{{- message.role + '\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}{{- call.function.name }}{% endfor %}{{- '<|im_end|>\n' }}{% endif %}{% endfor %}";
    let server = self::server(template).await;
    let call = r#"{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    let called = format!(r#"{HI}, {{"role": "assistant", "content": null, "tool_calls": [{call}]}}, {tool}"#);
    let told = prompt(&server, &called, "").await.unwrap();
    assert_eq!(told, "user\nHi<|im_end|>\nassistant\nf<|im_end|>\ntool\n42<|im_end|>\n");
    let told = prompt(&server, &format!("{called}, {called}, {HI}"), "").await.unwrap();
    assert_eq!(told, "user\nHi<|im_end|>\n".repeat(3));
}

#[tokio::test]
async fn a_call_that_the_template_leaves_out_is_refused() {
    // It writes text, or calls, or neither.
    let end = r"<|im_end|>\n' }}{% endif %}{% endfor %}";
    let silent = format!(
        "{{% for message in messages %}}{{% if message.content %}}{{{{- message.role + '\\n' + message.content + '{end}"
    );
    let either = "{% for message in messages %}{{ message.role }}\n{% if message.tool_calls %}{{ message.tool_calls[0].function.name }}{% else %}{{ message.content }}{% endif %}<|im_end|>\n{% endfor %}";
    let call = |content: &str| {
        let call = r#"{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
        format!(r#"{{"role": "assistant", "content": {content}, "tool_calls": [{call}]}}"#)
    };
    let (silent, either) = (server(&silent).await, server(either).await);
    for content in ["null", r#""""#, r#""Let me see""#] {
        let call = call(content);
        let called = refused("left_out", "tool_calls[0]", Some(1));
        for (messages, more) in [
            (format!("{HI}, {call}, {HI}"), ""),
            (format!("{HI}, {call}"), r#", "continue_final_message": true"#),
            (format!("{HI}, {call}, {HI}"), r#", "session_id": 7"#),
        ] {
            let found = prompt(&silent, &messages, more).await;
            assert!(found == called || more.contains("final"), "{content} {more}: {found:?}");
            assert!(found.is_err(), "{content} {more}");
        }
        // What the model said beside a call is lost, as it was in training, and the answer says so.
        let body = format!(r#"{{"messages": [{HI}, {call}, {HI}]}}"#);
        let answer = either.request("/v1/chat/completions", &body).send().await.unwrap();
        let left_out = answer.headers().get("x-rolecall-left-out").map(|value| value.to_str().unwrap().to_owned());
        let wanted = content.contains("Let").then(|| "messages[1].content".to_owned());
        assert_eq!((answer.status().as_u16(), left_out), (200, wanted), "{content}");
    }
}

#[tokio::test]
async fn instructions_that_the_template_leaves_out_are_refused() {
    // It writes only the last instructions.
    let last = r"{%- set all = namespace(system='') %}{%- for message in messages %}{%- if message.role == 'system' %}{%- set all.system = message.content %}{% endif %}{% endfor %}
{{- all.system }}{%- for message in messages if message.role != 'system' %}{{- message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}";
    // It writes them only at the start.
    let first = r"{%- for message in messages %}{%- if message.role != 'system' or loop.first %}{{- message.role + '\n' + message.content + '<|im_end|>\n' }}{% endif %}{% endfor %}";
    let system = r#"{"role": "system", "content": "Be brief."}"#;
    let refused = |index| refused("left_out", "content", Some(index));
    for (template, messages, wanted) in [
        (last, format!("{system}, {HI}"), None),
        (last, format!("{system}, {system}, {HI}"), Some(0)),
        (first, format!("{system}, {HI}"), None),
        (first, format!("{HI}, {system}, {HI}"), Some(1)),
        (first, format!("{HI}, {system}"), Some(1)),
    ] {
        let server = server(template).await;
        match (prompt(&server, &messages, "").await, wanted) {
            (Ok(_), None) => {}
            (found, wanted) => assert_eq!(found, refused(wanted.unwrap_or(99)), "{messages}"),
        }
    }
    // Where what was sent stays as it is, new instructions before it would be lost.
    let server = server(last).await;
    assert!(prompt(&server, HI, r#", "session_id": 7"#).await.is_ok());
    let new = format!("{system}, {HI}");
    let keeps = r#", "session_id": 7, "on_rewrite": "keep""#;
    assert_eq!(prompt(&server, &new, keeps).await, refused(0));
    let rewritten = prompt(&server, &new, r#", "session_id": 7"#).await.unwrap();
    assert!(rewritten.starts_with("Be brief."), "{rewritten}");
}

#[tokio::test]
async fn contents_are_texts_or_parts_as_the_template_writes_them_for_each_role() {
    // Parts only of users, of which the first one alone, and only in parts.
    let users = r"{%- for message in messages %}{{- message.role + '\n' }}{%- if message.role == 'user' and message.content is not string %}
{%- for part in message.content %}{{- part.text }}{% endfor %}{%- else %}{{- message.content }}{% endif %}{{- '<|im_end|>\n' }}{% endfor %}";
    let first = r"{%- for message in messages %}{{- message.role + '\n' }}{%- if message.content is string %}{{- message.content }}{%- else %}{{- message.content[0].text }}{% endif %}{{- '<|im_end|>\n' }}{% endfor %}";
    let parts = r"{%- for message in messages %}{{- message.role + '\n' }}{%- for part in message.content %}{{- part.text }}{% endfor %}{{- '<|im_end|>\n' }}{% endfor %}";
    // A text of the system would be written character by character.
    let items = r"{%- for message in messages %}{{- message.role + '\n' }}{%- if message.role == 'system' %}{%- for item in message.content %}{{- item | tojson }}{% endfor %}{%- else %}{{- message.content }}{% endif %}{{- '<|im_end|>\n' }}{% endfor %}";
    let two = r#"[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]"#;
    for (template, system, user) in [
        (users, "system\na\nb<|im_end|>\n", "user\nab<|im_end|>\n"),
        (first, "system\na\nb<|im_end|>\n", "user\na\nb<|im_end|>\n"),
        (parts, "system\nab<|im_end|>\n", "user\nab<|im_end|>\n"),
        (
            items,
            "system\n{\"type\": \"text\", \"text\": \"a\"}{\"type\": \"text\", \"text\": \"b\"}<|im_end|>\n",
            "user\na\nb<|im_end|>\n",
        ),
    ] {
        let server = server(template).await;
        let messages = format!(r#"{{"role": "system", "content": {two}}}, {{"role": "user", "content": {two}}}, {HI}"#);
        let wanted = format!("{system}{user}user\nHi<|im_end|>\n");
        assert_eq!(prompt(&server, &messages, "").await, Ok(wanted), "{template}");
    }
}

#[tokio::test]
async fn contents_are_tried_in_the_places_where_they_are_written() {
    let parts = |texts: &[&str]| {
        let parts: Vec<String> = texts.iter().map(|text| format!(r#"{{"type": "text", "text": "{text}"}}"#)).collect();
        format!(r#"{{"role": "user", "content": [{}]}}"#, parts.join(", "))
    };
    // Only the first part, also of the session's own replies.
    let first = r"{%- for message in messages %}{{- message.role + ':' + message.content[0].text + '\n' }}{% endfor %}{%- if add_generation_prompt %}{{- 'assistant:' }}{% endif %}";
    let server_of_first = server(first).await;
    // What becomes a text must say no more than that.
    let moody = |content: &str| parts(&["a", "b"]).replace(r#""a""#, content);
    for server in [&server_of_first, &server(NARROW).await] {
        let refusal = refused("unsupported_parameter", "content[0].mood", Some(1));
        assert_eq!(prompt(server, &format!("{HI}, {}", moody(r#""a", "mood": "good""#)), "").await, refusal);
        assert!(
            prompt(server, &moody(r#""a", "mood": null, "cache_control": {"type": "ephemeral"}"#), "").await.is_ok()
        );
    }
    for (message, text) in [(HI.to_owned(), "Hi"), (parts(&["a"]), "a"), (parts(&["a", "b"]), "a\nb")] {
        assert_eq!(prompt(&server_of_first, &message, "").await, Ok(format!("user:{text}\nassistant:")));
    }
    let session = r#", "session_id": "s""#;
    assert!(prompt(&server_of_first, HI, session).await.is_ok());
    let wanted = "user:Hi\nassistant:\nuser:Hi\nassistant:";
    assert_eq!(prompt(&server_of_first, HI, session).await.as_deref(), Ok(wanted));

    let each = "{%- for part in message.content %}{{- part.text }}{% endfor %}";
    let either =
        format!("{{%- if message.content is string %}}{{{{- message.content }}}}{{%- else %}}{each}{{% endif %}}");
    // With tools, the first message is a text.
    let with_tools = format!(
        "{{%- for message in messages %}}{{%- if tools and loop.first %}}{{{{- tools[0].function.name + message.content | trim }}}}{{%- else %}}{either}{{% endif %}}{{% endfor %}}"
    );
    let server_with_tools = server(&with_tools).await;
    let tools = r#", "tool_choice": "none", "tools": [{"type": "function", "function": {"name": "f"}}]"#;
    for (more, text) in [(tools, "fab"), ("", "ab")] {
        let prompt = prompt(&server_with_tools, &parts(&["ab"]), more).await;
        assert_eq!(prompt.as_deref(), Ok(text));
    }
    // Parts are written twice, and a text once.
    let twice = either.replace("{{- part.text }}", "{{- part.text + part.text }}");
    let server_twice = server(&format!("{{%- for message in messages %}}{twice}{{% endfor %}}")).await;
    assert_eq!(prompt(&server_twice, &parts(&["a"]), "").await.as_deref(), Ok("a"));

    // A result is an item for each letter, and a call is not written without a text beside it.
    let letters = "{%- for message in messages %}{%- if message.role == 'tool' %}{%- for item in message.content %}{{- (item.text if item is mapping else item) + ';' }}{% endfor %}{%- elif message.tool_calls %}{%- if message.content[0].thinking %}{{- 'x' }}{% endif %}{{- message.tool_calls[0].function.name }}{%- else %}{{- message.content }}{% endif %}{% endfor %}";
    let server_of_letters = server(letters).await;
    let call = r#"{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    let result = r#"{"role": "tool", "tool_call_id": "call00000", "content": "ab"}"#;
    for content in ["null", r#""""#] {
        let messages =
            format!(r#"{HI}, {{"role": "assistant", "content": {content}, "tool_calls": [{call}]}}, {result}"#);
        assert_eq!(prompt(&server_of_letters, &messages, "").await.as_deref(), Ok("Hifab;"), "{content}");
    }
}

#[tokio::test]
async fn a_tool_has_what_the_template_writes_of_it() {
    let strict = r"{%- for tool in tools or [] %}{{- tool | tojson }}{% endfor %}{%- for message in messages %}{{- message.content }}{% endfor %}";
    let needy = r"{%- for tool in tools or [] %}{{- tool.function.name + tool.function.description }}{%- for name in tool.function.parameters.properties %}{{- name }}{% endfor %}{% endfor %}
{%- for message in messages %}{{- message.content }}{% endfor %}";
    let tools =
        r#", "tool_choice": "none", "tools": [{"type": "function", "function": {"name": "f", "strict": true}}]"#;
    let written = prompt(&server(strict).await, HI, tools).await;
    assert_eq!(written.as_deref(), Ok(r#"{"type": "function", "function": {"name": "f"}}Hi"#));
    assert_eq!(prompt(&server(needy).await, HI, tools).await.as_deref(), Ok("fHi"));
}

#[tokio::test]
async fn a_key_of_a_tool_that_the_template_does_not_read_is_refused_by_name() {
    let all = r"{%- for tool in tools or [] %}{{- tool | tojson }}{% endfor %}{%- for message in messages %}{{- message.content }}{% endfor %}";
    let named = r"{%- for tool in tools or [] %}{{- tool.function.name }}{% endfor %}{%- for message in messages %}{{- message.content }}{% endfor %}";
    let (all, named) = (server(all).await, server(named).await);
    let tool = |of_tool: &str, of_function: &str| {
        format!(
            r#", "tool_choice": "none", "tools": [{{"type": "function", "function": {{"name": "f"{of_function}}}{of_tool}}}]"#
        )
    };
    for (of_tool, of_function, field) in [
        ("", r#", "paramters": {"type": "object"}"#, "tools[0].function.paramters"),
        (r#", "defer_loading": true"#, "", "tools[0].defer_loading"),
    ] {
        assert!(prompt(&all, HI, &tool(of_tool, of_function)).await.is_ok(), "{field}");
        let found = prompt(&named, HI, &tool(of_tool, of_function)).await;
        assert_eq!(found, refused("unsupported_parameter", field, None));
    }
    // The keys of a tool that is not wrapped are those of its function.
    let bare = r"{%- for tool in tools or [] %}{{- tool.name }}{% endfor %}{%- for message in messages %}{{- message.content }}{% endfor %}";
    let bare = server(bare).await;
    let flat = |more: &str| format!(r#", "tool_choice": "none", "tools": [{{"type": "function", "name": "f"{more}}}]"#);
    assert_eq!(prompt(&bare, HI, &flat("")).await.as_deref(), Ok("fHi"));
    let found = prompt(&bare, HI, &flat(r#", "paramters": {"type": "object"}"#)).await;
    assert_eq!(found, refused("unsupported_parameter", "tools[0].paramters", None));
    // It says nothing, or labels the tool.
    assert_eq!(
        prompt(&named, HI, &tool(r#", "defer_loading": false"#, r#", "more": null"#)).await.as_deref(),
        Ok("fHi")
    );
    let mark = r#", "cache_control": {"type": "ephemeral"}"#;
    let written = prompt(&all, HI, &tool(mark, mark)).await;
    assert_eq!(written.as_deref(), Ok(r#"{"type": "function", "function": {"name": "f"}}Hi"#));
    let wrong = prompt(&all, HI, &tool(r#", "cache_control": 5"#, "")).await;
    assert_eq!(wrong, refused("wrong_value", "tools[0].cache_control", None));
    let wrong = prompt(&all, HI, &tool("", r#", "cache_control": 5"#)).await;
    assert_eq!(wrong, refused("wrong_value", "tools[0].function.cache_control", None));
    let wrong = r#"{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": 5}]}"#;
    assert_eq!(prompt(&all, wrong, "").await, refused("wrong_value", "content[0].cache_control", Some(0)));
    // Many keys are tried, each by itself.
    let keys = |count: usize| (0..count).map(|at| format!(r#", "x{at}": 1"#)).collect::<String>();
    assert!(prompt(&all, HI, &tool("", &keys(32))).await.is_ok());
    assert_eq!(prompt(&all, HI, &tool("", &keys(33))).await, refused("too_many_keys", "tools[0].function.x32", None));
    // A kind of tool with which the template fails.
    let interpreter = r#", "tool_choice": "none", "tools": [{"type": "code_interpreter"}]"#;
    assert_eq!(prompt(&named, HI, interpreter).await, refused("unsupported_parameter", "tools[0].type", None));
    assert!(prompt(&all, HI, interpreter).await.is_ok());
    // A text is LMFlow's, even where a format would write it.
    let text = r#", "tool_choice": "none", "tools": [{"type": "code_interpreter"}, "f(): a text"]"#;
    assert_eq!(prompt(&all, HI, text).await, refused("wrong_type", "tools[1]", None));
}

#[tokio::test]
async fn a_message_of_the_assistant_that_says_nothing_is_refused_by_name() {
    let server = server(CARELESS).await;
    for more in ["", r#", "content": null"#, r#", "content": null, "tool_calls": []"#] {
        let messages = format!(r#"{HI}, {{"role": "assistant"{more}}}, {HI}"#);
        assert_eq!(prompt(&server, &messages, "").await, refused("missing_field", "content", Some(1)), "{more}");
    }
    let messages = format!(r#"{HI}, {{"role": "assistant", "content": null, "refusal": "No."}}, {HI}"#);
    assert_eq!(prompt(&server, &messages, "").await, refused("unsupported_parameter", "refusal", Some(1)));
    let messages = format!(r#"{HI}, {{"role": "assistant", "content": ""}}, {HI}"#);
    assert!(prompt(&server, &messages, "").await.is_ok());
}

/// The format says which ids its control tokens have.
#[tokio::test]
async fn a_model_whose_tokenizer_has_other_ids_than_its_format_is_not_served() {
    let toy = Toy::of(registry().get("chatml").unwrap());
    let model = Model::builder().format("yi").loaded_tokenizer(Arc::new(toy)).open().unwrap();
    let wanted = ModelConfig {
        name: "m".to_owned(),
        model,
        engine: "http://127.0.0.1:1".to_owned(),
        kind: EngineKind::LlamaCpp,
        engine_model: None,
        on_rewrite: OnRewrite::Rewrite,
    };
    let config = Config { models: vec![wanted], ..Config::default() };
    let fault = Gateway::open(config).await.unwrap_err();
    assert!(matches!(fault, OpenFault::Model { .. }), "{fault}");
}

/// A turn in which no tool may be called does not need them.
#[tokio::test]
async fn tools_that_the_template_does_not_write_are_refused_in_later_turns() {
    let server = server(NARROW).await;
    let tools = r#", "tools": [{"type": "function", "function": {"name": "f"}}]"#;
    let wanted = refused("unsupported_parameter", "tools[0]", None);
    for session in ["", r#", "session_id": 7"#] {
        assert!(prompt(&server, HI, &format!(r#"{tools}{session}, "tool_choice": "none""#)).await.is_ok());
        let reply = r#"{"role": "assistant", "content": ""}"#;
        let messages = if session.is_empty() { format!("{HI}, {reply}, {HI}") } else { HI.to_owned() };
        assert_eq!(prompt(&server, &messages, &format!("{tools}{session}")).await, wanted, "{session}");
    }
    // A switch that only the first turn reads is no tool. The template has a value of its own by that name.
    let template = r"{%- if messages | length > 1 %}{% set mood = 'sad' %}{% endif %}{{- mood or 'no' }}{%- for tool in tools or [] %}{{- tool.function.name }}{% endfor %}
{%- for message in messages %}{{- message.role + message.content + '<|im_end|>' }}{% endfor %}{{- 'assistant' }}";
    let server = self::server(template).await;
    let more =
        format!(r#"{tools}, "tool_choice": "none", "session_id": 7, "chat_template_kwargs": {{"mood": "glad"}}"#);
    for _ in 0..2 {
        assert!(prompt(&server, HI, &more).await.is_ok());
    }
}

#[tokio::test]
async fn instructions_of_a_response_are_parts_where_the_template_reads_parts() {
    let template = r"{%- for message in messages %}{{- message.role + '\n' }}{%- for part in message.content %}{{- part.text }}{% endfor %}{{- '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- 'assistant\n' }}{% endif %}";
    let server = server(template).await;
    let body = r#"{"model": "model", "input": "Hi", "instructions": "Be brief."}"#;
    let (status, answer) = server.post("/v1/responses", body).await;
    assert_eq!(status, 200, "{answer:?}");
    let prompt = Toy::of(registry().get("chatml").unwrap()).written(&server.engine.prompt());
    assert_eq!(prompt, "system\nBe brief.<|im_end|>\nuser\nHi<|im_end|>\nassistant\n");
}

#[tokio::test]
async fn documents_are_tried_with_the_keys_that_they_have() {
    let server = server(r"{%- for document in documents or [] %}{{- document.text }}{% endfor %}{%- for message in messages %}{{- message.content }}{% endfor %}").await;
    let (known, unknown) = (r#", "documents": [{"text": "a"}]"#, r#", "documents": [{"content": "a"}]"#);
    assert!(prompt(&server, HI, known).await.is_ok());
    assert_eq!(prompt(&server, HI, unknown).await, refused("unsupported_parameter", "documents[0]", None));
    assert!(prompt(&server, HI, known).await.is_ok());
}

#[tokio::test]
async fn a_switch_is_refused_only_if_it_changes_nothing() {
    // The template reads the switch unless it has a value of its own for it.
    let template = r"{%- if messages[0].role == 'system' %}{%- set preamble = messages[0].content %}{% endif %}{{- preamble or '' }}
{%- for message in messages if message.role != 'system' %}{{- message.content }}{% endfor %}";
    let server = server(template).await;
    let switch = r#", "chat_template_kwargs": {"preamble": "Do."}"#;
    let instructed = format!(r#"{{"role": "system", "content": "Be brief."}}, {HI}"#);
    for _ in 0..2 {
        assert_eq!(prompt(&server, HI, switch).await.as_deref(), Ok("Do.Hi"));
        let unused = refused("unsupported_parameter", "chat_template_kwargs.preamble", None);
        assert_eq!(prompt(&server, &instructed, switch).await, unused);
        assert_eq!(prompt(&server, &instructed, "").await.as_deref(), Ok("Be brief.Hi"));
    }
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

/// It asks only whether a message has calls.
const ASKING: &str = r"{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + (message.content or '') }}
{%- if 'tool_calls' in message %}{%- for call in message.tool_calls %}{{- call.function.name }}{% endfor %}{{- '<|call|>' }}{% endif %}
{{- '<|im_end|>\n' }}{% endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}";

#[tokio::test]
async fn a_key_that_says_nothing_is_not_there() {
    let server = server(ASKING).await;
    let said = |more: &str| format!(r#"{HI}, {{"role": "assistant", "content": "Hey"{more}}}, {HI}"#);
    let wanted = prompt(&server, &said(""), "").await;
    assert!(wanted.as_ref().is_ok_and(|prompt| !prompt.contains("<|call|>")), "{wanted:?}");
    for more in [
        r#", "tool_calls": null"#,
        r#", "tool_calls": []"#,
        r#", "tool_calls": null, "function_call": null, "refusal": null, "audio": null, "reasoning_content": null"#,
    ] {
        assert_eq!(prompt(&server, &said(more), "").await, wanted, "{more}");
    }
}

#[tokio::test]
async fn values_that_mean_nothing_are_refused() {
    let server = server(NARROW).await;
    let call = r#"{"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{}"}}"#;
    for (more, code, field) in [
        (r#""reasoning": 5"#.to_owned(), "wrong_type", "reasoning"),
        (r#""thinking": ["a"]"#.to_owned(), "wrong_type", "thinking"),
        (
            format!(r#""tool_calls": [{call}], "function_call": {{"name": "g", "arguments": "{{}}"}}"#),
            "conflict",
            "function_call",
        ),
    ] {
        let messages = format!(r#"{HI}, {{"role": "assistant", "content": "Hey", {more}}}, {HI}"#);
        assert_eq!(prompt(&server, &messages, "").await, refused(code, field, Some(1)), "{more}");
    }
    for (function, key) in [
        (r#""parameters": "junk""#, "parameters"),
        (r#""parameters": []"#, "parameters"),
        (r#""description": 5"#, "description"),
    ] {
        let tools = format!(r#", "tools": [{{"type": "function", "function": {{"name": "f", {function}}}}}]"#);
        let field = format!("tools[0].function.{key}");
        assert_eq!(prompt(&server, HI, &tools).await, refused("wrong_type", &field, None), "{function}");
    }
}
