//! Code for an interpreter through the gateway, in every API: offered, called, sent back with its result.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::Request;
use rolecall::conversation::Json;
use rolecall::conversation::json::{self, Layout};
use rolecall_gateway::engine::EngineKind;

use crate::common::{Server, StandIn, Step, at, model, sampled};

/// What each format's model says, with its call of the interpreter.
const REPLIES: [(&str, &str); 2] = [
    ("internlm2", "Let me see.<|action_start|><|interpreter|>\n```python\nprint(2**10)\n```<|action_end|>\n<|im_end|>"),
    ("chatglm3", "\nLet me see.<|assistant|>interpreter\n```python\nprint(2**10)\n```<|observation|>"),
];

async fn server(format: &str, text: &str) -> Server {
    let mut steps: Vec<Step> = sampled(format, text).into_iter().map(|id| Step::Ids(vec![id])).collect();
    steps.push(Step::End("stop"));
    Server::new(format, StandIn::new(EngineKind::LlamaCpp, steps)).await
}

fn write(value: &Json) -> String {
    json::write(value, &Layout::compact())
}

/// Returns ids as text, with control tokens by name.
fn text(format: &str, ids: &[u32]) -> String {
    let model = model(format);
    let tokenizer = model.tokenizer().unwrap();
    let bytes = |id: &u32| {
        let token = tokenizer.token_text(*id).unwrap_or_default();
        let byte = token.strip_prefix("<0x").and_then(|rest| u8::from_str_radix(rest.strip_suffix('>')?, 16).ok());
        byte.map_or_else(|| token.into_bytes(), |byte| vec![byte])
    };
    String::from_utf8(ids.iter().flat_map(bytes).collect()).unwrap()
}

async fn post(server: &Server, path: &str, body: &str) -> Json {
    let (status, answer) = server.post(path, body).await;
    assert_eq!(status, 200, "{path} {body}: {}", write(&answer));
    answer
}

/// What was said before the model's next turn, in the one form that the formats know.
fn said(format: &str, content: &str) -> String {
    let call = r#"{"id": "c", "type": "code_interpreter", "code_interpreter": {"input": "print(2**10)"}}"#;
    let request = format!(
        r#"{{"tools": [{{"type": "code_interpreter"}}], "messages": [{{"role": "user", "content": "2**10?"}},
        {{"role": "assistant", "content": "{content}", "tool_calls": [{call}]}},
        {{"role": "tool", "tool_call_id": "c", "content": "1024"}}]}}"#
    );
    let prompt = model(format).prompt(Request::from_text(&request).unwrap()).unwrap();
    let ids = prompt.encode().unwrap().ids();
    text(format, &ids)
}

const OFFERED: &str = r#""tools": [{"type": "code_interpreter"}]"#;

