//! Finds replies that do not follow the grammar that the engine was sent.

use rolecall::conversation::json;
use rolecall::grammar::{Answer, Note, Purpose, ToolChoice};
use rolecall::parse::{ParsedCall, check_schema};

use crate::reply::writer::WholeReply;
use crate::request::chat_request::ChatRequest;
use crate::{Fault, FaultCode};

/// Refuses a whole reply that no engine could have sampled with the grammar of the request. `notes` say what the
/// grammar does not enforce. A reply that was cut off is no proof.
pub fn check(wanted: &ChatRequest, notes: &[Note], said: &WholeReply, is_cut: bool) -> Result<(), Fault> {
    if wanted.is_free() || is_cut {
        return Ok(());
    }
    match difference(wanted, notes, said) {
        None => Ok(()),
        Some(difference) => {
            let help = Some("check that the engine supports grammars and that nothing turns them off".into());
            let fault = Fault::new(FaultCode::GrammarIgnored, format!("the engine ignored the grammar: {difference}"));
            Err(Fault { help, ..fault })
        }
    }
}

/// Returns what is different from what the request asks for.
fn difference(wanted: &ChatRequest, notes: &[Note], said: &WholeReply) -> Option<String> {
    let calls = &said.reading.calls;
    match &wanted.calls.choice {
        ToolChoice::Required if calls.is_empty() => return Some("a call is required, and the reply has none".into()),
        ToolChoice::Named(name) if calls.is_empty() => {
            return Some(format!("a call of `{name}` is required, and the reply has none"));
        }
        ToolChoice::Named(name) => {
            if let Some(other) = calls.iter().map(name_of).find(|other| other != name) {
                return Some(format!("a call of `{name}` is required, and the reply calls `{other}`"));
            }
        }
        ToolChoice::None if !calls.is_empty() => return Some("no calls are allowed, and the reply has one".into()),
        _ => {}
    }
    if wanted.calls.at_most_one && calls.len() > 1 {
        return Some(format!("one call is allowed, and the reply has {}", calls.len()));
    }
    if !wanted.calls.is_free() {
        let of_call = calls.iter().find_map(|call| Some((name_of(call), of_arguments(wanted, notes, call)?)));
        if let Some((name, difference)) = of_call {
            return Some(format!("the arguments of `{name}` do not fit its schema: {difference}"));
        }
    }
    match calls.is_empty() && said.stop_text.is_none() {
        true => of_answer(&wanted.answer.answer, notes, &said.reading.content),
        false => None,
    }
}

fn of_answer(answer: &Answer, notes: &[Note], content: &str) -> Option<String> {
    let value = match answer {
        Answer::Free => return None,
        Answer::Object | Answer::Schema(_) => json::parse(content),
    };
    match (answer, value) {
        (_, Err(_)) => Some("the answer is not JSON".into()),
        (Answer::Object, Ok(value)) => value.as_object().is_none().then(|| "the answer is no JSON object".into()),
        (Answer::Schema(schema), _) if enforces(notes, &Purpose::Answer) => {
            let difference = check_schema(content, schema)?;
            Some(format!("the answer does not fit its schema: {difference}"))
        }
        _ => None,
    }
}

/// Returns what is different about the arguments of a call, if its schema is enforced whole.
fn of_arguments(wanted: &ChatRequest, notes: &[Note], call: &ParsedCall) -> Option<String> {
    let ParsedCall::Function { name, arguments, whole: true, .. } = call else { return None };
    let tools = wanted.request.conversation.tools.as_deref().unwrap_or_default();
    let schema = tools.iter().find(|tool| tool.name() == *name)?.function()?.get("parameters")?;
    let is_enforced = enforces(notes, &Purpose::Arguments(name.clone()));
    check_schema(arguments, schema).filter(|_| is_enforced && !schema.is_null())
}

/// Reports whether the grammar says all of a schema.
fn enforces(notes: &[Note], of: &Purpose) -> bool {
    !notes.iter().any(|note| matches!(note, Note::Keyword { purpose, .. } if purpose == of))
}

fn name_of(call: &ParsedCall) -> &str {
    match call {
        ParsedCall::Function { name, .. } => name,
        ParsedCall::Code { .. } => "code_interpreter",
    }
}
