//! Items of MCP servers in both directions: calls that wait for the client's word, and what is sent back.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use rolecall::conversation::Json;
use rolecall::conversation::json;

use crate::common::{Server, Step, at, sampled};
use crate::mcp::{
    ALWAYS, DONE, FORMAT, NEVER, PATH, Tools, call, calls, echo, engine, id, post, prompt, refusal, server, types,
    write,
};

const WEATHER: &str = r#"{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}"#;

/// Returns the body of a request that goes on with some items.
fn next(previous: &str, items: &[String], tools: &str) -> String {
    format!(r#"{{"previous_response_id": "{previous}", "input": [{}], {tools}}}"#, items.join(", "))
}

/// Returns the body of a request with the whole conversation.
fn whole(items: &[String], tools: &str) -> String {
    format!(r#"{{"input": [{}], {tools}}}"#, items.join(", "))
}

fn user(text: &str) -> String {
    format!(r#"{{"role": "user", "content": "{text}"}}"#)
}

fn response(request: &str, approve: bool) -> String {
    format!(r#"{{"type": "mcp_approval_response", "approval_request_id": "{request}", "approve": {approve}}}"#)
}

fn output(answer: &Json) -> Vec<String> {
    at(answer, "output").as_array().unwrap().iter().map(write).collect()
}

fn item_id(answer: &Json, index: usize) -> String {
    at(answer, &format!("output.{index}.id")).as_str().unwrap().to_owned()
}

/// Lets the model say something next.
fn says(server: &Server, replies: &[String]) {
    let steps = engine(replies).script.lock().unwrap().drain(..).collect::<Vec<Vec<Step>>>();
    server.engine.script.lock().unwrap().extend(steps);
}

#[tokio::test]
async fn a_call_waits_for_the_client_and_runs_once_approved() {
    let tools = Tools::new(&[]);
    let server = server(&tools, &[echo("a")]).await;
    let asked = post(&server, &format!(r#"{{"input": "Go.", {ALWAYS}}}"#)).await;
    assert_eq!(types(&asked), ["mcp_list_tools", "mcp_approval_request"], "{}", write(&asked));
    assert_eq!(at(&asked, "output.1.name").as_str(), Some("echo.it"));
    assert_eq!(at(&asked, "output.1.arguments").as_str(), Some(r#"{"text": "a"}"#));
    assert_eq!(at(&asked, "output.1.server_label").as_str(), Some("own"));
    let (answer, request) = (id(&asked), item_id(&asked, 1));
    // What cannot go on is refused, and calls nothing.
    for (body, code, param) in [
        (next(&answer, &[user("And?")], ALWAYS), "missing_field", "input"),
        (format!(r#"{{"previous_response_id": "{answer}", "input": "And?", {ALWAYS}}}"#), "missing_field", "input"),
        (next(&answer, &[response("mcpr_x", true)], ALWAYS), "item_not_found", "input[0].approval_request_id"),
        (
            next(&answer, &[response(&request, true), response(&request, true)], ALWAYS),
            "item_not_found",
            "input[1].approval_request_id",
        ),
        (next(&answer, &[response(&request, true)], r#""store": true"#), "wrong_value", "input[0].approval_request_id"),
        (
            next(&answer, &[response(&request, true)], &format!(r#"{ALWAYS}, "temperature": "hot""#)),
            "wrong_value",
            "temperature",
        ),
    ] {
        assert_eq!(refusal(&server, &body).await, (400, code.to_owned(), param.to_owned()), "{body}");
    }
    assert_eq!(tools.count("tools/call echo.it"), 0);
    says(&server, &[DONE.to_owned()]);
    let done = post(&server, &next(&answer, &[response(&request, true)], ALWAYS)).await;
    assert_eq!(types(&done), ["mcp_call", "message"], "{}", write(&done));
    assert_eq!(at(&done, "output.0.approval_request_id").as_str(), Some(&*request));
    assert!(at(&done, "output.0.output").as_str().unwrap().starts_with("echo.it {\"text\": \"a\"}"));
    assert_eq!(at(&done, "rolecall.history").as_str(), Some("grown"));
    let by_id = server.engine.prompt();
    assert!(prompt(&server).contains("echo.it {\"text\": \"a\"}"));
    assert_eq!(tools.count("tools/call echo.it"), 1);
    // A client that keeps the conversation itself gets the same.
    says(&server, &[DONE.to_owned(), DONE.to_owned()]);
    let mut items = [vec![user("Go.")], output(&asked), vec![response(&request, true)]].concat();
    let own = post(&server, &whole(&items, ALWAYS)).await;
    assert_eq!(types(&own), ["mcp_call", "message"], "{}", write(&own));
    assert_eq!(server.engine.prompt(), by_id);
    assert_eq!(tools.count("tools/call echo.it"), 2);
    // With the result, nothing runs again.
    items.extend(output(&own));
    items.push(user("More."));
    let more = post(&server, &whole(&items, ALWAYS)).await;
    assert_eq!((types(&more), at(&more, "rolecall.history").as_str()), (vec!["message"], Some("grown")));
    assert!(server.engine.prompt().starts_with(&by_id));
    assert_eq!(tools.count("tools/call echo.it"), 2);
    items.retain(|item| !item.contains("\"mcp_call\""));
    assert_eq!(refusal(&server, &whole(&items, ALWAYS)).await.1, "missing_field");
}

#[tokio::test]
async fn an_approval_is_good_for_one_call() {
    let tools = Tools::new(&[]);
    let server = server(&tools, &[echo("a"), DONE.to_owned(), DONE.to_owned()]).await;
    let asked = post(&server, &format!(r#"{{"input": "Go.", {ALWAYS}}}"#)).await;
    let body = next(&id(&asked), &[response(&item_id(&asked, 1), true)], ALWAYS);
    // A client that does not wait sends it again.
    let answers = futures_util::future::join_all((0..4).map(|_| server.post(PATH, &body))).await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1);
    let again = refusal(&server, &body).await;
    assert_eq!(again, (400, "conflict".to_owned(), "input[0].approval_request_id".to_owned()));
    assert_eq!(tools.count("tools/call echo.it"), 1);
}

#[tokio::test]
async fn a_limit_that_is_reached_by_calls_ends_the_answer() {
    let tools = Tools::new(&[]);
    let server = server(&tools, &[echo("a"), echo("a"), DONE.to_owned()]).await;
    let most = sampled(FORMAT, &echo("a")).len();
    let body = format!(r#"{{"input": "Go.", "max_output_tokens": {most}, {NEVER}}}"#);
    let answer = post(&server, &body).await;
    assert_eq!(types(&answer), ["mcp_list_tools", "mcp_call"], "{}", write(&answer));
    assert_eq!(at(&answer, "status").as_str(), Some("incomplete"));
    assert_eq!(at(&answer, "incomplete_details.reason").as_str(), Some("max_output_tokens"));
    assert_eq!(at(&answer, "usage.output_tokens"), &Json::from(most as i64));
    assert_eq!(at(&answer, "output.1.status").as_str(), Some("completed"));
    assert_eq!(server.engine.bodies.lock().unwrap().len(), 1);
    let streamed = body.replace("\"input\"", "\"stream\": true, \"input\"");
    let text = server.request(PATH, &streamed).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("event: response.incomplete") && !text.contains("event: response.completed"), "{text}");
    // The next answer goes on from the result.
    let more = post(&server, &next(&id(&answer), &[user("More.")], NEVER)).await;
    assert_eq!(types(&more), ["message"]);
    assert!(prompt(&server).contains("echo.it {\"text\": \"a\"}"), "{}", prompt(&server));
}

#[tokio::test]
async fn a_model_reads_that_its_call_cannot_be_read() {
    let tools = Tools::new(&[]);
    let broken = calls(&[call("own_echo_it", "\"x\""), call("own_fail", "\"y\"")]);
    for offer in [NEVER, ALWAYS] {
        let server = server(&tools, &[broken.clone(), DONE.to_owned(), broken.clone(), DONE.to_owned()]).await;
        let body = format!(r#"{{"input": "Go.", {offer}}}"#);
        let answer = post(&server, &body).await;
        assert_eq!(types(&answer), ["mcp_list_tools", "mcp_call", "mcp_call", "message"], "{}", write(&answer));
        for index in [1, 2] {
            let item = at(&answer, &format!("output.{index}"));
            assert_eq!(at(item, "status").as_str(), Some("failed"));
            assert_eq!(at(item, "error.code"), &Json::from(-32602), "{}", write(item));
        }
        assert_eq!(prompt(&server).matches("error: it was not run: the arguments are not a JSON object").count(), 2);
        let streamed = body.replace("\"input\"", "\"stream\": true, \"input\"");
        let text = server.request(PATH, &streamed).send().await.unwrap().text().await.unwrap();
        for kind in ["output_item.added", "output_item.done"] {
            assert_eq!(text.matches(&format!("event: response.{kind}")).count(), 4, "{text}");
        }
        // Its item can be sent back, and the answer can be gone on from.
        says(&server, &[DONE.to_owned(), DONE.to_owned()]);
        post(&server, &whole(&[vec![user("Go.")], output(&answer), vec![user("More.")]].concat(), offer)).await;
        post(&server, &next(&id(&answer), &[user("More.")], offer)).await;
    }
    assert_eq!(tools.log().iter().filter(|line| line.starts_with("tools/call")).count(), 0);
}

#[tokio::test]
async fn an_approved_call_is_streamed_before_the_reply() {
    let tools = Tools::new(&[]);
    let server = server(&tools, &[echo("a"), DONE.to_owned()]).await;
    let body = format!(r#"{{"input": "Go.", "stream": true, {ALWAYS}}}"#);
    let kinds = |text: &str| {
        let kinds = text.lines().filter_map(|line| line.strip_prefix("event: response."));
        let mut kinds: Vec<String> = kinds.map(str::to_owned).collect();
        kinds.dedup();
        kinds
    };
    let text = server.request(PATH, &body).send().await.unwrap().text().await.unwrap();
    assert_eq!(kinds(&text)[6..], ["output_item.added", "output_item.done", "completed"]);
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let asked = at(&json::parse(last).unwrap(), "response").clone();
    let more = format!(r#"{ALWAYS}, "stream": true"#);
    let body = next(&id(&asked), &[response(&item_id(&asked, 1), true)], &more);
    let text = server.request(PATH, &body).send().await.unwrap().text().await.unwrap();
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
        "output_item.added",
    ];
    assert_eq!(kinds(&text)[..9], expected);
}

#[tokio::test]
async fn a_call_that_is_denied_does_not_run_and_the_model_is_told() {
    let tools = Tools::new(&[]);
    let two = calls(&[call("own_echo_it", r#"{"text": "a"}"#), call("own_fail", "{}")]);
    let server = server(&tools, &[two, DONE.to_owned()]).await;
    let asked = post(&server, &format!(r#"{{"input": "Go.", {ALWAYS}}}"#)).await;
    assert_eq!(types(&asked), ["mcp_list_tools", "mcp_approval_request", "mcp_approval_request"]);
    let (first, second) = (item_id(&asked, 1), item_id(&asked, 2));
    let denied = response(&second, false).replace("false}", "false, \"reason\": \"too risky\"}");
    // Both need an answer.
    assert_eq!(refusal(&server, &next(&id(&asked), std::slice::from_ref(&denied), ALWAYS)).await.1, "missing_field");
    let done = post(&server, &next(&id(&asked), &[response(&first, true), denied], ALWAYS)).await;
    assert_eq!(types(&done), ["mcp_call", "message"]);
    assert!(prompt(&server).contains("this call was refused: the user did not approve it: too risky"));
    assert_eq!((tools.count("tools/call echo.it"), tools.count("tools/call fail")), (1, 0));
}

#[tokio::test]
async fn calls_that_are_sent_back_are_the_same_turns() {
    let tools = Tools::new(&[]);
    let two = calls(&[call("own_echo_it", r#"{"text": "a"}"#), call("own_fail", "{}")]);
    let replies = [format!("Wait.\n{two}"), echo("b"), DONE.to_owned(), DONE.to_owned(), DONE.to_owned()];
    let server = server(&tools, &replies).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    let sent = server.engine.prompt();
    let items = [vec![user("Go.")], output(&answer), vec![user("More.")]].concat();
    let more = post(&server, &whole(&items, NEVER)).await;
    // Neither is anything rendered anew, nor are the tools listed again.
    assert_eq!((types(&more), at(&more, "rolecall.history").as_str()), (vec!["message"], Some("grown")));
    assert!(server.engine.prompt().starts_with(&sent));
    assert_eq!(tools.count("tools/call echo.it"), 2);
    // Items of another gateway, without its ids, mean the same to the model.
    let strip = |item: &String| {
        let mut item = json::parse(item).unwrap().as_object().unwrap().clone();
        item.insert("id", "mcp_68a6".into());
        item.remove("call_id");
        write(&item.into())
    };
    let foreign: Vec<String> = items.iter().filter(|item| item.contains("\"mcp_call\"")).map(strip).collect();
    let foreign = [vec![user("Go.")], foreign, vec![user("More.")]].concat();
    post(&server, &whole(&foreign, NEVER)).await;
    let text = prompt(&server);
    assert_eq!(text.matches("own_echo_it\", \"arguments\": {\"text\"").count(), 2, "{text}");
    assert!(text.contains("error: fail {}"), "{text}");
    let broken = foreign[1].replace("\\\"text\\\": ", "");
    assert_eq!(refusal(&server, &whole(&[user("Go."), broken], NEVER)).await.2, "input[1].arguments");
}

#[tokio::test]
async fn calls_of_the_client_end_the_answer_after_those_of_servers() {
    let tools = Tools::new(&[]);
    let mixed = calls(&[call("weather", "{}"), call("own_echo_it", r#"{"text": "a"}"#)]);
    let server = server(&tools, &[mixed, DONE.to_owned(), DONE.to_owned()]).await;
    let offer = NEVER.replace("[{", &format!("[{WEATHER}, {{"));
    let answer = post(&server, &format!(r#"{{"input": "Go.", {offer}}}"#)).await;
    assert_eq!(types(&answer), ["mcp_list_tools", "function_call", "mcp_call"], "{}", write(&answer));
    assert_eq!(at(&answer, "output.2.status").as_str(), Some("completed"));
    let call_id = at(&answer, "output.1.call_id").as_str().unwrap();
    let result = format!(r#"{{"type": "function_call_output", "call_id": "{call_id}", "output": "no rain"}}"#);
    let done = post(&server, &next(&id(&answer), std::slice::from_ref(&result), &offer)).await;
    assert_eq!(types(&done), ["message"]);
    let (by_id, text) = (server.engine.prompt(), prompt(&server));
    // In the order of the calls, not in that of who ran them.
    assert!(text.find("no rain").unwrap() < text.find("echo.it {").unwrap(), "{text}");
    let items = [vec![user("Go.")], output(&answer), vec![result]].concat();
    post(&server, &whole(&items, &offer)).await;
    assert_eq!(server.engine.prompt(), by_id);
    assert_eq!(tools.count("tools/call echo.it"), 1);
}

#[tokio::test]
async fn calls_run_beside_those_that_wait() {
    let tools = Tools::new(&[]);
    let two = calls(&[call("own_echo_it", r#"{"text": "a"}"#), call("own_fail", "{}")]);
    let server = server(&tools, &[two, DONE.to_owned()]).await;
    let offer = r#""tools": [{"type": "mcp", "server_label": "own", "require_approval": {"never": {"tool_names": ["echo.it"]}}}]"#;
    let asked = post(&server, &format!(r#"{{"input": "Go.", {offer}}}"#)).await;
    assert_eq!(types(&asked), ["mcp_list_tools", "mcp_call", "mcp_approval_request"]);
    let done = post(&server, &next(&id(&asked), &[response(&item_id(&asked, 2), true)], offer)).await;
    assert_eq!(types(&done), ["mcp_call", "message"]);
    assert_eq!(at(&done, "output.0.status").as_str(), Some("failed"));
    let text = prompt(&server);
    assert!(text.find("echo.it {").unwrap() < text.find("error: fail {}").unwrap(), "{text}");
}

/// Returns the order of texts in the prompt that the engine got last.
fn order<'a>(server: &Server, texts: &[&'a str]) -> Vec<&'a str> {
    let prompt = prompt(server);
    let mut places: Vec<(usize, &str)> = texts.iter().map(|text| (prompt.find(text).unwrap(), *text)).collect();
    places.sort_unstable();
    places.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test]
async fn results_come_in_the_order_of_their_calls() {
    let tools = Tools::new(&[]);
    let weather = WEATHER.replace("weather", "rain");
    let offer = |rule: &str| {
        format!(
            r#""tools": [{WEATHER}, {weather}, {{"type": "mcp", "server_label": "own", "require_approval": {rule}}}]"#
        )
    };
    let echo = |text: &str| call("own_echo_it", &format!(r#"{{"text": "{text}"}}"#));
    let (fail, one, two) = (call("own_fail", "{}"), call("weather", "{}"), call("rain", "{}"));
    let output =
        |id: &str, text: &str| format!(r#"{{"type": "function_call_output", "call_id": "{id}", "output": "{text}"}}"#);
    let never_echo = r#"{"never": {"tool_names": ["echo.it"]}}"#;
    let (a, b, failed) = ("echo.it {\"text\": \"a\"}", "echo.it {\"text\": \"b\"}", "error: fail {}");
    for (made, rule, expected) in [
        // Approvals in another order than the calls.
        (vec![echo("a"), echo("b"), fail.clone()], r#""always""#, vec![a, b, failed]),
        // One that waits before one that does not.
        (vec![fail.clone(), echo("b")], never_echo, vec![failed, b]),
        (vec![one.clone(), echo("a"), two.clone(), echo("b")], r#""never""#, vec!["sun", a, "wet", b]),
        (vec![two.clone(), fail, one.clone(), echo("b")], never_echo, vec!["wet", failed, "sun", b]),
        (vec![one, two], r#""never""#, vec!["sun", "wet"]),
    ] {
        let offer = offer(rule);
        let server = server(&tools, &[calls(&made), DONE.to_owned(), DONE.to_owned()]).await;
        let answer = post(&server, &format!(r#"{{"input": "Go.", {offer}}}"#)).await;
        let item = |item: &Json| {
            let text = |key: &str| at(item, key).as_str().unwrap().to_owned();
            match text("type").as_str() {
                "mcp_approval_request" => Some(response(&text("id"), true)),
                "function_call" => {
                    let said = if text("name") == "rain" { "wet" } else { "sun" };
                    Some(output(&text("call_id"), said))
                }
                _ => None,
            }
        };
        let mut items: Vec<String> = at(&answer, "output").as_array().unwrap().iter().filter_map(item).collect();
        items.reverse();
        items.insert(0, user("Sent before the results."));
        post(&server, &next(&id(&answer), &items, &offer)).await;
        assert_eq!(order(&server, &expected), expected, "{}", prompt(&server));
        // A client that keeps the conversation itself gets the same.
        let by_id = server.engine.prompt();
        let items = [vec![user("Go.")], self::output(&answer), items].concat();
        post(&server, &whole(&items, &offer)).await;
        assert_eq!(server.engine.prompt(), by_id, "{}", prompt(&server));
    }
}

#[tokio::test]
async fn a_model_that_calls_for_ever_is_ended() {
    let tools = Tools::new(&[]);
    let server = server(&tools, &vec![echo("a"); 40]).await;
    let answer = post(&server, &format!(r#"{{"input": "Go.", {NEVER}}}"#)).await;
    let last = at(&answer, "output").as_array().unwrap().last().unwrap();
    assert_eq!((at(last, "type").as_str(), at(last, "status").as_str()), (Some("mcp_call"), Some("failed")));
    assert!(at(last, "error.message").as_str().unwrap().contains("at most 32 replies"), "{}", write(last));
    assert_eq!(tools.count("tools/call echo.it"), 32);
    // The conversation can go on.
    server.engine.script.lock().unwrap().clear();
    says(&server, &[DONE.to_owned()]);
    let more = post(&server, &next(&id(&answer), &[user("More.")], NEVER)).await;
    assert_eq!(types(&more), ["message"]);
    assert!(prompt(&server).contains("error: it was not run"));
}

#[tokio::test]
async fn a_call_that_is_cut_off_is_incomplete_and_not_run() {
    let tools = Tools::new(&[]);
    let two = calls(&[call("own_echo_it", r#"{"text": "a"}"#), call("own_fail", r#"{"text": "long"}"#)]);
    let cut = sampled(FORMAT, &two).len() - 10;
    for (offer, kind) in [(NEVER, "mcp_call"), (ALWAYS, "mcp_approval_request")] {
        let server = server(&tools, &[two.clone(), two.clone()]).await;
        let body = format!(r#"{{"input": "Go.", "max_output_tokens": {cut}, {offer}}}"#);
        let answer = post(&server, &body).await;
        assert_eq!(types(&answer), ["mcp_list_tools", kind, "mcp_call"], "{}", write(&answer));
        assert_eq!(at(&answer, "status").as_str(), Some("incomplete"));
        assert_eq!(at(&answer, "output.2.status").as_str(), Some("incomplete"));
        if offer == NEVER {
            // The one that is whole has a result, so that the conversation can go on.
            assert!(at(&answer, "output.1.error.message").as_str().unwrap().ends_with("the reply was cut off"));
        }
        let streamed = body.replace("\"input\"", "\"stream\": true, \"input\"");
        let text = server.request(PATH, &streamed).send().await.unwrap().text().await.unwrap();
        assert_eq!(text.matches("event: response.output_item.done").count(), 3, "{text}");
        assert_eq!(text.matches("event: response.output_item.added").count(), 3);
    }
    assert_eq!(tools.log().iter().filter(|line| line.starts_with("tools/call")).count(), 0);
}

#[tokio::test]
async fn a_tool_can_be_required() {
    let tools = Tools::new(&[]);
    let server = server(&tools, &[echo("a"), DONE.to_owned(), DONE.to_owned()]).await;
    let ask = |choice: &str| format!(r#"{{"input": "Go.", "tool_choice": {choice}, {NEVER}}}"#);
    let choice = r#"{"type": "mcp", "server_label": "own", "name": "echo.it"}"#;
    let answer = post(&server, &ask(choice)).await;
    assert_eq!(types(&answer), ["mcp_list_tools", "mcp_call", "message"], "{}", write(&answer));
    assert_eq!(write(at(&answer, "tool_choice")), write(&json::parse(choice).unwrap()));
    assert!(server.engine.bodies.lock().unwrap()[0].contains("own_echo_it"));
    // A reply without the call shows that the engine ignored the grammar.
    assert_eq!(refusal(&server, &ask(r#"{"type": "mcp", "server_label": "own"}"#)).await.1, "grammar_ignored");
    for (choice, param) in [
        (r#"{"type": "mcp", "server_label": "new"}"#, "tool_choice.server_label"),
        (r#"{"type": "mcp", "server_label": "own", "name": "gone"}"#, "tool_choice.name"),
        (r#"{"type": "function", "name": "own_echo_it"}"#, "tool_choice.name"),
    ] {
        assert_eq!(refusal(&server, &ask(choice)).await, (400, "wrong_value".to_owned(), param.to_owned()));
    }
}
