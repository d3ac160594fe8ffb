use rolecall::conversation::{Json, object};
use rolecall::encode::Decoder;

use crate::engine::{Odds, Word};
use crate::number::of_double;

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
            Word::Id(id) => {
                let mut bytes = Vec::new();
                // An id of padding has none.
                let _ = decoder.append(*id, &mut bytes);
                bytes
            }
            Word::Text(text) => text.clone().into_bytes(),
        };
        let top = odds.top.iter().map(|(word, logprob)| (bytes(word), *logprob)).collect();
        TokenOdds { bytes: bytes(&odds.word), logprob: odds.logprob, top }
    }

    /// Returns the token in the shape of chat completions.
    pub fn to_json(&self) -> Json {
        let top = self.top.iter().map(|(bytes, logprob)| token(bytes, Some(*logprob)).into());
        let mut token = token(&self.bytes, self.logprob);
        token.insert("top_logprobs", Json::Array(top.collect()));
        token.into()
    }
}

/// What OpenAI's API reports for a token that is very unlikely.
const UNLIKELY: f64 = -9999.0;

fn token(bytes: &[u8], logprob: Option<f64>) -> rolecall::conversation::json::Object {
    let all: Vec<Json> = bytes.iter().map(|byte| Json::from(i64::from(*byte))).collect();
    let logprob = logprob.filter(|logprob| logprob.is_finite()).unwrap_or(UNLIKELY);
    object! { "token" => &*String::from_utf8_lossy(bytes), "logprob" => of_double(logprob), "bytes" => all }
}
