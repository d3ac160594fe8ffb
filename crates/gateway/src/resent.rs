use rolecall::conversation::{Message, Role};

use crate::Fault;
use crate::sessions::chain::{digest_of, is_same, is_silent};

/// What the messages of a request with the name of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resent {
    /// New ones.
    No,
    /// The last messages of the session, or all of it, which are this many, and then new ones.
    Last(usize),
    /// A conversation that begins like the session, and then leaves it: a question that is asked again, or a
    /// message that the client changed.
    Another,
}

impl Resent {
    /// Finds out what the messages `sent` are. Messages that repeat replies of the session in the midst of
    /// others are refused: nobody can tell where they belong.
    pub fn of<'a>(
        sent: impl Iterator<Item = &'a Message> + Clone,
        session: &[impl AsRef<Message>],
    ) -> Result<Resent, Fault> {
        let is_reply = |message: &&Message| *message.role() == Role::Assistant;
        let Some(first_reply) = sent.clone().position(|message| is_reply(&message)) else { return Ok(Resent::No) };
        let both = sent.clone().zip(session);
        let common = both.take_while(|(sent, known)| is_same(sent, known.as_ref())).count();
        if common > 0 {
            return Ok(if common == session.len() { Resent::Last(common) } else { Resent::Another });
        }
        if let Some(count) = overlap(sent.clone(), session).filter(|count| *count > first_reply) {
            return Ok(Resent::Last(count));
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

/// The most messages at the start of a request that are looked for at the end of a session.
const MOST_REPEATED: usize = 1000;

/// Returns how many messages of a session's end a request begins with. Clients that count what is new from
/// their last request on begin with its reply, and others drop the oldest messages.
fn overlap<'a>(sent: impl Iterator<Item = &'a Message>, session: &[impl AsRef<Message>]) -> Option<usize> {
    let from = session.len().saturating_sub(MOST_REPEATED);
    let both = |message: &Message| [digest_of(message, false), digest_of(message, true)];
    let known: Vec<[[u8; 32]; 2]> = session.iter().skip(from).map(|message| both(message.as_ref())).collect();
    let one = |message: &Message| (digest_of(message, is_silent(message)), usize::from(is_silent(message)));
    let sent: Vec<([u8; 32], usize)> = sent.take(MOST_REPEATED).map(one).collect();
    let is_start = |end: &[[[u8; 32]; 2]]| {
        let mut both = sent.iter().zip(end);
        sent.len() >= end.len() && both.all(|((digest, form), known)| known.get(*form) == Some(digest))
    };
    (0..known.len()).find(|at| known.get(*at..).is_some_and(is_start)).map(|at| known.len() - at)
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
        let cases: [(&str, Result<Resent, Option<u32>>); 19] = [
            ("u3", Ok(Resent::No)),
            ("s1 u1", Ok(Resent::No)),
            ("s1 u1 a1/r u2 a2/r u3", Ok(Resent::Last(5))),
            // With any of the reasoning, or without.
            ("s1 u1 a1 u2 a2/r u3", Ok(Resent::Last(5))),
            ("s1 u1 a1 u2 a2 u3", Ok(Resent::Last(5))),
            // The answer was lost, or another one is wanted.
            ("s1 u1 a1/r u2", Ok(Resent::Another)),
            ("s1 u1 a1/r u9 a2/r u3", Ok(Resent::Another)),
            ("s1 u1 a1/r u2 a9 u3", Ok(Resent::Another)),
            // A reply that the client changed, such as one without the space at its end.
            ("s1 u1 a3 u2 a2/r u3", Ok(Resent::Another)),
            ("s1 u1 a1/x u2 a2/r u3", Ok(Resent::Another)),
            ("s1 u9 a1/r u2", Ok(Resent::Another)),
            // What is new since the last request, and all but the oldest messages.
            ("a2/r u3", Ok(Resent::Last(1))),
            ("a2 u3", Ok(Resent::Last(1))),
            ("u2 a2 u3", Ok(Resent::Last(2))),
            ("u1 a1 u2 a2 u3", Ok(Resent::Last(4))),
            // Where they belong cannot be told.
            ("s9 u1 a1/r u2 a2/r u3", Err(Some(2))),
            ("u1 a1 u2", Err(Some(1))),
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
