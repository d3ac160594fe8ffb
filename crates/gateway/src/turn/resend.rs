use std::collections::HashSet;
use std::ops::Range;

use rolecall::conversation::{Message, Role};
use rolecall_text::common_items;

use crate::turn::sessions::likeness::Likeness;
use crate::{Fault, FaultCode};

/// What the messages of a request with the name of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// New ones.
    New,
    /// As many as this that the session has at its end, and then new ones.
    Repeated(usize),
    /// As many instructions as this that are the latest ones of the session, and then new messages.
    Instructed(usize),
    /// A conversation of its own: one that begins like the session and then leaves it, as when a question is asked
    /// again or a message was changed, or one with other instructions.
    Another,
}

impl Resend {
    /// Finds out what the messages `sent` are. Replies of which nobody can tell where they belong are refused. The
    /// session's messages may be in the form of another model.
    pub fn of<'a>(
        sent: impl Iterator<Item = &'a Message> + Clone,
        session: &[impl AsRef<Message>],
        is_of_same_model: bool,
    ) -> Result<Resend, Fault> {
        if let Some(index) = answered(sent.clone(), session) {
            return Err(conflict(index, "the session has a result of this call already"));
        }
        let is_reply = |message: &&Message| *message.role() == Role::Assistant;
        let is_instruction = |message: &&Message| *message.role() == Role::System;
        let has_instructions = sent.clone().next().as_ref().is_some_and(is_instruction);
        let first_reply = sent.clone().position(|message| is_reply(&message));
        if first_reply.is_none() && !has_instructions {
            return Ok(Resend::New);
        }
        let likeness = |message: &Message| Likeness::of(message, is_of_same_model);
        let own: Vec<Likeness> = sent.clone().map(likeness).collect();
        let known: Vec<Likeness> = session.iter().map(|message| likeness(message.as_ref())).collect();
        let common = common_items(&own, &known);
        // A question is asked again.
        if common == own.len() && common < known.len() {
            return Ok(Resend::Another);
        }
        let Some(first_reply) = first_reply else {
            let latest = latest_instructions(session);
            let instructions = match latest.start {
                0 => sent.take(common).take_while(is_instruction).count(),
                // They were changed since. Those before them come again only if the client says so.
                _ => {
                    let count = sent.take_while(is_instruction).count();
                    let is_same = own.get(..count) == known.get(latest);
                    if is_same { count } else { 0 }
                }
            };
            return Ok(if instructions == 0 { Resend::New } else { Resend::Instructed(instructions) });
        };
        let repeated = overlap(&own, &known);
        let is_all = repeated == known.len();
        let all: HashSet<&Likeness> = known.iter().collect();
        // The first reply from a message on that the session has, too.
        let known_reply = |from: usize| {
            let mut rest = sent.clone().zip(&own).enumerate().skip(from);
            rest.find(|(_, (message, likeness))| is_reply(message) && all.contains(likeness)).map(|(index, _)| index)
        };
        if repeated > first_reply && (is_all || known_reply(repeated).is_none()) {
            let end = known.get(known.len() - repeated..).unwrap_or_default();
            return match own.iter().zip(end).position(|(own, known)| own.adds_to(known)) {
                None => Ok(Resend::Repeated(repeated)),
                Some(_) if is_all => Ok(Resend::Another),
                Some(index) => Err(conflict(index, "the session has other reasoning, text or another name here")),
            };
        }
        if common > 0 || has_instructions {
            return Ok(Resend::Another);
        }
        match known_reply(0) {
            Some(index) => Err(conflict(index, "the session has this reply, but with other messages around it")),
            None if first_reply == 0 => Err(conflict(0, "the session does not end with this reply")),
            None => Ok(Resend::New),
        }
    }
}

/// Returns where the latest instructions of a session are.
fn latest_instructions(session: &[impl AsRef<Message>]) -> Range<usize> {
    let is_instruction = |message: &Message| *message.role() == Role::System;
    let end = session.iter().rposition(|message| is_instruction(message.as_ref())).map_or(0, |last| last + 1);
    let before = session.get(..end).unwrap_or_default();
    let start = before.iter().rposition(|message| !is_instruction(message.as_ref())).map_or(0, |last| last + 1);
    start..end
}

/// Returns the index of the first result of a call that has one already, unless the last reply has a call of the same
/// id: some models count their calls anew in each turn.
fn answered<'a>(sent: impl Iterator<Item = &'a Message>, session: &[impl AsRef<Message>]) -> Option<usize> {
    let mut results = sent
        .enumerate()
        .skip_while(|(_, message)| *message.role() == Role::System)
        .take_while(|(_, message)| *message.role() == Role::Tool)
        .filter_map(|(index, message)| Some((index, message.tool_call_id()?)))
        .peekable();
    results.peek()?;
    let session = || session.iter().map(AsRef::as_ref);
    let open: HashSet<&str> =
        session().next_back().into_iter().flat_map(Message::calls).filter_map(|call| call.id()).collect();
    let known: HashSet<&str> = session().filter_map(Message::tool_call_id).collect();
    results.find(|(_, id)| known.contains(id) && !open.contains(id)).map(|(index, _)| index)
}

