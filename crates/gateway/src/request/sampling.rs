use rolecall::conversation::Json;
use rolecall::conversation::json::Object;
use rolecall::{Model, encode};

use crate::request::number;
use crate::{Fault, FaultCode};

/// How an engine samples. What is `None` is the engine's own default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The sampling temperature, from 0 to 2.
    pub temperature: Option<f64>,
    /// The cumulative probability of nucleus sampling, above 0 and at most 1.
    pub top_p: Option<f64>,
    /// The number of most likely tokens to sample from.
    pub top_k: Option<u64>,
    /// The least probability of a token, relative to the most likely one.
    pub min_p: Option<f64>,
    /// The penalty for tokens that occurred, from -2 to 2.
    pub presence_penalty: Option<f64>,
    /// The penalty for tokens by how often they occurred, from -2 to 2.
    pub frequency_penalty: Option<f64>,
    /// The factor that makes tokens that occurred less likely. 1 means none.
    pub repetition_penalty: Option<f64>,
    /// The seed.
    pub seed: Option<u64>,
    /// The most ids of the reply.
    pub max_tokens: Option<u64>,
    /// What is added to the logits of ids.
    pub logit_bias: Vec<(u32, f64)>,
    /// Texts that end the reply.
    pub stop: Vec<String>,
}

/// The settings of a request that are read here.
pub const SETTINGS: [&str; 12] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "logit_bias",
    "stop",
];

/// The longest stop text, in bytes.
const LONGEST_STOP: usize = 1024;

/// The most stop texts of a request.
const MOST_STOPS: usize = 16;

impl Sampling {
    /// Reads the settings of a request. What it does not say is as the model's files say. The second
    /// value names the settings that come from there.
    pub fn read(request: &Object, model: &Model) -> Result<(Sampling, Vec<&'static str>), Fault> {
        let usual = model.sampling();
        let mut applied = Vec::new();
        let mut or = |name: &'static str, given: Option<f64>, usual: Option<f64>| {
            if given.is_none() && usual.is_some() {
                applied.push(name);
            }
            given.or(usual)
        };
        let number = |name: &str, low: f64, high: f64| double(request, name, low, high);
        let temperature = or("temperature", number("temperature", 0.0, 2.0)?, usual.temperature);
        let top_p = or("top_p", number("top_p", f64::MIN_POSITIVE, 1.0)?, usual.top_p);
        let min_p = or("min_p", number("min_p", 0.0, 1.0)?, usual.min_p);
        let given = number("repetition_penalty", f64::MIN_POSITIVE, 100.0)?;
        let repetition_penalty = or("repetition_penalty", given, usual.repetition_penalty);
        let given = small(request, "top_k")?;
        if given.is_none() && usual.top_k.is_some() {
            applied.push("top_k");
        }
        let top_k = given.or(usual.top_k.map(|usual| usual.min(MOST)));
        let (long, short) = (small(request, "max_completion_tokens")?, small(request, "max_tokens")?);
        if let (Some(long), Some(short)) = (long, short)
            && long != short
        {
            return Err(Fault::at(
                "max_tokens",
                FaultCode::Conflict,
                "`max_tokens` and `max_completion_tokens` differ",
            ));
        }
        let given = long.or(short);
        if given == Some(0) {
            let name = if long.is_some() { "max_completion_tokens" } else { "max_tokens" };
            return Err(Fault::at(name, FaultCode::WrongValue, format!("{name}: expected a whole number from 1")));
        }
        if given.is_none() && usual.max_new_tokens.is_some() {
            applied.push("max_tokens");
        }
        let sampling = Sampling {
            temperature,
            top_p,
            top_k,
            min_p,
            presence_penalty: number("presence_penalty", -2.0, 2.0)?,
            frequency_penalty: number("frequency_penalty", -2.0, 2.0)?,
            repetition_penalty,
            seed: count(request, "seed")?,
            max_tokens: given.or(usual.max_new_tokens.map(|usual| usual.min(MOST))),
            logit_bias: biases(request, model)?,
            stop: stops(request)?,
        };
        Ok((sampling, applied))
    }
}

