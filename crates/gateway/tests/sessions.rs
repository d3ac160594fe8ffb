//! Conversations that go on: the ids that the engine has stay as they are.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use crate::common::{Server, StandIn, Step, at, integer, model, sampled};
use rolecall::Request;
use rolecall::conversation::json::{self, Layout};
use rolecall::conversation::{Json, object};
use rolecall_gateway::engine::EngineKind;
use rolecall_gateway::{Keys, Limits};

/// A server whose model always replies with the same text.
async fn server(format: &str, text: &str) -> Server {
    let steps = vec![Step::Ids(sampled(format, text)), Step::End("eos")];
    Server::new(format, StandIn::new(EngineKind::LlamaCpp, steps)).await
}

fn user(text: &str) -> Json {
    object! { "role" => "user", "content" => text }.into()
}

fn assistant(text: &str) -> Json {
    object! { "role" => "assistant", "content" => text }.into()
}

fn body(messages: &[Json], more: &[(&str, Json)]) -> String {
    let mut body = object! { "messages" => messages.to_vec() };
    more.iter().for_each(|(key, value)| body.insert(*key, value.clone()));
    json::write(&body.into(), &Layout::compact())
}

/// Sends messages, and returns the reply, and the number of ids that were kept.
async fn say(server: &Server, messages: &[Json], more: &[(&str, Json)]) -> (Json, usize) {
    let (status, answer) = server.post("/v1/chat/completions", &body(messages, more)).await;
    assert_eq!(status, 200, "{answer:?}");
    let kept = integer(at(&answer, "usage.prompt_tokens_details.kept_tokens"));
    (at(&answer, "choices.0.message").clone(), kept as usize)
}

/// Returns the ids of a whole conversation.
fn ids_of(format: &str, chat: &str) -> Vec<u32> {
    model(format).prompt(Request::from_text(chat).unwrap()).unwrap().encode().unwrap().ids()
}

#[tokio::test]
async fn a_conversation_that_is_sent_again_is_recognised() {
    // No template would write the space before the end.
    let server = server("chatml", "Hello <|im_end|>").await;
    let mut messages = vec![user("Hi")];
    let mut had: Vec<u32> = Vec::new();
    for turn in 0..20 {
        let (reply, kept) = say(&server, &messages, &[]).await;
        let prompt = server.engine.prompt();
        assert_eq!(kept, had.len(), "turn {turn}");
        assert!(prompt.starts_with(&had), "turn {turn}");
        had = prompt;
        had.extend(sampled("chatml", "Hello <|im_end|>"));
        messages.extend([reply, user("Go on<|im_end|>")]);
    }
    // Another beginning is another conversation.
    messages[0] = user("Hello");
    assert_eq!(say(&server, &messages, &[]).await.1, 0);
}

#[tokio::test]
async fn a_session_is_continued_by_its_id() {
    let server = server("chatml", "Hello<|im_end|>").await;
    let session = [("session_id", Json::from(7))];
    let (_, kept) = say(&server, &[user("Hi")], &session).await;
    assert_eq!(kept, 0);
    let first = server.engine.prompt();
    let (_, kept) = say(&server, &[user("More")], &session).await;
    let wanted: Vec<u32> = first.iter().copied().chain(sampled("chatml", "Hello<|im_end|>")).collect();
    assert_eq!(kept, wanted.len());
    assert!(server.engine.prompt().starts_with(&wanted));
    // Another session begins anew.
    assert_eq!(say(&server, &[user("Hi")], &[("session_id", Json::from(8))]).await.1, 0);
    assert_eq!(server.engine.prompt(), first);
}

