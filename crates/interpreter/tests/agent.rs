//! The loop with functions and recorded code: what runs, what is refused, and when it ends.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rolecall::conversation::{Json, Message, json};
use rolecall_interpreter::agent::{Agent, AgentEvent, Callable, Decision, Policy, Replay, ToolError, Toolbox, TurnEnd};
use rolecall_interpreter::{CodeOutput, Execution, Recorded, Stop};

use crate::common::script::{Script, empty, request};

/// A function that answers with its arguments, and counts how many run at once.
#[derive(Default)]
struct Echo {
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Callable for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn definition(&self) -> Json {
        json::parse(r#"{"type": "function", "function": {"name": "echo", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}"#).unwrap()
    }

    fn call(&self, arguments: &str, _: &Stop) -> Result<String, ToolError> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(50));
        self.running.fetch_sub(1, Ordering::SeqCst);
        match arguments.contains("panic") {
            true => panic!("on purpose"),
            false if arguments.contains("fail") => Err(ToolError { code: "broken", message: "it broke".into() }),
            false => Ok(format!("got {arguments}")),
        }
    }
}

const CALL: &str = "Calling.<|action_start|><|plugin|>\n{\"name\": \"echo\", \"parameters\": {\"text\": \"x\"}}<|action_end|><|im_end|>";

fn turn(policy: Policy, replies: &[&str]) -> (Agent, Script, Result<TurnEnd, String>, Vec<String>) {
    let (model, mut script) = Script::new("internlm2", replies);
    let toolbox = Toolbox::default().with(Arc::new(Echo::default()));
    let mut agent = Agent::new(&model, empty(), toolbox, policy).unwrap();
    let mut seen = Vec::new();
    let end = agent.turn(&[Message::user("Hi")], &mut script, &Stop::default(), &mut |event| {
        seen.push(json::write(&event.to_json(), &json::Layout::compact()));
    });
    (agent, script, end.map_err(|error| error.to_string()), seen)
}

fn last_result(agent: &Agent) -> String {
    let messages = agent.session().messages();
    let result = messages.iter().rev().find(|message| message.role().name() == "tool").unwrap();
    result.text().unwrap()
}

