//! What a message is compared by when a client repeats one of a session.

use rolecall::conversation::{Content, Json, Message, REASONING, Role, json};

use super::chain::{digest, is_text, says_nothing, write_call, write_sorted};

/// The likeness of a message. Two are equal if one may be the other as a client sends it again: clients change the
/// spelling of calls, drop reasoning, names, the text beside a call and the white space around a reply, and add
/// keys that say nothing to a reply.
#[derive(Clone, Debug)]
pub struct Likeness {
    whole: [u8; 32],
    /// What a client may drop: the reasoning, the text beside calls, and the name.
    loose: [Option<[u8; 32]>; 3],
}

impl Likeness {
    /// Returns the likeness of a message. Models differ in whether they have a content in parts or as one text, so
    /// this matters only if both messages are in the form of the same model.
    pub fn of(message: &Message, is_of_same_model: bool) -> Likeness {
        let object = message.as_object();
        let is_reply = *message.role() == Role::Assistant;
        let has_calls = is_reply && message.calls().len() > 0;
        // The name of a function is found by its call.
        let has_loose_name = is_reply || *message.role() == Role::Tool;
        let content = content_of(message, is_of_same_model);
        let content = if is_reply { content.trim() } else { &content };
        let mut text = String::from(message.role().name());
        if !has_calls {
            text.push('\n');
            json::write_string(&mut text, content, false);
        }
        let is_loose = |key: &str, value: &Json| match key {
            "role" | "content" => true,
            "id" => is_reply,
            "name" => has_loose_name,
            key if is_reply && REASONING.contains(&key) => true,
            _ => says_nothing(value) || is_reply && is_usual(value),
        };
        let mut keys: Vec<(&str, &Json)> = object.iter().filter(|(key, value)| !is_loose(key, value)).collect();
        keys.sort_unstable_by_key(|(key, _)| *key);
        for (key, value) in keys {
            text.push('\n');
            json::write_string(&mut text, key, false);
            match value {
                Json::Array(calls) if is_reply && key == "tool_calls" => {
                    calls.iter().for_each(|call| write_call(&mut text, call));
                }
                value => write_sorted(&mut text, value),
            }
        }
        let some =
            |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(|text| digest(&[text.as_bytes()]));
        let text_at = |key: &str| object.get(key).and_then(Json::as_str);
        let reasoning = REASONING.iter().find_map(|key| some(text_at(key)?)).filter(|_| is_reply);
        let beside = some(content).filter(|_| has_calls);
        let name = text_at("name").and_then(some).filter(|_| has_loose_name);
        Likeness { whole: digest(&[text.as_bytes()]), loose: [reasoning, beside, name] }
    }

    /// Reports whether the message says something that another one, which is equal, does not: other reasoning, other
    /// text beside its calls, or another name.
    pub fn adds_to(&self, known: &Likeness) -> bool {
        self.loose.iter().zip(&known.loose).any(|(own, known)| own.is_some() && own != known)
    }
}

impl PartialEq for Likeness {
    fn eq(&self, other: &Likeness) -> bool {
        self.whole == other.whole
    }
}

impl Eq for Likeness {}

impl std::hash::Hash for Likeness {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.whole.hash(state);
    }
}

/// Reports whether a value is one that clients' libraries add to the replies that they got.
fn is_usual(value: &Json) -> bool {
    *value == Json::Bool(false) || value.as_object().is_some_and(|entries| entries.is_empty())
}

