use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};
use rolecall::model::Purpose;
use rolecall::tokenizer::TextPlace;
use rolecall::{Model, Request};

use crate::gateway::Gateway;
use crate::request::flag::flag;
use crate::request::number;
use crate::request::texts::TextEncoding;
use crate::turn::context::Bound;
use crate::{Fault, FaultCode};

/// Answers `/tokenize`: the ids of a text. Text that spells a control token stays text.
pub fn tokenize(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let object = read(body, &["model", "text"])?;
    let served = gateway.model(object.get("model"))?;
    let text = object.get("text").and_then(Json::as_str);
    let text = text.ok_or_else(|| Fault::at("text", FaultCode::WrongType, "text: expected a text"))?;
    let mut ids = Vec::new();
    let tokenizer = served.model.tokenizer()?;
    tokenizer
        .encode_ids(text, TextPlace::Start, &mut ids)
        .map_err(|error| Fault::new(FaultCode::Tokenizer, error.to_string()))?;
    let ids: Vec<Json> = ids.into_iter().map(|id| Json::from(i64::from(id))).collect();
    Ok(object! { "count" => ids.len() as i64, "tokens" => ids }.into())
}

/// Answers LMDeploy's `/v1/encode`: the ids of a text, or of each text of a list. With `do_preprocess`, a text is a
/// user's message in the model's format, and without `add_bos`, the turn that such a message adds to a conversation.
/// Text that spells a control token stays text. Source: `api_server.py` of LMDeploy v0.7.3.
pub fn encode(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let object = read(body, &["model", "input", "do_preprocess", "add_bos"])?;
    let served = gateway.model(object.get("model"))?;
    let (in_format, has_bos) = (flag(&object, "do_preprocess", false)?, flag(&object, "add_bos", true)?);
    let wrong = || Fault::at("input", FaultCode::WrongType, "input: expected a text or a list of texts");
    let ids = |text: &Json| {
        let text = text.as_str().ok_or_else(wrong)?;
        let bound = Bound::of(served, &gateway.limits);
        let ids = match in_format {
            true => of_message(&served.model, text, has_bos)?,
            false => {
                let how = TextEncoding { has_bos, is_reference: false };
                let ids = served.texts.encode(&served.model, text, how, bound.counted);
                ids.map_err(|fault| bound.placed(fault, "input"))?
            }
        };
        bound.check(ids.len(), "input")?;
        Ok(ids)
    };
    let shown = |ids: &[u32]| Json::from(ids.iter().map(|id| Json::from(i64::from(*id))).collect::<Vec<Json>>());
    match object.get("input") {
        Some(Json::Array(texts)) => {
            let ids = texts.iter().map(ids).collect::<Result<Vec<Vec<u32>>, Fault>>()?;
            let lengths: Vec<Json> = ids.iter().map(|ids| Json::from(ids.len() as i64)).collect();
            let ids: Vec<Json> = ids.iter().map(|ids| shown(ids)).collect();
            Ok(object! { "input_ids" => ids, "length" => lengths }.into())
        }
        input => {
            let ids = ids(input.unwrap_or(&Json::Null))?;
            Ok(object! { "input_ids" => shown(&ids), "length" => ids.len() as i64 }.into())
        }
    }
}

/// Returns the ids of a user's message: of a whole prompt, or of the turn that it adds to a conversation.
fn of_message(model: &Model, text: &str, is_first: bool) -> Result<Vec<u32>, Fault> {
    let message = |role: &str, text: &str| Json::from(object! { "role" => role, "content" => text });
    let (messages, purpose) = match is_first {
        true => (vec![message("user", text)], Purpose::Answer),
        false => (vec![message("user", ""), message("assistant", ""), message("user", text)], Purpose::NewTurn),
    };
    let request = Request::from_json(Json::Array(messages))?;
    Ok(model.prompt_for(request, purpose)?.encode()?.ids())
}

/// Answers `/detokenize`: the text of ids.
pub fn detokenize(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let object = read(body, &["model", "tokens"])?;
    let served = gateway.model(object.get("model"))?;
    let wrong = || Fault::at("tokens", FaultCode::WrongType, "tokens: expected a list of token ids");
    let ids = object.get("tokens").and_then(Json::as_array).ok_or_else(wrong)?;
    let id = |value: &Json| number::id(value).ok_or_else(wrong);
    let ids = ids.iter().map(id).collect::<Result<Vec<u32>, Fault>>()?;
    let bytes = served.model.decoder()?.decode(&ids).map_err(rolecall::Error::Encode);
    let bytes = bytes.map_err(|error| Fault { param: Some("tokens".into()), ..error.into() })?;
    Ok(object! { "text" => String::from_utf8_lossy(&bytes).into_owned() }.into())
}

fn read(body: &str, known: &[&str]) -> Result<Object, Fault> {
    let value = json::parse_unique(body).map_err(rolecall::request::Error::from)?;
    let Json::Object(object) = value else {
        return Err(Fault::new(FaultCode::WrongType, "expected a JSON object"));
    };
    let help = || Some(format!("send `{}`", known.join("` and `")).into());
    let refuse = |key| Fault { help: help(), ..Fault::unsupported(key) };
    let unknown = object.iter().map(|(key, _)| key).find(|key| !known.contains(key)).map(refuse);
    unknown.map_or(Ok(object), Err)
}