fn given<'a>(request: &'a Object, name: &str) -> Option<&'a Json> {
    request.get(name).filter(|value| !value.is_null())
}

fn double(request: &Object, name: &str, low: f64, high: f64) -> Result<Option<f64>, Fault> {
    let Some(value) = given(request, name) else { return Ok(None) };
    let number = number::double(value).filter(|number| (low..=high).contains(number));
    let least = if low == f64::MIN_POSITIVE { "above 0".to_owned() } else { format!("from {low}") };
    number
        .map(Some)
        .ok_or_else(|| Fault::at(name, FaultCode::WrongValue, format!("{name}: expected a number {least} to {high}")))
}

fn count(request: &Object, name: &str) -> Result<Option<u64>, Fault> {
    let Some(value) = given(request, name) else { return Ok(None) };
    let count = number::count(value);
    let wrong = || Fault::at(name, FaultCode::WrongValue, format!("{name}: expected a whole number from 0"));
    count.map(Some).ok_or_else(wrong)
}

/// Reads a number that fits into 32 bits with a sign, as engines read it.
fn small(request: &Object, name: &str) -> Result<Option<u64>, Fault> {
    let count = count(request, name)?;
    if count.is_some_and(|count| count > MOST) {
        return Err(Fault::at(
            name,
            FaultCode::WrongValue,
            format!("{name}: expected a whole number from 0 to {MOST}"),
        ));
    }
    Ok(count)
}

/// The largest number of 32 bits with a sign.
const MOST: u64 = i32::MAX as u64;

/// The most ids whose logits are changed.
const MOST_BIASES: usize = 4096;

fn stops(request: &Object) -> Result<Vec<String>, Fault> {
    let wrong = || {
        Fault::at(
            "stop",
            FaultCode::WrongValue,
            format!("stop: expected a text of 1 to {LONGEST_STOP} bytes, or up to {MOST_STOPS} of them"),
        )
    };
    let is_good = |text: &&str| (1..=LONGEST_STOP).contains(&text.len());
    let text = |value: &Json| value.as_str().filter(is_good).map(str::to_owned).ok_or_else(wrong);
    match given(request, "stop") {
        None => Ok(Vec::new()),
        Some(Json::Array(texts)) if texts.len() <= MOST_STOPS => texts.iter().map(text).collect(),
        Some(Json::Array(_)) => Err(wrong()),
        Some(value) => Ok(vec![text(value)?]),
    }
}

fn biases(request: &Object, model: &Model) -> Result<Vec<(u32, f64)>, Fault> {
    let Some(value) = given(request, "logit_bias") else { return Ok(Vec::new()) };
    let wrong =
        || Fault::at("logit_bias", FaultCode::WrongValue, "logit_bias: expected numbers from -100 to 100 by token id");
    let biases = value.as_object().ok_or_else(wrong)?;
    if biases.len() > MOST_BIASES {
        let message = format!("logit_bias: {} ids, and at most {MOST_BIASES} are allowed", biases.len());
        return Err(Fault::at("logit_bias", FaultCode::WrongValue, message));
    }
    let bias = |(id, bias): (&str, &Json)| {
        let bias = number::double(bias).filter(|bias| (-100.0..=100.0).contains(bias));
        Some((id.parse::<u32>().ok()?, bias?))
    };
    let biases: Vec<(u32, f64)> = biases.iter().map(|entry| bias(entry).ok_or_else(wrong)).collect::<Result<_, _>>()?;
    if !biases.is_empty() {
        // Engines fail in different ways, or ignore it.
        let decoder = model.decoder()?;
        let is_unknown = |id| matches!(decoder.append(id, &mut Vec::new()), Err(encode::Error::UnknownId { .. }));
        if let Some((id, _)) = biases.iter().find(|(id, _)| is_unknown(*id)) {
            let message = format!("logit_bias: no token has the id {id}");
            return Err(Fault::at("logit_bias", FaultCode::WrongValue, message));
        }
    }
    Ok(biases)
}
