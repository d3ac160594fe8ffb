use rolecall::conversation::json::{self, Object};
use rolecall::conversation::{Json, object};
use rolecall::tokenizer::TextPlace;

use crate::gateway::Gateway;
use crate::request::number;
use crate::{Fault, FaultCode};

/// Answers `/tokenize`: the ids of a text. Text that spells a control token stays text.
pub fn tokenize(gateway: &Gateway, body: &str) -> Result<Json, Fault> {
    let object = read(body, &["model", "text"])?;
    let served = gateway.model(object.get("model"))?;
    let text = object.get("text").and_then(Json::as_str);
    let text = text.ok_or_else(|| Fault::at("text", FaultCode::WrongType, "text: expected a text"))?;
    let mut tokens = Vec::new();
    let tokenizer = served.model.tokenizer()?;
    tokenizer
        .encode_ordinary(text, TextPlace::Start, &mut tokens)
        .map_err(|error| Fault::new(FaultCode::Tokenizer, error.to_string()))?;
    let ids: Vec<Json> = tokens.iter().map(|token| Json::from(i64::from(token.id))).collect();
    Ok(object! { "count" => ids.len() as i64, "tokens" => ids }.into())
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
