use std::borrow::Cow;

use rolecall::conversation::json::Object;
use rolecall::conversation::{Json, object};
use rolecall::encode::Decoder;

use crate::engine::{Odds, Word};
use crate::request::number::of_double;

/// How likely a token of a reply was, by its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenOdds {
    pub bytes: Vec<u8>,
    pub logprob: Option<f64>,
    /// The most likely tokens at its place.
    pub top: Vec<(Vec<u8>, f64)>,
}

impl TokenOdds {
    pub fn new(odds: &Odds, decoder: &Decoder) -> TokenOdds {
        let bytes = |word: &Word| match word {
            Word::Id(id) => bytes_of(*id, decoder),
            Word::Text(text) => text.clone().into_bytes(),
        };
        let top = odds.top.iter().map(|(word, logprob)| (bytes(word), *logprob)).collect();
        TokenOdds { bytes: bytes(&odds.word), logprob: odds.logprob, top }
    }

    /// Returns the token in the shape of chat completions.
    pub fn to_json(&self) -> Json {
        self.written(with_bytes)
    }

    /// Returns the token in the shape of the events of responses, which have no bytes.
    pub fn without_bytes(&self) -> Json {
        self.written(token)
    }

    /// Returns the token as text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Returns the log probability, or null if it is not known.
    pub fn likelihood(&self) -> Json {
        self.logprob.map_or(Json::Null, likelihood)
    }

    /// Returns the log probabilities of the most likely tokens and the sampled one, by their texts, or null
    /// if none is known.
    ///
    /// Parts of characters may have the same text. Then, the sampled token counts, or else the most likely.
    pub fn by_text(&self) -> Json {
        let mut all = Object::new();
        for (bytes, logprob) in &self.top {
            let text = String::from_utf8_lossy(bytes);
            if all.get(&text).is_none() {
                all.insert(&*text, likelihood(*logprob));
            }
        }
        if let Some(logprob) = self.logprob {
            all.insert(&*self.text(), likelihood(logprob));
        }
        if all.is_empty() { Json::Null } else { all.into() }
    }

    fn written(&self, token: fn(&[u8], Option<f64>) -> Object) -> Json {
        let top = self.top.iter().map(|(bytes, logprob)| token(bytes, Some(*logprob)).into());
        let mut token = token(&self.bytes, self.logprob);
        token.insert("top_logprobs", Json::Array(top.collect()));
        token.into()
    }
}

/// Returns the bytes of an id. One of padding has none.
pub fn bytes_of(id: u32, decoder: &Decoder) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = decoder.append(id, &mut bytes);
    bytes
}

/// What OpenAI's API reports for a token that is very unlikely.
const UNLIKELY: f64 = -9999.0;

fn likelihood(logprob: f64) -> Json {
    of_double(if logprob.is_finite() { logprob } else { UNLIKELY })
}

/// Chat completions and responses need a number, even if the log probability is not known.
fn token(bytes: &[u8], logprob: Option<f64>) -> Object {
    object! { "token" => &*String::from_utf8_lossy(bytes), "logprob" => likelihood(logprob.unwrap_or(UNLIKELY)) }
}

fn with_bytes(bytes: &[u8], logprob: Option<f64>) -> Object {
    let mut token = token(bytes, logprob);
    let all = bytes.iter().map(|byte| Json::from(i64::from(*byte)));
    token.insert("bytes", Json::Array(all.collect()));
    token
}
