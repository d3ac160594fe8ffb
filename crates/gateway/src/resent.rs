use std::collections::HashSet;

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
        // Digests, because each is compared with many.
        let known: Vec<[Digest; 2]> = session.iter().map(|known| both_digests(known.as_ref())).collect();
        let own: Vec<(Digest, usize)> = sent.clone().map(own_digest).collect();
        if let Some(count) = overlap(&own, &known).filter(|count| *count > first_reply) {
            return Ok(Resent::Last(count));
        }
        let all: HashSet<&Digest> = known.iter().flatten().collect();
        let mut each = sent.zip(&own).enumerate();
        match each.find(|(_, (message, (digest, _)))| is_reply(message) && all.contains(digest)) {
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

type Digest = [u8; 32];

/// Returns the digests of a message with its reasoning and without.
fn both_digests(message: &Message) -> [Digest; 2] {
    [digest_of(message, false), digest_of(message, true)]
}

/// Returns the digest of a message as it was sent, and which of [`both_digests`] it is compared with.
fn own_digest(message: &Message) -> (Digest, usize) {
    let silent = is_silent(message);
    (digest_of(message, silent), usize::from(silent))
}

/// The most messages at the start of a request that are looked for at the end of a session.
const MOST_REPEATED: usize = 1000;

/// Returns how many messages of a session's end a request begins with. Clients that count what is new from
/// their last request on begin with its reply, and others drop the oldest messages.
fn overlap(sent: &[(Digest, usize)], known: &[[Digest; 2]]) -> Option<usize> {
    let is_start = |count: &usize| {
        let end = known.get(known.len() - count..).unwrap_or_default();
        sent.iter().zip(end).all(|((digest, form), known)| known.get(*form) == Some(digest))
    };
    (1..=sent.len().min(known.len()).min(MOST_REPEATED)).rev().find(is_start)
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

    /// A comparison of each message with each would take minutes.
    #[test]
    fn many_messages_are_compared_once_each() {
        let texts = |letter: &str| (0..5_000).map(|at| format!("u{letter}{at} a{letter}{at} ")).collect::<String>();
        let (session, other) = (messages(&texts("x")), messages(&texts("y")));
        let found = Resent::of(other.iter().map(|message| &**message), &session);
        assert_eq!(found, Ok(Resent::No));
    }
}