fn conflict(index: usize, why: &str) -> Fault {
    let help = "send only the new messages, or all of the conversation as it was; use another session for another one";
    let help = Some(help.into());
    let fault = Fault::at("content", FaultCode::Conflict, format!("message {index}: {why}"));
    Fault { message_index: u32::try_from(index).ok(), help, ..fault }
}

/// Returns how many messages of a session's end a request begins with, at most. Clients that count what is new from
/// their last request on begin with its reply, and others drop the oldest messages.
fn overlap(own: &[Likeness], known: &[Likeness]) -> usize {
    // The method of Knuth, Morris and Pratt: of each beginning of `own`, the longest one that it ends with, too.
    let longer = |mut length: usize, next: &Likeness, shorter: &[usize]| {
        while length > 0 && own.get(length) != Some(next) {
            length = shorter.get(length - 1).copied().unwrap_or(0);
        }
        length + usize::from(own.get(length) == Some(next))
    };
    let mut shorter = vec![0];
    for next in own.iter().skip(1) {
        let length = longer(shorter.last().copied().unwrap_or(0), next, &shorter);
        shorter.push(length);
    }
    known.iter().fold(0, |length, next| longer(length, next, &shorter))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rolecall::conversation::json::Object;
    use rolecall::conversation::{Json, Message, object};

    use super::Resend::{Another, Instructed, New, Repeated};
    use super::{Likeness, Resend, overlap};

    fn messages(texts: &str) -> Vec<Arc<Message>> {
        let message = |text: &str| {
            let (role, content) = text.split_at(1);
            let role = match role {
                "u" => "user",
                "a" => "assistant",
                _ => "system",
            };
            let (content, reasoning) = content.split_once('/').unwrap_or((content, ""));
            let message = object! { "role" => role, "content" => content, "reasoning_content" => reasoning };
            Arc::new(Message::from_object(message).unwrap())
        };
        texts.split_whitespace().map(message).collect()
    }

    fn of(sent: &str, session: &str) -> Result<Resend, Option<u32>> {
        let sent = messages(sent);
        let found = Resend::of(sent.iter().map(|message| &**message), &messages(session), true);
        found.map_err(|fault| fault.message_index)
    }

    #[test]
    fn messages_are_new_or_repeated_or_another_conversation() {
        let cases = [
            ("u3", Ok(New)),
            ("u1", Ok(New)),
            // The client always sends its instructions.
            ("s1 u3", Ok(Instructed(1))),
            ("s1 s2 u3", Ok(Instructed(1))),
            ("s2 u3", Ok(New)),
            ("s1 u1 a1/r u2 a2/r u3", Ok(Repeated(5))),
            // With any of the reasoning, or without.
            ("s1 u1 a1 u2 a2/r u3", Ok(Repeated(5))),
            ("s1 u1 a1 u2 a2 u3", Ok(Repeated(5))),
            ("s1 u1 a1 u2 a2 u3 a3 u4", Ok(Repeated(5))),
            // The answer was lost, or another one is wanted.
            ("s1 u1", Ok(Another)),
            ("s1 u1 a1/r u2", Ok(Another)),
            ("s1 u1 a1/r u9 a2/r u3", Ok(Another)),
            ("s1 u1 a1/r u2 a9 u3", Ok(Another)),
            // A reply that the client changed.
            ("s1 u1 a3 u2 a2/r u3", Ok(Another)),
            ("s1 u1 a1/x u2 a2/r u3", Ok(Another)),
            ("s1 u9 a1/r u2", Ok(Another)),
            // Other instructions.
            ("s9 u1 a1/r u2 a2/r u3", Ok(Another)),
            ("s9 u9 a9 u3", Ok(Another)),
            // What is new since the last request, and all but the oldest messages.
            ("a2/r u3", Ok(Repeated(1))),
            ("a2 u3", Ok(Repeated(1))),
            ("u2 a2 u3", Ok(Repeated(2))),
            ("u1 a1 u2 a2 u3", Ok(Repeated(4))),
            // The client took turns elsewhere since.
            ("a2 u3 a3 u4 a4 u5", Ok(Repeated(1))),
            ("u2 a2 u3 a3 u4", Ok(Repeated(2))),
            // Where they belong cannot be told.
            ("a2 u3 a1 u4", Err(Some(0))),
            ("a2/x u3", Err(Some(0))),
            ("a9 u3", Err(Some(0))),
            ("u1 a1 u2", Err(Some(1))),
            ("u2 a2 u1 a1 u3", Err(Some(1))),
            // Examples that are new.
            ("u8 a8 u3", Ok(New)),
            ("u1 a9/r u2", Ok(New)),
        ];
        for (sent, wanted) in cases {
            assert_eq!(of(sent, "s1 u1 a1/r u2 a2/r"), wanted, "{sent}");
        }
    }

    #[test]
    fn the_same_message_may_come_many_times() {
        let cases = [
            // A greeting, and a reply that is the same.
            ("ahi u2", "ahi u1 ahi", Ok(Repeated(1))),
            ("ahi u2", "ahi u1 a1", Ok(Another)),
            ("u1 a1 u1 a1 u1", "u1 a1 u1 a1", Ok(Repeated(4))),
            ("u1 a1 u3", "u1 a1 u1 a1 u1 a1", Ok(Repeated(2))),
            ("a1 u1", "u1 a1 u1 a1", Ok(Repeated(1))),
            // The second question is asked again.
            ("u1 a1 u1", "u1 a1 u1 a1", Ok(Another)),
            ("u1", "u1 a1", Ok(New)),
            // The first question was changed.
            ("u2 a1 u2 a1 u3", "u1 a1 u2 a1", Err(Some(1))),
            ("s1 u1 a1", "s1 u1 a1", Ok(Repeated(3))),
        ];
        for (sent, session, wanted) in cases {
            assert_eq!(of(sent, session), wanted, "{sent} after {session}");
        }
    }

    #[test]
    fn instructions_that_were_changed_are_not_repeated() {
        let session = "s1 u1 a1 s2 u2 a2";
        for (sent, wanted) in [
            ("s2 u3", Ok(Instructed(1))),
            ("s3 u3", Ok(New)),
            // Those from the beginning hold again.
            ("s1 u3", Ok(New)),
            ("s2 s3 u3", Ok(New)),
        ] {
            assert_eq!(of(sent, session), wanted, "{sent}");
        }
        assert_eq!(of("s2 u4", "s1 u1 a1 s2 u2 a2 u3 a3"), Ok(Instructed(1)));
    }

    #[test]
    fn a_call_has_one_result() {
        let call = |id: &str| {
            let function = object! { "name" => "f", "arguments" => "{}" };
            let call = object! { "id" => id, "type" => "function", "function" => function };
            object! { "role" => "assistant", "content" => "", "tool_calls" => vec![Json::from(call)] }
        };
        let result = |id: &str| object! { "role" => "tool", "tool_call_id" => id, "content" => "1" };
        let system = object! { "role" => "system", "content" => "s" };
        let end = object! { "role" => "assistant", "content" => "b" };
        let of = |sent: &[Object], session: &[Object]| {
            let [sent, session] = [sent, session].map(|objects| {
                let message = |object: &Object| Arc::new(Message::from_object(object.clone()).unwrap());
                objects.iter().map(message).collect::<Vec<_>>()
            });
            let found = Resend::of(sent.iter().map(|message| &**message), &session, true);
            found.map_err(|fault| fault.message_index)
        };
        let once = [call("x"), result("x"), end.clone()];
        assert_eq!(of(&[result("x")], &once), Err(Some(0)));
        assert_eq!(of(&[system.clone(), result("x")], &once), Err(Some(1)));
        assert_eq!(of(&[result("y")], &once), Ok(New));
        // Of the calls of the last reply, and of one that has the same id as an earlier one.
        assert_eq!(of(&[result("x")], &[call("x")]), Ok(New));
        assert_eq!(of(&[result("x")], &[call("x"), result("x"), call("x")]), Ok(New));
        assert_eq!(of(&[result("y"), result("x")], &[call("x"), result("x"), call("y")]), Err(Some(1)));
    }

    #[test]
    fn the_longest_overlap_is_that_of_a_plain_search() {
        let mut seed: u32 = 7;
        let mut any = |count: usize| {
            let letter = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if seed >> 31 == 0 { "ua " } else { "ab " }
            };
            (0..count).map(letter).collect::<String>()
        };
        for at in 0..400 {
            let [own, known] = [at % 7, at % 13].map(|count| {
                messages(&any(count)).iter().map(|message| Likeness::of(message, true)).collect::<Vec<_>>()
            });
            let counts = 0..=own.len().min(known.len());
            let plain = counts.rev().find(|count| own[..*count] == known[known.len() - count..]).unwrap();
            assert_eq!(overlap(&own, &known), plain, "{at}");
        }
    }

    /// A comparison of each message with each would take minutes.
    #[test]
    fn many_messages_are_compared_once_each() {
        let texts = |letter: &str| (0..5_000).map(|at| format!("u{letter}{at} a{letter}{at} ")).collect::<String>();
        assert_eq!(of(&texts("y"), &texts("x")), Ok(New));
        let same = "ugo aOK ".repeat(5_000);
        assert_eq!(of(&format!("{same} uq"), &format!("ugo aOK {same}")), Ok(Repeated(10_000)));
    }
}