/// Returns a content as one text. Parts that say more than their texts, or are several for the same model, are
/// more than that.
fn content_of(message: &Message, is_of_same_model: bool) -> String {
    match message.content() {
        Content::None => String::new(),
        Content::Text(text) => text.to_owned(),
        Content::Parts(parts) => {
            let is_plain = parts.iter().all(|part| part.as_object().is_some_and(is_text))
                && (parts.len() == 1 || !is_of_same_model);
            message.joined_text().filter(|_| is_plain).unwrap_or_else(|| {
                let mut text = String::new();
                write_sorted(&mut text, message.as_object().get("content").unwrap_or(&Json::Null));
                text
            })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use rolecall::conversation::{Message, json};

    use super::Likeness;

    fn message(text: &str) -> Message {
        Message::from_object(json::parse(text).unwrap().as_object().unwrap().clone()).unwrap()
    }

    fn of(text: &str) -> Likeness {
        Likeness::of(&message(text), true)
    }

    #[test]
    fn what_clients_add_and_drop_does_not_matter() {
        let reply = r#"{"role": "assistant", "content": " a\n", "reasoning_content": "r"}"#;
        for same in [
            r#"{"role": "assistant", "content": "a"}"#,
            r#"{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": " r"}"#,
            r#"{"role": "assistant", "content": "a", "id": "m", "extra": {}, "prefix": false, "refusal": null}"#,
        ] {
            assert!(of(reply) == of(same) && !of(same).adds_to(&of(reply)), "{same}");
        }
        let call =
            r#""tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]"#;
        let calling = format!(r#"{{"role": "assistant", "content": "I look.", "reasoning_content": "r", {call}}}"#);
        for same in [
            format!(r#"{{"role": "assistant", "content": null, {call}}}"#),
            format!(r#"{{"role": "assistant", "content": "I look. ", {}}}"#, call.replace(": 1", ":1")),
        ] {
            assert!(of(&calling) == of(&same) && !of(&same).adds_to(&of(&calling)), "{same}");
        }
        let named = calling.replacen('{', r#"{"name": "ann", "#, 1);
        for other in [calling.replace("look", "see"), calling.replace(r#""r""#, r#""s""#), named.clone()] {
            assert!(of(&calling) == of(&other) && of(&other).adds_to(&of(&calling)), "{other}");
        }
        // What was left out before may be added as little as it may be changed.
        let bare = format!(r#"{{"role": "assistant", "content": null, {call}}}"#);
        assert!(of(&calling) == of(&bare) && of(&calling).adds_to(&of(&bare)) && !of(&calling).adds_to(&of(&named)));
        for other in [calling.replace(": 1", ": 2"), calling.replace(r#""c""#, r#""d""#), reply.to_owned()] {
            assert!(of(&calling) != of(&other), "{other}");
        }
        assert!(of(r#"{"role": "developer", "content": "a"}"#) == of(r#"{"role": "system", "content": "a"}"#));
        // The same value under another key says something else.
        let moody = r#"{"role": "user", "content": "a", "mood": "glad"}"#;
        assert!(of(moody) != of(&moody.replace("mood", "mode")));
        let user = r#"{"role": "user", "content": "a\nb"}"#;
        let one = r#"{"role": "user", "content": [{"type": "text", "text": "a\nb"}]}"#;
        assert!(of(user) == of(one));
        let two = r#"{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#;
        let loosely = |text: &str| Likeness::of(&message(text), false);
        assert!(loosely(user) == loosely(two));
        for other in [
            two,
            r#"{"role": "user", "content": "a\nb", "mood": false}"#,
            r#"{"role": "user", "content": [{"type": "text", "text": "a\nb", "style": "bold"}]}"#,
            r#"{"role": "user", "content": "a\nb "}"#,
            r#"{"role": "user", "content": "a\nb", "name": "ann"}"#,
            r#"{"role": "user", "content": "a\nb", "reasoning": "r"}"#,
            r#"{"role": "assistant", "content": "a\nb"}"#,
        ] {
            assert!(of(user) != of(other), "{other}");
        }
        let result = r#"{"role": "tool", "tool_call_id": "c", "content": "b", "name": "f"}"#;
        let nameless = result.replace(r#", "name": "f""#, "");
        assert!(of(result) == of(&nameless) && !of(&nameless).adds_to(&of(result)));
        assert!(of(&result.replace(r#""f""#, r#""g""#)).adds_to(&of(result)));
        assert!(of(result) != of(&result.replace(r#""c""#, r#""d""#)));
    }
}
