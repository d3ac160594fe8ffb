use rolecall::conversation::{Message, Role};

use crate::Fault;
use crate::sessions::chain::is_same;

/// What the messages of a request with the name of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resent {
    /// New ones.
    No,
    /// All of the session, which is this many, and then new ones.
    All(usize),
    /// A conversation that begins like the session, and then leaves it: a question that is asked again, or a
    /// later message that was edited.
    Another,
}

impl Resent {
    /// Finds out what the messages `sent` are. Messages that repeat replies of the session, and not the
    /// messages before these, are refused: nobody can tell where they belong.
    pub fn of<'a>(
        sent: impl Iterator<Item = &'a Message> + Clone,
        session: &[impl AsRef<Message>],
    ) -> Result<Resent, Fault> {
        let is_reply = |message: &&Message| *message.role() == Role::Assistant;
        if !sent.clone().any(|message| is_reply(&message)) {
            return Ok(Resent::No);
        }
        let both = sent.clone().zip(session);
        let common = both.take_while(|(sent, known)| is_same(sent, known.as_ref())).count();
        if common == session.len() {
            return Ok(Resent::All(common));
        }
        if sent.clone().take(common).any(|message| is_reply(&message)) {
            return Ok(Resent::Another);
        }
        let is_known = |reply: &Message| session.iter().any(|known| is_same(reply, known.as_ref()));
        match sent.enumerate().find(|(_, message)| is_reply(message) && is_known(message)) {
            None => Ok(Resent::No),
            Some((index, _)) => {
                let message = format!("message {index}: the session has this reply, after other messages than these");
                let help = Some("send only the new messages, or all of the session as they were".into());
                let fault = Fault::at("content", "conflict", message);
                Err(Fault { message_index: u32::try_from(index).ok(), help, ..fault })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rolecall::conversation::{Message, object};

    use super::Resent;

    fn messages(texts: &str) -> Vec<Arc<Message>> {
        let message = |text: &str| {
            let (role, content) = text.split_at(1);
            let role = if role == "u" {
                "user"
            } else if role == "a" {
                "assistant"
            } else {
                "system"
            };
            let (content, reasoning) = content.split_once('/').unwrap_or((content, ""));
            let message = object! { "role" => role, "content" => content, "reasoning_content" => reasoning };
            Arc::new(Message::from_object(message).unwrap())
        };
        texts.split_whitespace().map(message).collect()
    }

    #[test]
    fn messages_are_new_or_all_or_another_conversation() {
        let session = messages("s1 u1 a1/r u2 a2/r");
        let cases: [(&str, Result<Resent, Option<u32>>); 13] = [
            ("u3", Ok(Resent::No)),
            ("s1 u1", Ok(Resent::No)),
            ("s1 u1 a1/r u2 a2/r u3", Ok(Resent::All(5))),
            // With any of the reasoning, or without.
            ("s1 u1 a1 u2 a2/r u3", Ok(Resent::All(5))),
            ("s1 u1 a1 u2 a2 u3", Ok(Resent::All(5))),
            // The answer was lost, or another one is wanted.
            ("s1 u1 a1/r u2", Ok(Resent::Another)),
            ("s1 u1 a1/r u9 a2/r u3", Ok(Resent::Another)),
            ("s1 u1 a1/r u2 a9 u3", Ok(Resent::Another)),
            // Where they belong cannot be told.
            ("s9 u1 a1/r u2 a2/r u3", Err(Some(2))),
            ("u1 a1 u2", Err(Some(1))),
            ("s1 u9 a1/r u2", Err(Some(2))),
            // Examples that are new.
            ("u8 a8 u3", Ok(Resent::No)),
            ("u1 a9/r u2", Ok(Resent::No)),
        ];
        for (sent, wanted) in cases {
            let messages = messages(sent);
            let found = Resent::of(messages.iter().map(|message| &**message), &session);
            assert_eq!(found.map_err(|fault| fault.message_index), wanted, "{sent}");
        }
    }
}
