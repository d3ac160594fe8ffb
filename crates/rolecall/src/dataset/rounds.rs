//! XTuner's rows: a conversation of rounds, each with an input and an output.

use rolecall_conversation::Json;
use rolecall_conversation::json::Object;
use rolecall_openai::Error;

use super::dialogue::read_tools;
use super::{Draft, Origins, message, missing, take_text, wrong_type};

/// Reports whether a list holds rounds.
pub(super) fn is_rounds(rounds: &[Json]) -> bool {
    let has = |round: &Json, key: &str| round.as_object().is_some_and(|round| round.get(key).is_some());
    rounds.iter().any(|round| has(round, "output") || has(round, "input"))
}

/// Reads `{"conversation": [{"system"?, "input"?, "output", "output_with_loss"?}, ..]}`. Other keys of
/// a round stay with its output, where nothing reads them.
pub(super) fn read(mut object: Object) -> Result<Draft, Error> {
    let rounds = match object.remove("conversation") {
        Some(Json::Array(rounds)) => rounds,
        Some(other) => return Err(wrong_type("conversation", "a list of rounds", &other)),
        None => return Err(missing("conversation")),
    };
    let (mut messages, mut paths) = (Vec::new(), Vec::new());
    for (at, round) in rounds.into_iter().enumerate() {
        let path = format!("conversation[{at}]");
        let mut round = match round {
            Json::Object(round) => round,
            other => return Err(wrong_type(path, "a round: an object with `input` and `output`", &other)),
        };
        let mut add = |message: Json, key: &str| {
            messages.push(message);
            paths.push(format!("{path}.{key}"));
        };
        let text = |value: Json, key: &str| match value {
            Json::String(text) => Ok(text),
            other => Err(wrong_type(format!("{path}.{key}"), "a string", &other)),
        };
        if let Some(system) = take_text(&mut round, "system")? {
            add(message("system", system), "system");
        }
        let input = round
            .remove("input")
            .filter(|input| !input.is_null())
            .map_or(Ok(String::new()), |input| text(input, "input"))?;
        add(message("user", input), "input");
        let output = round.remove("output").ok_or_else(|| missing(format!("{path}.output")))?;
        let Json::Object(mut reply) = message("assistant", text(output, "output")?) else { continue };
        if let Some(has_loss) = round.remove("output_with_loss").filter(|has_loss| !has_loss.is_null()) {
            reply.insert("loss", has_loss);
        }
        round.iter().for_each(|(key, value)| reply.insert(key, value.clone()));
        add(Json::Object(reply), "output");
    }
    read_tools(&mut object)?;
    object.insert("messages", Json::Array(messages));
    Ok(Draft { object, side: None, origins: Origins::of_paths(paths) })
}