#[tokio::test]
async fn a_session_goes_on_if_the_client_sends_all_of_it_again() {
    let server = server("chatml", "Hello<|im_end|>").await;
    let session = [("session_id", Json::from(7))];
    let mut messages = vec![user("Hi")];
    let mut had: Vec<u32> = Vec::new();
    for turn in 0..4 {
        let (reply, kept) = say(&server, &messages, &session).await;
        let prompt = server.engine.prompt();
        assert_eq!(kept, had.len(), "turn {turn}");
        assert!(prompt.starts_with(&had), "turn {turn}");
        let starts = sampled("chatml", "<|im_start|>user");
        let users = prompt.windows(starts.len()).filter(|window| **window == starts).count();
        assert_eq!(users, turn + 1, "nothing is there twice");
        had = prompt;
        had.extend(sampled("chatml", "Hello<|im_end|>"));
        messages.extend([reply, user("Go on")]);
    }
    // Without the oldest messages.
    let (reply, kept) = say(&server, &messages[2..], &session).await;
    assert_eq!(kept, had.len());
    had = server.engine.prompt();
    had.extend(sampled("chatml", "Hello<|im_end|>"));
    // From the last reply on.
    let (_, kept) = say(&server, &[reply, user("And?")], &session).await;
    let prompt = server.engine.prompt();
    assert_eq!((kept, prompt.starts_with(&had)), (had.len(), true));
    assert_eq!(prompt[had.len()..], sampled("chatml", "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"));
    had = prompt;
    had.extend(sampled("chatml", "Hello<|im_end|>"));
    // Where a part of it belongs cannot be told.
    let part = [user("What?"), assistant("Hello"), user("Go on")];
    let (status, answer) = server.post("/v1/chat/completions", &body(&part, &session)).await;
    assert_eq!((status, at(&answer, "error.code").as_str()), (400, Some("conflict")), "{answer:?}");
    assert_eq!(integer(at(&answer, "error.message_index")), 1);
    // New messages may be examples.
    let examples = [user("Two?"), assistant("2"), user("Three?")];
    let (_, kept) = say(&server, &examples, &session).await;
    assert_eq!(kept, had.len());
}

