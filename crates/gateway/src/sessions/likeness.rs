//! What a message is compared by when a client repeats one of a session.

use rolecall::conversation::json;
use rolecall::conversation::{Content, Json, Message, Part, Role};

use super::chain::{digest, says_nothing, write_call, write_sorted};

/// The likeness of a message. Two are equal if one may be the other as a client sends it again: clients change the
/// spelling of calls, drop reasoning, the text beside a call and the white space around a reply, and add
/// keys that say nothing. Models differ in how they have a developer's message or a content in parts.
#[derive(Clone, Debug)]
pub struct Likeness {
    whole: [u8; 32],
    /// What a client may drop: the reasoning, and the text beside calls.
    loose: [Option<[u8; 32]>; 2],
}

/// The keys of reasoning.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

impl Likeness {
    pub fn of(message: &Message) -> Likeness {
        let object = message.as_object();
        let is_reply = *message.role() == Role::Assistant;
        let has_calls = is_reply && message.calls().len() > 0;
        let content = content_of(message);
        let content = if is_reply { content.trim() } else { &content };
        let mut text = String::from(message.role().name());
        if !has_calls {
            text.push('\n');
            json::write_string(&mut text, content, false);
        }
        let is_loose = |key: &str| match key {
            "role" | "content" => true,
            "id" => is_reply,
            // That of a function is found by its call.
            "name" => is_reply || *message.role() == Role::Tool,
            _ => is_reply && REASONING.contains(&key),
        };
        let mut keys: Vec<(&str, &Json)> =
            object.iter().filter(|(key, value)| !is_loose(key) && !says_nothing(value)).collect();
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
        let reasoning = REASONING.iter().find_map(|key| some(object.get(key)?.as_str()?)).filter(|_| is_reply);
        let loose = [reasoning, some(content).filter(|_| has_calls)];
        Likeness { whole: digest(&[text.as_bytes()]), loose }
    }

    /// Reports whether the two messages, which are equal, have different reasoning, or different text beside
    /// their calls. One of them may have none.
    pub fn contradicts(&self, other: &Likeness) -> bool {
        self.loose.iter().zip(&other.loose).any(|(one, other)| one.is_some() && other.is_some() && one != other)
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

/// Returns a content as one text.
fn content_of(message: &Message) -> String {
    match message.content() {
        Content::None => String::new(),
        Content::Text(text) => text.to_owned(),
        Content::Parts(_) => {
            let texts: Option<Vec<&str>> = message.parts().map(text_of).collect();
            texts.map(|texts| texts.join("\n")).unwrap_or_else(|| {
                let mut text = String::new();
                write_sorted(&mut text, message.as_object().get("content").unwrap_or(&Json::Null));
                text
            })
        }
    }
}

fn text_of(part: Part<'_>) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

    use rolecall::conversation::{Message, json};

    use super::Likeness;

    fn of(text: &str) -> Likeness {
        let json = json::parse(text).unwrap();
        Likeness::of(&Message::from_object(json.as_object().unwrap().clone()).unwrap())
    }

    #[test]
    fn what_clients_add_and_drop_does_not_matter() {
        let reply = r#"{"role": "assistant", "content": " a\n", "reasoning_content": "r"}"#;
        for same in [
            r#"{"role": "assistant", "content": "a"}"#,
            r#"{"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning": " r", "name": "n"}"#,
            r#"{"role": "assistant", "content": "a", "id": "m", "extra": {}, "prefix": false, "refusal": null}"#,
        ] {
            assert!(of(reply) == of(same) && !of(reply).contradicts(&of(same)), "{same}");
        }
        let call =
            r#""tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]"#;
        let calling = format!(r#"{{"role": "assistant", "content": "I look.", "reasoning_content": "r", {call}}}"#);
        for same in [
            format!(r#"{{"role": "assistant", "content": null, {call}}}"#),
            format!(r#"{{"role": "assistant", "content": "I look. ", {}}}"#, call.replace(": 1", ":1")),
        ] {
            assert!(of(&calling) == of(&same) && !of(&calling).contradicts(&of(&same)), "{same}");
        }
        for other in [calling.replace("look", "see"), calling.replace(r#""r""#, r#""s""#)] {
            assert!(of(&calling) == of(&other) && of(&calling).contradicts(&of(&other)), "{other}");
        }
        for other in [calling.replace(": 1", ": 2"), calling.replace(r#""c""#, r#""d""#), reply.to_owned()] {
            assert!(of(&calling) != of(&other), "{other}");
        }
        assert!(of(r#"{"role": "developer", "content": "a"}"#) == of(r#"{"role": "system", "content": "a"}"#));
        let user = r#"{"role": "user", "content": "a\nb"}"#;
        let parts = r#"{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#;
        assert!(of(user) == of(parts));
        for other in [
            r#"{"role": "user", "content": "a\nb "}"#,
            r#"{"role": "user", "content": "a\nb", "name": "ann"}"#,
            r#"{"role": "user", "content": "a\nb", "reasoning": "r"}"#,
            r#"{"role": "assistant", "content": "a\nb"}"#,
        ] {
            assert!(of(user) != of(other), "{other}");
        }
        let result = r#"{"role": "tool", "tool_call_id": "c", "content": "b", "name": "f"}"#;
        assert!(of(result) == of(&result.replace(r#", "name": "f""#, "")));
        assert!(of(result) != of(&result.replace(r#""c""#, r#""d""#)));
    }
}
