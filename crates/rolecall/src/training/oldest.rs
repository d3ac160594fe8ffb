//! Truncation by removing the oldest turns of a conversation.

use std::sync::Arc;

use rolecall_conversation::{Message, Role};
use rolecall_encode::Encoded;
use rolecall_openai::Request;

use crate::model::ModelPrompt;

/// Removes as few of the oldest turns as possible. Returns the shorter conversation and the indices
/// of the removed messages. The result is too long only if nothing else can be removed.
pub(super) fn without_oldest<E>(
    prompt: ModelPrompt,
    encoded: Encoded,
    most: usize,
    mut render: impl FnMut(Arc<Request>) -> Result<(ModelPrompt, Encoded), E>,
) -> Result<(ModelPrompt, Encoded, Vec<usize>), E> {
    let request = prompt.request().clone();
    let groups = removable(&request.conversation.messages);
    let mut best = (prompt, encoded, 0);
    // Invariant: removing `low` groups is too little, and `high` is enough or all that there is.
    let (mut low, mut high) = (0, groups.len());
    while low < high {
        // Begin with everything, so that the result fits if anything does.
        let count = if best.2 == 0 { high } else { low + (high - low) / 2 };
        if count == low {
            break;
        }
        let (prompt, encoded) = render(Arc::new(without(&request, &groups[..count])))?;
        let fits = encoded.tokens.len() <= most;
        if fits || best.2 == 0 {
            best = (prompt, encoded, count);
        }
        match fits {
            true => high = count,
            false if count == high => break,
            false => low = count,
        }
    }
    let (prompt, encoded, count) = best;
    Ok((prompt, encoded, groups[..count].concat()))
}

fn without(request: &Request, groups: &[Vec<usize>]) -> Request {
    let mut shorter = request.clone();
    let mut gone = vec![false; shorter.conversation.messages.len()];
    for index in groups.iter().flatten() {
        gone[*index] = true;
    }
    let mut each = gone.into_iter();
    shorter.conversation.messages.retain(|_| !each.next().unwrap_or_default());
    shorter
}

/// Returns groups of messages in the order in which they are removed: first each exchange from one
/// user message to the next, and then, in the last exchange, each reply with the results of its
/// calls. System messages, the last user message and the last reply are never removed.
fn removable(messages: &[Message]) -> Vec<Vec<usize>> {
    let last_user = messages.iter().rposition(|message| *message.role() == Role::User);
    let mut exchanges: Vec<Vec<usize>> = Vec::new();
    let mut replies: Vec<Vec<usize>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let is_last = last_user.is_none_or(|last| index >= last);
        match message.role() {
            Role::System => {}
            Role::User if is_last => {}
            Role::User => exchanges.push(vec![index]),
            _ if !is_last => match exchanges.last_mut() {
                Some(exchange) => exchange.push(index),
                None => exchanges.push(vec![index]),
            },
            Role::Assistant => replies.push(vec![index]),
            // A result belongs to the reply that called the tool.
            _ => match replies.last_mut() {
                Some(reply) => reply.push(index),
                None => replies.push(vec![index]),
            },
        }
    }
    replies.pop();
    exchanges.append(&mut replies);
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(roles: &str) -> Vec<Message> {
        let of = |role| match role {
            's' => Message::system("x"),
            'u' => Message::user("x"),
            'a' => Message::assistant("x"),
            _ => {
                let tool = rolecall_conversation::object! { "role" => "tool", "content" => "x" };
                Message::from_object(tool).expect("a message")
            }
        };
        roles.chars().map(of).collect()
    }

    #[test]
    fn exchanges_go_before_the_steps_of_the_last_one() {
        assert_eq!(removable(&messages("suatau")), [vec![1, 2, 3, 4]]);
        assert_eq!(removable(&messages("suauata")), [vec![1, 2], vec![4, 5]]);
        assert_eq!(removable(&messages("suatttata")), [vec![2, 3, 4, 5], vec![6, 7]]);
        assert_eq!(removable(&messages("saua")), [vec![1]]);
        assert_eq!(removable(&messages("saat")), [vec![1]]);
        assert!(removable(&messages("sua")).is_empty());
        assert!(removable(&[]).is_empty());
    }
}
