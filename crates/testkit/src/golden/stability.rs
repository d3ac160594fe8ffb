//! How the prompts of real chat templates change when a conversation grows.

use std::path::Path;

use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, json, object};
use rolecall::render::Writer;
use rolecall::stability::{KeptLength, Step, stability};
use rolecall::template::{Forms, TemplateOptions};

use super::hf_jinja::Shared;
use super::parity::request;
use crate::Verdict;

pub(super) fn run(row: &Object, shared: &mut Shared, folder: Option<&Path>) -> Verdict {
    let Some(folder) = folder else { return Verdict::cannot_run("no folder of templates given (--templates DIR)") };
    let expected = row.get("expected").and_then(Json::as_object).and_then(|expected| expected.get("steps")?.as_array());
    let Some(expected) = expected else { return Verdict::cannot_run("the row has no `steps`") };
    let template = match shared.template_of_index(folder, super::text(row, "template")) {
        Ok(template) => template,
        Err(why) => return Verdict::Failed { expected: "a template".into(), found: why },
    };
    let conversation = match super::read(request(row, false)) {
        Ok(conversation) => conversation,
        Err(error) => return Verdict::cannot_run(error.to_string()),
    };
    let options =
        TemplateOptions { now: Some(shared.usual_now()), forms: Forms::AsGiven, ..TemplateOptions::default() };
    let found = stability(&conversation, &Writer::template(template, options));
    let found = found.steps.iter().map(of_step).collect();
    Verdict::compare(&written(expected.to_vec()), &written(found))
}

/// Returns a step as the reference writes it.
fn of_step(step: &Step) -> Json {
    let mut object = object! { "messages" => step.messages as i64 };
    let generation = step.generation.as_ref().map(Result::as_ref).transpose();
    match (&step.history, generation) {
        (Ok(history), Ok(generation)) => {
            insert(&mut object, ["stable", "length", "common"], history);
            if let Some(generation) = generation {
                insert(&mut object, ["generation_prompt_stable", "generation_length", "generation_common"], generation);
            }
        }
        // The reference tells no more if one of the prompts is refused.
        _ => object.insert("refused", Json::from(true)),
    }
    Json::Object(object)
}

/// Adds a comparison, in code points.
fn insert(object: &mut Object, keys: [&'static str; 3], kept: &KeptLength) {
    let common = kept.change.as_ref().map_or(kept.characters, |change| change.character);
    let values = [Json::from(kept.is_stable()), Json::from(kept.characters as i64), Json::from(common as i64)];
    for (key, value) in keys.into_iter().zip(values) {
        object.insert(key, value);
    }
}

fn written(steps: Vec<Json>) -> String {
    json::write(&Json::Array(steps), &Layout::default())
}
