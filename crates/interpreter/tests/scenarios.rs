//! The scenarios of InternLM2's and ChatGLM3's documents, by the library: the model's words from a script, the code in a
//! real kernel. `UPDATE=1` writes what a model sees and writes into the scenario, to be reviewed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, Message, object};
use rolecall::{Model, Request};
use rolecall_interpreter::agent::{Agent, Callable, Policy, ToolError, Toolbox, TurnEnd};
use rolecall_interpreter::{Folder, Interpreter, Stop};
use rolecall_testkit::{Scenario, ScenarioTool};

use crate::common::script::{Script, request};
use crate::common::session;

struct Tool(ScenarioTool);

impl Callable for Tool {
    fn name(&self) -> &str {
        self.0.definition.get("name").and_then(Json::as_str).unwrap()
    }

    fn definition(&self) -> Json {
        self.0.definition.clone().into()
    }

    fn call(&self, arguments: &str, _: &Stop) -> Result<String, ToolError> {
        assert_eq!(json::parse(arguments).unwrap(), self.0.arguments);
        Ok(self.0.result.clone())
    }
}

fn message(content: impl Into<Json>) -> Message {
    Message::from_object(object! { "role" => "user", "content" => content.into() }).unwrap()
}

/// Plays a scenario. Returns the text that the model saw and wrote, the text that the format writes for the conversation,
/// and the folder of the code. Without a kernel, a scenario with code is left out.
fn play(scenario: &Scenario) -> Option<(String, String, Option<Folder>)> {
    let replies: Vec<&str> = scenario.turns.iter().flat_map(|turn| &turn.replies).map(String::as_str).collect();
    let (model, mut script) = Script::new(&scenario.format, &replies);
    let mut toolbox = Toolbox::default();
    for tool in &scenario.tools {
        toolbox = toolbox.with(Arc::new(Tool(tool.clone())));
    }
    let mut parts = Vec::new();
    if scenario.has_code {
        let session = session()?;
        for (name, text) in &scenario.files {
            session.folder().write(name, text.as_bytes()).unwrap();
            parts.push(Folder::part(name, text.len() as u64));
        }
        toolbox = toolbox.with_interpreter(Box::new(session));
    }
    let mut begin = Request::without_messages(Object::new()).unwrap();
    let first = scenario.messages.iter().map(|message| Message::from_object(message.as_object().unwrap().clone()));
    begin.conversation.messages = first.map(Result::unwrap).collect();
    let allowed: Vec<String> = toolbox.names().map(str::to_owned).chain(["code_interpreter".to_owned()]).collect();
    let policy = Policy::default().allowing(allowed);
    let mut agent = Agent::new(&model, begin, toolbox, policy).unwrap();
    for turn in &scenario.turns {
        let said = match parts.is_empty() {
            true => message(turn.user.as_str()),
            false => {
                parts.push(object! { "type" => "text", "text" => turn.user.as_str() }.into());
                message(std::mem::take(&mut parts))
            }
        };
        let end = agent.turn(&[said], &mut script, &Stop::default(), &mut |_| {}).unwrap();
        assert_eq!(end, TurnEnd::Answer, "{}", scenario.name);
        let answer = agent.session().messages().last().and_then(|last| last.text());
        assert_eq!(answer.as_deref().map(str::trim), Some(turn.answer.as_str()), "{}", scenario.name);
    }
    let text = String::from_utf8(agent.session().bytes()).unwrap();
    Some((text, whole(&model, agent.conversation()), agent.folder()))
}

/// Returns what the format writes for a conversation.
fn whole(model: &Model, conversation: Json) -> String {
    let whole = request(&json::write(&conversation, &Layout::compact()));
    model.prompt(whole).unwrap().text().to_owned()
}

#[test]
fn every_scenario_of_the_documents_runs() {
    for scenario in Scenario::all() {
        let Some((text, whole, folder)) = play(&scenario) else { continue };
        if std::env::var_os("UPDATE").is_some() {
            write(&scenario, &text);
            continue;
        }
        scenario.check("library", &text);
        // What was sent turn by turn is what the format writes for the whole conversation.
        let of_format = |text: String, (model, format): &(String, String)| text.replace(model, format);
        let text = scenario.respelled.iter().fold(text, of_format);
        let (text, whole) = (text.trim_end(), whole.trim_end());
        assert!(whole.starts_with(text) || text.starts_with(whole), "{}: {text}\n---\n{whole}", scenario.name);
        for picture in &scenario.pictures {
            let picture = folder.as_ref().unwrap().read(picture).unwrap();
            assert!(picture.starts_with(b"\x89PNG") && picture.len() > 5000, "{}: {}", scenario.name, picture.len());
        }
    }
}

/// Writes the text into a scenario. What depends on the machine stands between the texts of the list: here, the number
/// of a cell in a traceback.
fn write(scenario: &Scenario, text: &str) {
    let path = rolecall_testkit::root().join(format!("fixtures/scenarios/{}.json", scenario.name));
    let Json::Object(mut all) = json::parse(&std::fs::read_to_string(&path).unwrap()).unwrap() else { panic!() };
    let mut texts = vec![String::new()];
    for line in text.split_inclusive('\n') {
        match line.split_once("/tmp/") {
            Some((before, after)) => {
                texts.last_mut().unwrap().push_str(before);
                texts.push(after[after.find(',').unwrap_or(0)..].to_owned());
            }
            None => texts.last_mut().unwrap().push_str(line),
        }
    }
    all.insert("text", texts.into_iter().map(Json::from).collect::<Vec<Json>>().into());
    std::fs::write(path, json::write(&all.into(), &Layout::indented(2)) + "\n").unwrap();
}