#[tokio::test]
async fn what_a_session_has_is_never_there_twice() {
    let server = server("qwen2.5", "Hello<|im_end|>").await;
    let named = |more: &[(&'static str, Json)]| -> Vec<(&'static str, Json)> {
        [("session_id", Json::from(7))].into_iter().chain(more.iter().cloned()).collect()
    };
    let tool = |name: &str| {
        let function = object! { "name" => name, "description" => "d", "parameters" => json::Object::new() };
        ("tools", Json::from(vec![Json::from(object! { "type" => "function", "function" => function })]))
    };
    let hello = || assistant("Hello");
    let (one, two) = (vec![user("One")], vec![user("One"), hello(), user("Two")]);
    let edited = vec![user("One"), hello(), user("Two"), assistant("Well"), user("Three")];
    say(&server, &one, &named(&[])).await;
    // All of it, with other tools, asked again because the answer was lost, and with a later message edited.
    let turns =
        [(&two, &[tool("f")][..]), (&two, &[tool("f")]), (&edited, &[tool("f")]), (&two, &[tool("g")]), (&two, &[])];
    for (at, (messages, more)) in turns.into_iter().enumerate() {
        say(&server, messages, &named(more)).await;
        let sent = server.engine.prompt();
        assert_eq!(sent, ids_of("qwen2.5", &body(messages, more)), "turn {at}");
    }
    // The last reply and a new question, with other tools.
    say(&server, &[hello(), user("Three")], &named(&[tool("h")])).await;
    let three: Vec<Json> = two.iter().cloned().chain([hello(), user("Three")]).collect();
    assert_eq!(server.engine.prompt(), ids_of("qwen2.5", &body(&three, &[tool("h")])));
    // A reply that the client changed.
    let changed = [user("One"), assistant("Hello."), user("Two")];
    say(&server, &changed, &named(&[])).await;
    assert_eq!(server.engine.prompt(), ids_of("qwen2.5", &body(&changed, &[])));
    say(&server, &two, &named(&[])).await;
    // New messages alone follow the last of them.
    say(&server, &[user("Four")], &named(&[])).await;
    let whole: Vec<Json> = two.iter().cloned().chain([hello(), user("Four")]).collect();
    assert_eq!(server.engine.prompt(), ids_of("qwen2.5", &body(&whole, &[])));
}

#[tokio::test]
async fn a_session_has_its_replies_where_the_client_repeats_instructions_and_changes_tools() {
    let server = server("qwen2.5", "Hello<|im_end|>").await;
    let system = object! { "role" => "system", "content" => "Be brief." };
    let system = || Json::from(system.clone());
    let tool = |name: &str| {
        let function = object! { "name" => name, "description" => "d", "parameters" => json::Object::new() };
        ("tools", Json::from(vec![Json::from(object! { "type" => "function", "function" => function })]))
    };
    let session = ("session_id", Json::from(7));
    let mut whole = vec![system()];
    for (turn, name) in ["f", "f", "g", "h", "h"].into_iter().enumerate() {
        let question = user(&format!("Question {turn}"));
        whole.push(question.clone());
        say(&server, &[system(), question], &[session.clone(), tool(name)]).await;
        assert_eq!(server.engine.prompt(), ids_of("qwen2.5", &body(&whole, &[tool(name)])), "turn {turn}");
        whole.push(assistant("Hello"));
    }
}

#[tokio::test]
async fn the_prompt_is_kept_after_a_reply_that_a_stop_text_cut() {
    let server = server("chatml", "Hello, you there<|im_end|>").await;
    let stop = [("stop", Json::from(", you"))];
    let mut messages = vec![user("Hi")];
    let mut had: Vec<u32> = Vec::new();
    for turn in 0..3 {
        let (reply, kept) = say(&server, &messages, &stop).await;
        assert_eq!(at(&reply, "content").as_str(), Some("Hello"));
        let prompt = server.engine.prompt();
        // The reply is not as it was sampled, but all before it is.
        assert_eq!(kept, had.len(), "turn {turn}");
        assert!(prompt.starts_with(&had), "turn {turn}");
        had = prompt;
        messages.extend([reply, user("Go on")]);
    }
}

#[tokio::test]
async fn what_would_be_sent_is_what_is_sent() {
    // No template would write the space before the end.
    let server = server("chatml", "Hello <|im_end|>").await;
    let session = [("session_id", Json::from(7))];
    let mut messages = vec![user("Hi")];
    for turn in 0..3 {
        for (new, more) in [(messages.clone(), &[][..]), (vec![user("More")], &session)] {
            let (status, shown) = server.post("/v1/render", &body(&new, more)).await;
            assert_eq!(status, 200, "{shown:?}");
            let (reply, kept) = say(&server, &new, more).await;
            let known = if turn == 0 { "ids" } else { "session.ids" };
            let ids: Vec<u32> = at(&shown, known).as_array().unwrap().iter().map(integer).collect();
            assert_eq!(ids, server.engine.prompt(), "turn {turn}");
            if turn > 0 {
                assert_eq!(integer(at(&shown, "session.kept")) as usize, kept);
                assert_eq!(at(&shown, "session.history").as_str(), Some("grown"));
                let segments = at(&shown, "session.segments").as_array().unwrap();
                let ends = segments.iter().map(|segment| integer(at(segment, "ids.1")) as usize);
                assert_eq!(ends.max(), Some(ids.len()));
                let author = |segment: &Json| at(segment, "author").as_str() == Some("sampled");
                assert!(segments.iter().any(author));
                // The rest is the whole conversation, also where the client sent only what is new.
                assert!(at(&shown, "prompt").as_str().unwrap().starts_with("<|im_start|>user\n"));
            }
            if more.is_empty() {
                messages.push(reply);
            }
        }
        messages.push(user("Go on"));
    }
}

#[tokio::test]
async fn calls_are_recognised_in_any_spelling() {
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":   \"Rome\", \"days\": 2}}\n</tool_call><|im_end|>";
    let server = server("qwen2.5", call).await;
    let parameters = object! { "type" => "object" };
    let function = object! { "name" => "weather", "parameters" => parameters };
    let tools = [("tools", Json::Array(vec![object! { "type" => "function", "function" => function }.into()]))];
    let (reply, _) = say(&server, &[user("Hi")], &tools).await;
    let id = at(&reply, "tool_calls.0.id").clone();
    let had = server.engine.prompt().len() + sampled("qwen2.5", call).len();
    let function = object! { "arguments" => "{ \"days\": 2, \"city\": \"Rome\" }", "name" => "weather" };
    let same = object! { "id" => id.clone(), "type" => "function", "function" => function };
    let said = object! { "role" => "assistant", "tool_calls" => vec![Json::from(same)], "refusal" => Json::Null };
    let result = object! { "role" => "tool", "tool_call_id" => id, "content" => "sunny" };
    let (_, kept) = say(&server, &[user("Hi"), said.into(), result.into()], &tools).await;
    assert_eq!(kept, had);
}

#[tokio::test]
async fn several_replies_are_continued_each() {
    let server = server("chatml", "Hello<|im_end|>").await;
    let (status, answer) = server.post("/v1/chat/completions", &body(&[user("Hi")], &[("n", 3.into())])).await;
    assert_eq!(status, 200, "{answer:?}");
    let choices = at(&answer, "choices").as_array().unwrap();
    let indexes: Vec<u32> = choices.iter().map(|choice| integer(at(choice, "index"))).collect();
    assert_eq!(indexes, [0, 1, 2]);
    assert_eq!(integer(at(&answer, "usage.completion_tokens")), 3 * 6);
    let frames = server.stream(&body(&[user("Hi")], &[("n", 2.into()), ("stream", true.into())])).await;
    for index in 0..2 {
        let ends = frames.iter().filter_map(|frame| json::parse(frame).ok()).filter(|frame| {
            integer(at(frame, "choices.0.index")) == index
                && at(frame, "choices.0.finish_reason").as_str() == Some("stop")
        });
        assert_eq!(ends.count(), 1, "{frames:?}");
    }
}

const CHAT: &str = "/v1/chat/completions";
const INTERACTIVE: &str = "/v1/chat/interactive";

/// A reply whose end the template would write as another token.
const REPLY: &str = "Hello<|endoftext|>";

/// A server for two keys, whose model always replies with the same text.
async fn shared_server() -> Server {
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(sampled("qwen2.5", REPLY)), Step::End("eos")]);
    Server::with("qwen2.5", engine, Limits::default(), Keys::read("one\ntwo").unwrap()).await
}

