//! Names for the beginnings of conversations, so that a client that sends one again is recognised.

use rolecall::Request;
use rolecall::conversation::json::{self, Layout, Object};
use rolecall::conversation::{Json, Message};
use sha2::{Digest, Sha256};

/// The digest of a conversation up to some message.
///
/// Two spellings of the same message have the same digest: the order of keys, the spelling of a call's
/// arguments, and keys that say nothing do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    whole: [u8; 32],
    /// That of the conversation without reasoning, which most clients do not send back.
    silent: [u8; 32],
}

impl Chain {
    /// Begins with a request that has no messages.
    pub fn new(model: &str, request: &Request) -> Chain {
        let mut text = String::new();
        write_sorted(&mut text, &request.to_json());
        let whole = digest(&[model.as_bytes(), text.as_bytes()]);
        Chain { whole, silent: whole }
    }

    /// Adds a message.
    #[must_use]
    pub fn push(self, message: &Message) -> Chain {
        self.push_by(message, &mut String::new())
    }

    /// Adds a message. `text` is where it is written; its content does not matter.
    #[must_use]
    pub fn push_by(self, message: &Message, text: &mut String) -> Chain {
        let mut after = |before: &[u8; 32], without: Option<&str>| {
            text.clear();
            write_message(text, message.as_object(), without);
            digest(&[before, text.as_bytes()])
        };
        let whole = after(&self.whole, None);
        let is_silent = message.as_object().get(REASONING).is_none_or(says_nothing);
        let silent = match is_silent && self.silent == self.whole {
            true => whole,
            false => after(&self.silent, Some(REASONING)),
        };
        Chain { whole, silent }
    }

    /// Returns the names of a conversation that ends here: as it is, without its last reasoning, and
    /// without any. `before` is the conversation before its last message.
    pub fn names(self, before: Chain, last: &Message) -> Vec<String> {
        let mut names = vec![self.name()];
        if let Some(silent) = without_reasoning(last) {
            names.push(before.push(&silent).name());
        }
        let silent = Chain { whole: self.silent, ..self }.name();
        if !names.contains(&silent) {
            names.push(silent);
        }
        names
    }

    /// Returns the name under which a conversation that ends here is found.
    pub fn name(self) -> String {
        with_hex(NAME, &self.whole)
    }

    pub fn hex(self) -> String {
        hex(&self.whole)
    }
}

/// What the names of conversations that are recognised begin with.
const NAME: &str = "history:";

/// Returns bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    with_hex("", bytes)
}

/// Returns a text with bytes as hexadecimal digits after it.
fn with_hex(start: &str, bytes: &[u8]) -> String {
    // A request has a name for each reply in it, and formatting would take longer than the digests.
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(start.len() + 2 * bytes.len());
    text.push_str(start);
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
    }
    text
}

/// Returns the digest of parts that are told apart.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize().into()
}

/// Returns the [`digest`] of the bytes of ids, the lowest first.
pub fn digest_of_ids(ids: &[u32]) -> [u8; 32] {
    let mut sum = Sha256::new();
    sum.update((4 * ids.len() as u64).to_le_bytes());
    let mut block = [[0; 4]; 256];
    for ids in ids.chunks(block.len()) {
        for (bytes, id) in block.iter_mut().zip(ids) {
            *bytes = id.to_le_bytes();
        }
        sum.update(block[..ids.len()].as_flattened());
    }
    sum.finalize().into()
}

fn without_reasoning(message: &Message) -> Option<Message> {
    let mut object = message.as_object().clone();
    object.remove(REASONING)?;
    Message::from_object(object).ok()
}

/// The key of a message's reasoning.
const REASONING: &str = "reasoning_content";

/// Writes a message without one key. What says nothing is left out, as clients add and drop it at will.
fn write_message(text: &mut String, message: &Object, without: Option<&str>) {
    let is_assistant = message.get("role").and_then(Json::as_str) == Some("assistant");
    let mut keys: Vec<(&str, &Json)> =
        message.iter().filter(|(key, value)| Some(*key) != without && !says_nothing(value)).collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    text.push('{');
    for (key, value) in keys {
        json::write_string(text, key, false);
        text.push(':');
        match (key, value) {
            ("tool_calls", Json::Array(calls)) if is_assistant => calls.iter().for_each(|call| write_call(text, call)),
            // A part of text alone is the text.
            ("content", Json::Array(parts)) => match &parts[..] {
                [Json::Object(part)] if is_text(part) => {
                    write_sorted(text, part.get("text").unwrap_or(&Json::Null));
                }
                _ => write_sorted(text, value),
            },
            _ => write_sorted(text, value),
        }
        text.push(',');
    }
    text.push('}');
}

