//! Keys of messages that the model's template does not read: nothing that a client says is ignored.

use rolecall::Request;
use rolecall::conversation::Message;

use crate::Fault;
use crate::sessions::chain::says_nothing;
use crate::wanted::Wanted;

/// The keys of messages in OpenAI's API, and those of reasoning.
const USUAL: [&str; 10] = [
    "role",
    "content",
    "name",
    "id",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
];

/// The most other keys that are tried for a request.
const MOST_TRIED: usize = 8;

/// Refuses other keys of messages that say something and do not change the prompt.
pub fn refuse_unread(wanted: &Wanted) -> Result<(), Fault> {
    let others = others(&wanted.messages);
    if others.is_empty() {
        return Ok(());
    }
    let refuse = |(index, key): (usize, &str)| {
        Err(Fault { message_index: u32::try_from(index).ok(), ..Fault::unsupported(key) })
    };
    if let Some(other) = others.get(MOST_TRIED) {
        return refuse(*other);
    }
    let whole = prompt(wanted, wanted.messages.clone());
    for (index, key) in others {
        // A template that fails without the key reads it.
        let is_read = match (&whole, without(&wanted.messages, key)) {
            (Some(whole), Some(messages)) => prompt(wanted, messages).is_none_or(|other| other != *whole),
            _ => false,
        };
        if !is_read {
            return refuse((index, key));
        }
    }
    Ok(())
}

/// Returns the other keys, each with the index of the first message that has it, up to one more than are tried.
fn others(messages: &[Message]) -> Vec<(usize, &str)> {
    let mut others: Vec<(usize, &str)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for (key, value) in message.as_object().iter() {
            let is_other = !USUAL.contains(&key) && !says_nothing(value);
            if is_other && !others.iter().any(|(_, other)| *other == key) {
                others.push((index, key));
                if others.len() > MOST_TRIED {
                    return others;
                }
            }
        }
    }
    others
}

/// Returns the prompt of messages, or `None` if the template refuses them.
fn prompt(wanted: &Wanted, messages: Vec<Message>) -> Option<String> {
    let mut request: Request = wanted.request.clone();
    request.conversation.messages = messages;
    Some(wanted.served.model.prompt(request).ok()?.text().to_owned())
}

/// Returns messages without a key, or `None` if they are none without it.
fn without(messages: &[Message], key: &str) -> Option<Vec<Message>> {
    let without = |message: &Message| {
        let mut object = message.as_object().clone();
        object.remove(key);
        Message::from_object(object).ok()
    };
    messages.iter().map(without).collect()
}