#[test]
fn results_are_the_next_turn_and_only_new_ids_are_sent() {
    let (agent, script, end, _) = turn(Policy::default().allowing(["echo"]), &[CALL, "Done.<|im_end|>"]);
    assert_eq!(end, Ok(TurnEnd::Answer));
    assert_eq!(last_result(&agent), r#"got {"text": "x"}"#);
    assert!(
        script.prompt.ends_with(
            "<|im_start|>environment name=<|plugin|>\ngot {\"text\": \"x\"}<|im_end|>\n<|im_start|>assistant\n"
        ),
        "{}",
        script.prompt
    );
    assert!(script.new[1] < script.new[0], "{:?}", script.new);
    // A saved chat is a file that every command reads, and the prompt is what it stands for.
    let again = request(&json::write(&agent.conversation(), &json::Layout::compact()));
    let registry = rolecall::format::registry();
    let toy: Arc<dyn rolecall::tokenizer::Tokenizer> =
        Arc::new(rolecall_testkit::Toy::of(registry.get("internlm2").unwrap()));
    let model = rolecall::Model::builder().format("internlm2").loaded_tokenizer(toy).open().unwrap();
    let stock = model.prompt(again).unwrap();
    let text = String::from_utf8(agent.session().bytes()).unwrap();
    assert!(stock.text().starts_with(text.trim_end_matches("<|im_end|>")), "{text}");
}

#[test]
fn nothing_runs_unless_it_is_allowed() {
    let (agent, _, end, _) = turn(Policy::default(), &[CALL, "Well.<|im_end|>"]);
    assert_eq!(end, Ok(TurnEnd::Answer));
    assert_eq!(last_result(&agent), "error: this call was refused: nobody allowed it");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&asked);
    let ask = Box::new(move |call: &rolecall_interpreter::agent::OwnCall| {
        names.lock().unwrap().push((call.name().to_owned(), call.input.clone()));
        Decision::Run
    });
    let (agent, ..) = turn(Policy { ask: Some(ask), ..Policy::default() }, &[CALL, "Done.<|im_end|>"]);
    assert_eq!(last_result(&agent), r#"got {"text": "x"}"#);
    assert_eq!(*asked.lock().unwrap(), [("echo".to_owned(), r#"{"text": "x"}"#.to_owned())]);
}

#[test]
fn errors_of_calls_are_what_the_model_reads() {
    let replies = |name: &str, arguments: &str| {
        format!(
            "<|action_start|><|plugin|>\n{{\"name\": \"{name}\", \"parameters\": {arguments}}}<|action_end|><|im_end|>"
        )
    };
    for (name, arguments, text) in [
        ("echo", r#"{"text": "fail"}"#, "error: it broke"),
        ("echo", r#"{"text": "panic"}"#, "error: the tool failed in a way that it should not"),
        ("other", "{}", "error: there is no tool `other`; there are: echo"),
    ] {
        let call = replies(name, arguments);
        // Nobody is asked about a tool that does not exist.
        let (agent, _, end, seen) = turn(Policy::default().allowing(["echo"]), &[&call, "Well.<|im_end|>"]);
        assert_eq!(end, Ok(TurnEnd::Answer), "{seen:?}");
        assert_eq!(last_result(&agent), text);
    }
}

#[test]
fn rounds_time_and_a_stop_end_a_turn() {
    let (agent, _, end, _) = turn(Policy { rounds: 2, ..Policy::default().allowing(["echo"]) }, &[CALL, CALL, CALL]);
    assert_eq!(end, Ok(TurnEnd::Rounds));
    assert_eq!(agent.session().messages().len(), 4);
    let (_, _, end, _) = turn(Policy { time: Duration::ZERO, ..Policy::default().allowing(["echo"]) }, &[CALL, CALL]);
    assert_eq!(end, Ok(TurnEnd::Time));
    let (model, mut script) = Script::new("internlm2", &[CALL, CALL]);
    let mut agent = Agent::new(
        &model,
        empty(),
        Toolbox::default().with(Arc::new(Echo::default())),
        Policy::default().allowing(["echo"]),
    )
    .unwrap();
    let stop = Stop::default();
    let end = agent.turn(&[Message::user("Hi")], &mut script, &stop, &mut |event| {
        if let AgentEvent::Call(_) = event {
            stop.stop();
        }
    });
    assert_eq!(end.unwrap(), TurnEnd::Stopped);
    assert_eq!(last_result(&agent), "error: this call was refused: the user stopped");
    // The conversation goes on.
    let end = agent.turn(&[Message::user("Go on")], &mut script, &Stop::default(), &mut |_| {});
    assert!(end.is_err(), "the script is over: {end:?}");
}

#[test]
fn a_turn_whose_engine_fails_leaves_the_conversation_as_it_was() {
    let (agent, _, end, _) = turn(Policy::default(), &[]);
    assert_eq!(end, Err("the engine failed: the script is over".into()));
    assert!(agent.session().messages().is_empty());
}

#[test]
fn a_record_is_replayed_without_running_anything() {
    let policy = || Policy::default().allowing(["echo"]);
    let (agent, _, _, seen) = turn(policy(), &[CALL, "Done.<|im_end|>"]);
    let (model, _) = Script::new("internlm2", &[]);
    let mut replay = Replay::from_lines(&seen.join("\n")).unwrap();
    let echo = Arc::new(Echo::default());
    let toolbox = replay.toolbox(Toolbox::default().with(echo.clone()));
    let mut again = Agent::new(&model, empty(), toolbox, policy()).unwrap();
    let mut seen_again = Vec::new();
    let end = again.turn(&[Message::user("Hi")], &mut replay, &Stop::default(), &mut |event| {
        seen_again.push(json::write(&event.to_json(), &json::Layout::compact()));
    });
    assert_eq!(end.unwrap(), TurnEnd::Answer);
    assert_eq!(again.session().ids(), agent.session().ids());
    assert_eq!(echo.most.load(Ordering::SeqCst), 0);
    assert_eq!(seen_again, seen);
    let error = Replay::from_lines("{\"type\": \"message\"}").unwrap_err();
    assert_eq!(error.to_string(), "line 1 of the record: expected a list `ids`");
}

#[test]
fn functions_of_one_reply_run_beside_each_other() {
    let call = r#"{"name": "echo", "arguments": {"text": "x"}}"#;
    let reply = format!(
        "<tool_call>\n{call}\n</tool_call>\n<tool_call>\n{call}\n</tool_call>\n<tool_call>\n{call}\n</tool_call><|im_end|>"
    );
    for (parallel, most) in [(1, 1), (2, 2), (4, 3)] {
        let (model, mut script) = Script::new("qwen2.5", &[&reply, "Done.<|im_end|>"]);
        let echo = Arc::new(Echo::default());
        let policy = Policy { parallel, ..Policy::default().allowing(["echo"]) };
        let mut agent = Agent::new(&model, empty(), Toolbox::default().with(echo.clone()), policy).unwrap();
        agent.turn(&[Message::user("Hi")], &mut script, &Stop::default(), &mut |_| {}).unwrap();
        assert_eq!(echo.most.load(Ordering::SeqCst), most);
        assert_eq!(agent.session().messages().len(), 6);
    }
}

#[test]
fn recorded_code_takes_the_kernels_place() {
    let reply = "<|action_start|><|interpreter|>\n```python\n1 + 1\n```<|action_end|><|im_end|>";
    let (model, mut script) = Script::new("internlm2", &[reply, "2.<|im_end|>"]);
    let picture = CodeOutput::Picture { name: "output-1.png".into(), media: "image/png" };
    let result = Execution { outputs: vec![CodeOutput::Result("2".into()), picture], is_new_kernel: false };
    let recorded = Recorded::new([("1 + 1".to_owned(), Ok(result))]).unwrap();
    let toolbox = Toolbox::default().with_interpreter(Box::new(recorded));
    let mut agent = Agent::new(&model, empty(), toolbox, Policy::default().allowing(["code_interpreter"])).unwrap();
    let end = agent.turn(&[Message::user("Hi")], &mut script, &Stop::default(), &mut |_| {}).unwrap();
    assert_eq!(end, TurnEnd::Answer);
    assert!(
        script.prompt.contains("environment name=<|interpreter|>\n2\n![image](/mnt/data/output-1.png)<|im_end|>"),
        "{}",
        script.prompt
    );
}