/// Reports whether a part is a text and says no more than that.
pub fn is_text(part: &Object) -> bool {
    part.iter().all(|(key, value)| matches!(key, "type" | "text" | "cache_control") || says_nothing(value))
        && part.get("type").and_then(Json::as_str) == Some("text")
        && part.get("text").is_some_and(|text| text.as_str().is_some())
}

/// Reports whether the value of a key of a message says nothing, so that it may as well not be there.
pub fn says_nothing(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Writes a call, with its arguments as a value if they are the text of one.
pub fn write_call(text: &mut String, call: &Json) {
    let parsed = |arguments: &str| json::parse(arguments).ok().filter(|value| value.as_object().is_some());
    let function = call.as_object().and_then(|call| call.get("function")).and_then(Json::as_object);
    let arguments = function.and_then(|function| function.get("arguments")).and_then(Json::as_str).and_then(parsed);
    match (call, arguments) {
        (Json::Object(call), Some(arguments)) => {
            let mut call = call.clone();
            // Clients that count the pieces of a stream may leave its index in.
            call.remove("index");
            if let Some(Json::Object(function)) = call.get_mut("function") {
                function.insert("arguments", arguments);
            }
            write_sorted(text, &Json::Object(call));
        }
        _ => write_sorted(text, call),
    }
}

/// Writes a value with its keys in order and without white space.
pub fn write_sorted(text: &mut String, value: &Json) {
    match value {
        Json::Object(object) => {
            let mut keys: Vec<(&str, &Json)> = object.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in keys {
                json::write_string(text, key, false);
                text.push(':');
                write_sorted(text, value);
                text.push(',');
            }
            text.push('}');
        }
        Json::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(text, item);
                text.push(',');
            }
            text.push(']');
        }
        value => json::write_into(text, value, &Layout::compact()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use rolecall::Request;
    use rolecall::conversation::Message;
    use rolecall::conversation::json::Object;

    use super::{Chain, digest, digest_of_ids, hex, write_message};

    fn name(message: &str) -> String {
        let request = Request::from_text(&format!(r#"{{"messages": [{message}]}}"#)).unwrap();
        let message: &Message = &request.conversation.messages[0];
        let nothing = Request::without_messages(Object::new()).unwrap();
        Chain::new("m", &nothing).push(message).name()
    }

    #[test]
    fn the_digest_of_ids_is_that_of_their_bytes() {
        for count in [0, 1, 255, 256, 257, 1_000] {
            let ids: Vec<u32> = (0..count).map(|id| id * 4_294_967).collect();
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            assert_eq!(digest_of_ids(&ids), digest(&[&bytes]), "{count}");
        }
    }

    /// Stores keep names that earlier versions of the gateway made.
    #[test]
    fn the_text_that_is_digested_does_not_change() {
        let message = r#"{"role": "user", "name": "", "mood": {"b": [1, null], "a": "x"}, "content": [{"type": "text", "text": "a"}]}"#;
        let request = Request::from_text(&format!(r#"{{"messages": [{message}]}}"#)).unwrap();
        let mut text = String::new();
        write_message(&mut text, request.conversation.messages[0].as_object(), Some("role"));
        assert_eq!(text, r#"{"content":"a","mood":{"a":"x","b":[1,null,],},}"#);
    }

    #[test]
    fn a_byte_is_two_hexadecimal_digits() {
        assert_eq!(hex(&[0x00, 0x01, 0x2f, 0xfe, 0xff]), "00012ffeff");
    }

    #[test]
    fn spellings_of_a_message_have_one_name_and_other_messages_another() {
        let call = r#"{"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1, \"b\": 2}"}}]}"#;
        let same = r#"{"tool_calls": [{"function": {"arguments": "{\"b\":2,\"a\":1}", "name": "f"}, "type": "function", "id": "c"}], "refusal": null, "annotations": [], "role": "assistant", "content": ""}"#;
        assert_eq!(name(call), name(same));
        for other in [call.replace("1", "3"), call.replace(r#""c""#, r#""d""#), call.replace(r#""f""#, r#""g""#)] {
            assert_ne!(name(call), name(&other), "{other}");
        }
        let text = r#"{"role": "user", "content": "a"}"#;
        assert_eq!(name(text), name(r#"{"role": "user", "content": [{"type": "text", "text": "a"}]}"#));
        let styled = r#"{"role": "user", "content": [{"type": "text", "text": "a", "style": "bold"}]}"#;
        assert_ne!(name(text), name(styled));
        assert_ne!(name(styled), name(&styled.replace("bold", "thin")));
        assert_ne!(name(text), name(r#"{"role": "user", "content": "a", "mood": false}"#));
        assert_ne!(name(text), name(r#"{"role": "user", "content": "b"}"#));
        assert_ne!(name(text), name(r#"{"role": "system", "content": "a"}"#));
        assert_ne!(name(text), name(r#"{"role": "user", "content": "a", "name": "b"}"#));
    }
}
