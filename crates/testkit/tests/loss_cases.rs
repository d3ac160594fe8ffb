//! Runs every case of `fixtures/loss`: a conversation, a chat template or a format, a policy, and
//! the text that carries loss between `‹` and `›`, with its weight if that is not 1.
//!
//! A policy is `{"turns": "last", "reasoning": 0.5, "content": 1, "calls": 0, "closer": 1,
//! "roles": {"tool": 1}, "whole_turns": true, "tagged": true, "final_stop": "refuse",
//! "allow": ["masked_stop", "empty"]}`, with every key optional.

#![allow(clippy::panic, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;

use rolecall::Prompt;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Json, Role, json};
use rolecall::infer::infer;
use rolecall::loss::{FinalStop, Loss, LossNote, LossPolicy, RoleLoss, closers};
use rolecall::render::{Error, Options, Writer};
use rolecall::template::{ChatTemplate, TemplateOptions};
use rolecall_testkit::Fixture;

#[test]
fn every_case_has_the_loss_that_it_shows() {
    Fixture::check_all("loss", |case| {
        let policy = policy(&object(case.section("policy").unwrap_or("{}")));
        let request = json::parse(case.needed("request")).expect("the request is JSON");
        let conversation = Conversation::from_json(request).expect("the request is a conversation");
        let found = match case.section("format") {
            Some(name) => by_format(name.trim(), &conversation, &policy),
            None => by_template(case, &conversation, &policy),
        };
        match found {
            Ok((prompt, loss)) => {
                case.expect("loss", &shown(&prompt, &loss));
                let notes: Vec<String> = loss.notes.iter().map(|note| told(note, &prompt)).collect();
                if !notes.is_empty() || case.section("notes").is_some() {
                    case.expect("notes", &notes.join("\n"));
                }
            }
            Err(error) => case.expect("error", &format!("{}: {error}", error.code())),
        }
    });
}

fn object(text: &str) -> Object {
    match json::parse(text) {
        Ok(Json::Object(object)) => object,
        other => panic!("expected an object, found {other:?}"),
    }
}

/// Renders by a built-in format, or by the file of one.
fn by_format(named: &str, conversation: &Conversation, policy: &LossPolicy) -> Result<(Prompt, Loss), Error> {
    let registry = rolecall::format::registry();
    let own = named.contains('\n').then(|| Arc::new(rolecall::format::load(named).expect("a format")));
    let format = own.as_ref().or_else(|| registry.get(named)).expect("a built-in format").for_training();
    let writer = Writer::format(format.clone(), Options::default());
    let prompt = writer.render(conversation)?;
    let loss = writer.loss(&prompt, conversation, &[], policy)?;
    Ok((prompt, loss))
}

fn by_template(case: &Fixture, conversation: &Conversation, policy: &LossPolicy) -> Result<(Prompt, Loss), Error> {
    let tokens = object(case.section("tokens").unwrap_or("{}"));
    let tokens: Vec<(String, String)> =
        tokens.iter().filter_map(|(name, token)| Some((name.to_owned(), token.as_str()?.to_owned()))).collect();
    let mut stops: Vec<String> =
        tokens.iter().filter(|(name, _)| name == "eos_token").map(|(_, token)| token.clone()).collect();
    let template = ChatTemplate::compile(case.needed("template"), tokens)?;
    stops.extend(closers(&infer(&template).format));
    let options = TemplateOptions::default();
    let prompt = Writer::template(template.clone(), options.clone()).render(conversation)?;
    let loss = Writer::template(template.clone(), options.clone()).loss(&prompt, conversation, &stops, policy)?;
    Ok((prompt, loss))
}

fn policy(keys: &Object) -> LossPolicy {
    let mut policy = match keys.get("turns").and_then(Json::as_str) {
        Some("last") => LossPolicy::last(),
        Some("chosen") => LossPolicy::chosen(),
        Some("all") => LossPolicy::all(),
        _ => LossPolicy::assistant(),
    };
    let weight = |json: Option<&Json>, default: f32| match json {
        Some(Json::Number(number)) => number.spelling().parse().expect("a weight"),
        _ => default,
    };
    policy.weights.reasoning = weight(keys.get("reasoning"), 1.0);
    policy.weights.content = weight(keys.get("content"), 1.0);
    policy.weights.calls = weight(keys.get("calls"), 1.0);
    policy.weights.closer = weight(keys.get("closer"), 1.0);
    let whole_turn = keys.get("whole_turns").and_then(Json::as_bool) == Some(true);
    for (role, json) in keys.get("roles").and_then(Json::as_object).into_iter().flat_map(Object::iter) {
        policy.roles.push(RoleLoss { role: Role::from_name(role), whole_turn, weight: weight(Some(json), 1.0) });
    }
    policy.tagged = keys.get("tagged").and_then(Json::as_bool) == Some(true);
    if keys.get("final_stop").and_then(Json::as_str) == Some("refuse") {
        policy.final_stop = FinalStop::Refuse;
    }
    let allowed: Vec<&str> =
        keys.get("allow").and_then(Json::as_array).unwrap_or_default().iter().filter_map(Json::as_str).collect();
    policy.allow_masked_stop = allowed.contains(&"masked_stop");
    policy.allow_empty = allowed.contains(&"empty");
    policy
}

/// Returns the prompt with its loss marked.
fn shown(prompt: &Prompt, loss: &Loss) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for span in &loss.spans {
        text.push_str(&prompt.text()[at..span.range.start]);
        text.push('‹');
        if span.weight != 1.0 {
            text.push_str(&format!("{}:", span.weight));
        }
        text.push_str(&prompt.text()[span.range.clone()]);
        text.push('›');
        at = span.range.end;
    }
    text + &prompt.text()[at..]
}

fn told(note: &LossNote, prompt: &Prompt) -> String {
    match note {
        LossNote::NoStop { message, .. } => format!("message {message}: no stop"),
        LossNote::Undetermined { message, range } => {
            format!("message {message}: undetermined {:?}", &prompt.text()[range.clone()])
        }
        LossNote::TagDiffers { range, is_tagged } => {
            let by = if *is_tagged { "tag" } else { "origin" };
            format!("only by {by}: {:?}", &prompt.text()[range.clone()])
        }
        other => format!("{other:?}"),
    }
}