#[tokio::test]
async fn in_chat_a_call_goes_back_as_it_came() {
    for (format, reply) in REPLIES {
        let server = server(format, reply).await;
        let question = r#"{"role": "user", "content": "2**10?"}"#;
        let answer =
            post(&server, "/v1/chat/completions", &format!(r#"{{{OFFERED}, "messages": [{question}]}}"#)).await;
        let message = at(&answer, "choices.0.message");
        assert_eq!(at(message, "tool_calls.0.code_interpreter.input").as_str(), Some("print(2**10)"), "{format}");
        let id = at(message, "tool_calls.0.id").as_str().unwrap();
        let result = format!(r#"{{"role": "tool", "tool_call_id": "{id}", "content": "1024"}}"#);
        let messages = format!("{question}, {}, {result}", write(message));
        post(&server, "/v1/chat/completions", &format!(r#"{{{OFFERED}, "messages": [{messages}]}}"#)).await;
        assert_eq!(text(format, &server.engine.prompt()), said(format, "Let me see."));
    }
}

#[tokio::test]
async fn a_key_of_a_call_that_nothing_reads_is_refused() {
    let server = server("internlm2", REPLIES[0].1).await;
    for (more, param) in [
        (r#""code_interpreter": {"input": "1", "inpt": "2"}"#, "tool_calls[0].code_interpreter.inpt"),
        (r#""code_interpreter": {"input": "1"}, "container": "x""#, "tool_calls[0].container"),
    ] {
        let call = format!(r#"{{"id": "c", "type": "code_interpreter", {more}}}"#);
        let messages = format!(
            r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "", "tool_calls": [{call}]}},
            {{"role": "tool", "tool_call_id": "c", "content": "1"}}"#
        );
        let (status, answer) =
            server.post("/v1/chat/completions", &format!(r#"{{{OFFERED}, "messages": [{messages}]}}"#)).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
    let tool = r#""tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]"#;
    let body = format!(r#"{{{tool}, "messages": [{{"role": "user", "content": "a"}}]}}"#);
    let (status, answer) = server.post("/v1/chat/completions", &body).await;
    assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("tools[0].container")), "{answer:?}");
    let function = r#"{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "code_interpreter": {"input": "1"}}"#;
    let messages = format!(
        r#"{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "", "tool_calls": [{function}]}},
        {{"role": "tool", "tool_call_id": "c", "content": "1"}}"#
    );
    let (status, answer) = server.post("/v1/chat/completions", &format!(r#"{{"messages": [{messages}]}}"#)).await;
    assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some("tool_calls[0].code_interpreter")));
}

#[tokio::test]
async fn empty_code_goes_back_too() {
    for (format, reply) in REPLIES {
        let server = server(format, reply).await;
        let call = r#"{"id": "c", "type": "code_interpreter", "code_interpreter": {"input": ""}}"#;
        let body = format!(
            r#"{{{OFFERED}, "messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "", "tool_calls": [{call}]}},
            {{"role": "tool", "tool_call_id": "c", "content": "1"}}]}}"#
        );
        post(&server, "/v1/chat/completions", &body).await;
        let prompt = model(format).prompt(Request::from_text(&body).unwrap()).unwrap();
        assert_eq!(text(format, &server.engine.prompt()), text(format, &prompt.encode().unwrap().ids()));
    }
}

/// Files, tools or the interpreter of ChatGLM3, over several turns: each goes back as it came.
#[tokio::test]
async fn several_turns_with_files_and_tools() {
    let weather = r#"{"type": "function", "function": {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}"#;
    let reply = "weather\n```python\ntool_call(city='Rome')\n```<|observation|>";
    for (tool, reply, result) in
        [(r#"{"type": "code_interpreter"}"#, REPLIES[1].1, "1024"), (weather, reply, "{\"t\": 22}")]
    {
        let server = server("chatglm3", reply).await;
        let file = r#"{"type": "file", "file": {"path": "/mnt/data/a.csv", "size": "10K"}}"#;
        let mut messages =
            format!(r#"{{"role": "user", "content": [{file}, {{"type": "text", "text": "What is in it?"}}]}}"#);
        for _ in 0..3 {
            let body = format!(r#"{{"tools": [{tool}], "messages": [{messages}]}}"#);
            let answer = post(&server, "/v1/chat/completions", &body).await;
            let prompt = model("chatglm3").prompt(Request::from_text(&body).unwrap()).unwrap();
            assert_eq!(text("chatglm3", &server.engine.prompt()), text("chatglm3", &prompt.encode().unwrap().ids()));
            assert!(prompt.text().contains("#File: /mnt/data/a.csv\n#Size: 10K\n#File uploaded\nWhat is in it?"));
            let message = at(&answer, "choices.0.message");
            let id = at(message, "tool_calls.0.id").as_str().unwrap();
            let result = Json::from(result);
            let result = format!(r#"{{"role": "tool", "tool_call_id": "{id}", "content": {}}}"#, write(&result));
            messages.push_str(&format!(", {}, {result}", write(message)));
        }
    }
}

/// The result is in the item itself, as OpenAI's own is, or an output of the call.
#[tokio::test]
async fn in_responses_a_call_goes_back_as_it_came() {
    for (format, reply) in REPLIES {
        for (is_within, by_id) in [(true, "id"), (false, "id"), (false, "call_id"), (false, "both")] {
            let server = server(format, reply).await;
            let question = r#"{"role": "user", "content": "2**10?"}"#;
            let tools = r#""tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]"#;
            let answer = post(&server, "/v1/responses", &format!(r#"{{{tools}, "input": [{question}]}}"#)).await;
            assert_eq!(at(&answer, "tools.0.type").as_str(), Some("code_interpreter"));
            let mut call = at(&answer, "output.1").as_object().unwrap().clone();
            assert_eq!(call.get("code").and_then(Json::as_str), Some("print(2**10)"));
            let named = if by_id == "both" { "id" } else { by_id };
            let id = call.get(named).and_then(Json::as_str).unwrap().to_owned();
            let mut result = format!(r#", {{"type": "function_call_output", "call_id": "{id}", "output": "1024"}}"#);
            if by_id == "id" {
                // OpenAI's items have no other id.
                call.remove("call_id");
            }
            if is_within {
                call.insert("outputs", json::parse(r#"[{"type": "logs", "logs": "1024"}]"#).unwrap());
                result.clear();
            }
            let input = format!("{question}, {}, {}{result}", write(at(&answer, "output.0")), write(&call.into()));
            post(&server, "/v1/responses", &format!(r#"{{{tools}, "input": [{input}]}}"#)).await;
            assert_eq!(text(format, &server.engine.prompt()), said(format, "Let me see."), "{is_within} {by_id}");
        }
    }
}

#[tokio::test]
async fn in_responses_only_the_result_is_sent_after_a_stored_answer() {
    for (format, reply) in REPLIES {
        let server = server(format, reply).await;
        let answer = post(&server, "/v1/responses", &format!(r#"{{{OFFERED}, "input": "2**10?"}}"#)).await;
        let (id, call) = (at(&answer, "id").as_str().unwrap(), at(&answer, "output.1.call_id").as_str().unwrap());
        let input = format!(r#"[{{"type": "function_call_output", "call_id": "{call}", "output": "1024"}}]"#);
        let body = format!(r#"{{{OFFERED}, "previous_response_id": "{id}", "input": {input}}}"#);
        post(&server, "/v1/responses", &body).await;
        assert_eq!(text(format, &server.engine.prompt()), said(format, "Let me see."));
    }
}

/// Whatever it says now, an item of the answer before is known, and would be written twice or ignored.
#[tokio::test]
async fn in_responses_an_item_of_the_answer_before_is_not_sent_again() {
    for (format, reply) in REPLIES {
        let server = server(format, reply).await;
        let answer = post(&server, "/v1/responses", &format!(r#"{{{OFFERED}, "input": "2**10?"}}"#)).await;
        let id = at(&answer, "id").as_str().unwrap();
        let mut call = at(&answer, "output.1").as_object().unwrap().clone();
        let own = call.get("id").unwrap().as_str().unwrap().to_owned();
        call.insert("outputs", json::parse(r#"[{"type": "logs", "logs": "1024"}]"#).unwrap());
        let message = write(at(&answer, "output.0"));
        let function =
            format!(r#"{{"type": "function_call", "id": "{own}", "call_id": "c", "name": "f", "arguments": "{{}}"}}"#);
        let output = format!(r#"{{"type": "function_call_output", "call_id": "{own}", "output": "1024"}}"#);
        for (item, param) in [
            (write(&call.clone().into()), "input[0].id"),
            (message, "input[0].id"),
            (function, "input[0].id"),
            // The id of the item is not that of its call.
            (output, "input[0].call_id"),
        ] {
            let body = format!(r#"{{{OFFERED}, "previous_response_id": "{id}", "input": [{item}]}}"#);
            let (status, answer) = server.post("/v1/responses", &body).await;
            assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{item}");
        }
    }
}

#[tokio::test]
async fn in_responses_what_the_gateway_cannot_do_is_refused_by_name() {
    let server = server("internlm2", REPLIES[0].1).await;
    let call = |more: &str| format!(r#"{{"type": "code_interpreter_call", "id": "c", {more}}}"#);
    for (body, param) in [
        (r#""tools": [{"type": "code_interpreter", "container": "cntr_1"}], "input": "a""#.to_owned(), "tools[0].container"),
        (
            r#""tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}], "input": "a""#.to_owned(),
            "tools[0].container.file_ids",
        ),
        (format!(r#""input": [{}]"#, call(r#""container_id": """#)), "input[0].code"),
        (
            format!(r#""input": [{}]"#, call(r#""code": "1", "outputs": [{"type": "image", "url": "data:,"}]"#)),
            "input[0].outputs[0].type",
        ),
        (format!(r#""input": [{}]"#, call(r#""code": "1", "result": "2""#)), "input[0].result"),
    ] {
        let (status, answer) = server.post("/v1/responses", &format!("{{{body}}}")).await;
        assert_eq!((status, at(&answer, "error.param").as_str()), (400, Some(param)), "{answer:?}");
    }
}

/// Under the name that the client offered, which is chat completions' or Anthropic's own.
#[tokio::test]
async fn in_messages_a_call_goes_back_as_it_came() {
    for (format, reply) in REPLIES {
        for (tool, name) in [
            (r#"{"type": "code_interpreter"}"#, "code_interpreter"),
            (r#"{"type": "code_interpreter", "name": "code_interpreter"}"#, "code_interpreter"),
            (r#"{"type": "code_execution_20250522", "name": "code_execution"}"#, "code_execution"),
        ] {
            let server = server(format, reply).await;
            let head = format!(r#""max_tokens": 1000, "tools": [{tool}]"#);
            let question = r#"{"role": "user", "content": "2**10?"}"#;
            let answer = post(&server, "/v1/messages", &format!(r#"{{{head}, "messages": [{question}]}}"#)).await;
            let call = at(&answer, "content.1");
            assert_eq!(at(call, "name").as_str(), Some(name));
            assert_eq!(at(call, "input.code").as_str(), Some("print(2**10)"));
            let id = at(call, "id").as_str().unwrap();
            let result = format!(r#"{{"type": "tool_result", "tool_use_id": "{id}", "content": "1024"}}"#);
            let said_before = write(at(&answer, "content"));
            let messages = format!(
                r#"{question}, {{"role": "assistant", "content": {said_before}}}, {{"role": "user", "content": [{result}]}}"#
            );
            post(&server, "/v1/messages", &format!(r#"{{{head}, "messages": [{messages}]}}"#)).await;
            assert_eq!(text(format, &server.engine.prompt()), said(format, "Let me see."), "{tool}");
        }
    }
}

#[tokio::test]
async fn in_messages_other_tools_of_a_server_are_refused() {
    let server = server("internlm2", REPLIES[0].1).await;
    for (tool, param) in [
        (r#"{"type": "code_execution_20250825", "name": "code_execution"}"#, "tools[0].type"),
        (r#"{"type": "code_execution_20250522", "name": "python"}"#, "tools[0].name"),
        (r#"{"type": "code_interpreter", "container": {}}"#, "tools[0].container"),
        (
            r#"{"type": "code_execution_20250522", "name": "code_execution"}, {"name": "code_execution", "input_schema": {}}"#,
            "tools[1].name",
        ),
        (
            r#"{"type": "code_interpreter"}], "tool_choice": {"type": "tool", "name": "code_interpreter"}, "stop_sequences": ["x""#,
            "tool_choice.name",
        ),
    ] {
        let body =
            format!(r#"{{"max_tokens": 9, "tools": [{tool}], "messages": [{{"role": "user", "content": "a"}}]}}"#);
        let (status, answer) = server.post("/v1/messages", &body).await;
        let message = at(&answer, "error.message").as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(param), "{answer:?}");
    }
}