/// Sends a body with a key, and returns the answer, the number of ids that were kept, and the prompt.
async fn say_as(server: &Server, key: &str, path: &str, body: &str) -> (Json, usize, Vec<u32>) {
    let response = server.request(path, body).header("authorization", format!("Bearer {key}")).send().await.unwrap();
    let session = response.headers()["x-rolecall-session"].to_str().unwrap().to_owned();
    let answer = json::parse(&response.text().await.unwrap()).unwrap();
    let kept = match path {
        INTERACTIVE => integer(at(&answer, "history_tokens")),
        _ => integer(at(&answer, "usage.prompt_tokens_details.kept_tokens")),
    };
    assert!(session.contains(&format!("kept={kept};")), "{session}");
    assert_eq!(session.starts_with("history=new;"), kept == 0, "{session}");
    (answer, kept as usize, server.engine.prompt())
}

/// The ids of a conversation that nobody had before.
fn fresh(messages: &[Json]) -> Vec<u32> {
    let prompt = model("qwen2.5").prompt(Request::from_text(&body(messages, &[])).unwrap()).unwrap();
    prompt.encode().unwrap().ids()
}

#[tokio::test]
async fn the_sessions_of_one_key_are_not_those_of_another() {
    let server = shared_server().await;
    let chat = |text: &str| body(&[user(text)], &[("session_id", 7.into())]);
    let interactive = |text: &str| {
        format!(r#"{{"prompt": "{text}", "session_id": 8, "interactive_mode": true, "request_output_len": 512}}"#)
    };
    for (path, say) in [(CHAT, &chat as &dyn Fn(&str) -> String), (INTERACTIVE, &interactive)] {
        let (_, kept, first) = say_as(&server, "one", path, &say("My secret")).await;
        assert_eq!((kept, &first), (0, &fresh(&[user("My secret")])), "{path}");
        let (_, kept, prompt) = say_as(&server, "two", path, &say("Hi")).await;
        assert_eq!((kept, &prompt), (0, &fresh(&[user("Hi")])), "{path}");
        for (key, first) in [("one", first), ("two", prompt)] {
            let (_, kept, prompt) = say_as(&server, key, path, &say("More")).await;
            let had = [first, sampled("qwen2.5", REPLY)].concat();
            assert_eq!(kept, had.len(), "{path} {key}");
            assert!(prompt.starts_with(&had), "{path} {key}");
        }
    }
    // Nor can another key end one.
    let end = r#"{"prompt": "", "session_id": 8, "interactive_mode": false, "request_output_len": 0}"#;
    let end = server.request(INTERACTIVE, end).header("authorization", "Bearer two").send().await.unwrap();
    assert_eq!(end.status().as_u16(), 200);
    assert_eq!(say_as(&server, "two", INTERACTIVE, &interactive("Hi")).await.1, 0);
    assert!(say_as(&server, "one", INTERACTIVE, &interactive("More")).await.1 > 0);
}

#[tokio::test]
async fn a_conversation_of_one_key_that_another_sends_again_is_not_recognised() {
    let server = shared_server().await;
    let (answer, _, first) = say_as(&server, "one", CHAT, &body(&[user("Hi")], &[])).await;
    let had = [first, sampled("qwen2.5", REPLY)].concat();
    let again = [user("Hi"), at(&answer, "choices.0.message").clone(), user("More")];
    let rendered = fresh(&again);
    assert!(!rendered.starts_with(&had));
    let (_, kept, prompt) = say_as(&server, "two", CHAT, &body(&again, &[])).await;
    assert_eq!((kept, prompt), (0, rendered));
    let (_, kept, prompt) = say_as(&server, "one", CHAT, &body(&again, &[])).await;
    assert_eq!(kept, had.len());
    assert!(prompt.starts_with(&had));
}

#[tokio::test]
async fn the_result_of_a_call_that_was_cut_off_is_refused_where_the_call_is_lost() {
    let ids = sampled("qwen2.5", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"R");
    let engine = StandIn::new(EngineKind::LlamaCpp, vec![Step::Ids(ids), Step::End("limit")]);
    let server = Server::new("qwen2.5", engine).await;
    let tools = |names: &[&str]| {
        let tool = |name: &&str| {
            let function = object! { "name" => *name, "description" => "D", "parameters" => json::Object::new() };
            object! { "type" => "function", "function" => function }.into()
        };
        Json::from(names.iter().map(tool).collect::<Vec<Json>>())
    };
    for (session, later, wanted) in [(1, &["f"][..], 200), (2, &["f", "g"], 400)] {
        let asks = |messages: &[Json], names: &[&str]| {
            body(messages, &[("session_id", session.into()), ("tools", tools(names))])
        };
        let (status, answer) = server.post(CHAT, &asks(&[user("Go")], &["f"])).await;
        assert_eq!(status, 200, "{answer:?}");
        let id = at(&answer, "choices.0.message.tool_calls.0.id").clone();
        assert!(id.as_str().is_some(), "{answer:?}");
        let result = object! { "role" => "tool", "tool_call_id" => id, "content" => "1" }.into();
        let (status, answer) = server.post(CHAT, &asks(&[result], later)).await;
        assert_eq!(status, wanted, "{answer:?}");
        if wanted == 400 {
            let error = (at(&answer, "error.code").as_str(), at(&answer, "error.param").as_str());
            assert_eq!(error, (Some("cut_call"), Some("tool_call_id")), "{answer:?}");
            assert_eq!(integer(at(&answer, "error.message_index")), 0);
        }
    }
}
