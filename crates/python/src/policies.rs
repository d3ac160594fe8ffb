//! The policies of parsing, as a dict with the names of the command's flags.

use pyo3::prelude::*;
use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, Place};
use rolecall::parse::{
    CallsInReasoning, Ids, JsonPolicy, ParseOptions, TextAfterCalls, UnclosedReasoning, UnknownNames,
};

use crate::error::Fault;
use crate::input::{self, Path};

/// Returns the policies of a mapping.
pub fn policies(value: Option<&Bound<'_, PyAny>>) -> PyResult<ParseOptions> {
    let mut options = ParseOptions::default();
    let Some(value) = value else { return Ok(options) };
    let py = value.py();
    let Json::Object(policies) = input::json(value, &mut Path::of("policies"))? else {
        return Err(input::wrong_type(value, "policies", "a dict"));
    };
    let mut nine = false;
    let mut seed = 0;
    for (key, value) in policies.iter() {
        let word = value.as_str().unwrap_or_default();
        let flag = match value {
            Json::Bool(flag) => Some(*flag),
            _ => None,
        };
        let number = || match value {
            Json::Number(number) => number.spelling().parse::<u64>().ok(),
            _ => None,
        };
        let known = match key {
            "calls_in_reasoning" => {
                let named = CallsInReasoning::ALL.into_iter().find(|(name, _)| *name == word);
                options.calls_in_reasoning = named.map(|(_, policy)| policy);
                options.calls_in_reasoning.is_some()
            }
            "unclosed_reasoning" => {
                options.unclosed_reasoning = UnclosedReasoning::of_word(word);
                options.unclosed_reasoning.is_some()
            }
            "unknown_names" => {
                let named = UnknownNames::ALL.into_iter().find(|(name, _)| *name == word);
                options.unknown_names = named.map(|(_, policy)| policy).unwrap_or_default();
                named.is_some()
            }
            "text_after_calls" => {
                let named = TextAfterCalls::ALL.into_iter().find(|(name, _)| *name == word);
                options.text_after_calls = named.map(|(_, policy)| policy).unwrap_or_default();
                named.is_some()
            }
            "strict_json" => {
                options.json = if flag == Some(true) { JsonPolicy::Strict } else { JsonPolicy::Lenient };
                flag.is_some()
            }
            "check_schema" => {
                options.check_schema = flag == Some(true);
                flag.is_some()
            }
            "max_calls" => {
                options.max_calls = number().and_then(|number| usize::try_from(number).ok());
                options.max_calls.is_some()
            }
            "cap" => {
                options.cap = number().and_then(|number| usize::try_from(number).ok());
                options.cap.is_some()
            }
            "id_seed" => {
                seed = number().unwrap_or_default();
                number().is_some()
            }
            "id_form" => {
                nine = word == "nine";
                matches!(word, "call" | "nine")
            }
            _ => false,
        };
        if !known {
            return Err(unknown_policy(py, key));
        }
    }
    options.ids = if nine { Ids::Nine(seed) } else { Ids::Seeded(seed) };
    Ok(options)
}

/// Adds the policies of a session to its request. A session parses its replies itself, so it has only
/// those of reasoning.
pub fn of_session(value: Option<&Bound<'_, PyAny>>, request: &mut Object) -> PyResult<()> {
    let options = policies(value)?;
    let Some(value) = value else { return Ok(()) };
    if let Json::Object(given) = input::json(value, &mut Path::of("policies"))?
        && let Some((key, _)) =
            given.iter().find(|(key, _)| !matches!(*key, "calls_in_reasoning" | "unclosed_reasoning"))
    {
        let message = "a session has no such policy".to_owned();
        let place = Some(Place::field(format!("policies.{key}")));
        let help = Some("known policies: calls_in_reasoning, unclosed_reasoning".to_owned());
        return Err(Fault { class: "RequestError", code: "unknown_policy", message, place, help }.raise(value.py()));
    }
    if let Some(policy) = options.calls_in_reasoning {
        request.insert("calls_in_reasoning", policy.key().into());
    }
    if let Some(policy) = options.unclosed_reasoning {
        request.insert("unclosed_reasoning", policy.word().into());
    }
    Ok(())
}

fn unknown_policy(py: Python<'_>, key: &str) -> PyErr {
    const KNOWN: [(&str, &str); 10] = [
        ("calls_in_reasoning", "\"draft\", \"call\" or \"unclosed\""),
        ("unclosed_reasoning", "\"reasoning\" or \"content\""),
        ("unknown_names", "\"pass\" or \"text\""),
        ("text_after_calls", "\"content\" or \"report\""),
        ("strict_json", "a bool"),
        ("check_schema", "a bool"),
        ("max_calls", "an int from 0"),
        ("cap", "an int from 0, in bytes"),
        ("id_seed", "an int from 0"),
        ("id_form", "\"call\" or \"nine\""),
    ];
    let (code, message, help) = match KNOWN.iter().find(|(name, _)| *name == key) {
        Some((_, values)) => ("wrong_type", format!("expected {values}"), None),
        None => {
            let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
            let help = format!("known policies: {}", names.join(", "));
            ("unknown_policy", "there is no policy of this name".to_owned(), Some(help))
        }
    };
    let place = Some(Place::field(format!("policies.{key}")));
    Fault { class: "RequestError", code, message, place, help }.raise(py)
}
