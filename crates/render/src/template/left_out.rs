//! The parts of a conversation that a template did not write, determined by the origins of its
//! output.

use std::borrow::Borrow;
use std::ops::Range;

use rolecall_conversation::{Arguments, Call, Content, Conversation, Json, Message, Part, Place, REASONING, Role};

use crate::origin::OriginRef;
use crate::{Dropped, Origin, Prompt};

/// A part of a message that appears in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MessageField {
    Content,
    /// The content as one text, which its parts may have become.
    WholeContent,
    /// The text of the part with this index.
    Part(usize),
    Reasoning,
    /// Any part of the call with this index.
    Call(usize),
    Arguments(usize),
}

/// Returns the parts of a conversation that are missing from a template's prompt: messages,
/// contents, text parts, calls, arguments, reasoning, tools and documents.
///
/// A template may write a non-text part as literal text, which does not have the part as its
/// origin. See [`without_media`] for such parts.
pub fn left_out(conversation: &Conversation, prompt: &Prompt) -> Vec<Dropped> {
    let mut tools = vec![false; conversation.tools.as_ref().map_or(0, Vec::len)];
    let mut documents = vec![false; conversation.documents.as_ref().map_or(0, Vec::len)];
    let mark = |there: &mut Vec<bool>, at: usize| there.get_mut(at).into_iter().for_each(|there| *there = true);
    let others = &mut |origin: &Origin| match origin {
        Origin::Tool { tool } => mark(&mut tools, *tool),
        Origin::Document { document } => mark(&mut documents, *document),
        _ => {}
    };
    let mut dropped = of_messages(&conversation.messages, 0, prompt, 0..prompt.text().len(), others);
    let missing = |there: Vec<bool>| (0..there.len()).filter(move |at| !there[*at]);
    for at in missing(tools) {
        dropped.push(warning(Place::field(format!("tools[{at}]")), "the template does not write the tool"));
    }
    for at in missing(documents) {
        dropped.push(warning(Place::field(format!("documents[{at}]")), "the template does not write the document"));
    }
    dropped
}

/// Returns the parts of messages that are missing from a range of bytes of a template's prompt. The first of
/// the messages has the index `first` in the conversation.
pub fn left_out_of<M: Borrow<Message>>(
    messages: &[M],
    first: usize,
    prompt: &Prompt,
    range: Range<usize>,
) -> Vec<Dropped> {
    of_messages(messages, first, prompt, range, &mut |_| {})
}

/// Does the same, and calls `others` with the origins that are no message's.
fn of_messages<M: Borrow<Message>>(
    messages: &[M],
    first: usize,
    prompt: &Prompt,
    range: Range<usize>,
    others: &mut dyn FnMut(&Origin),
) -> Vec<Dropped> {
    let mut said: Vec<(usize, MessageField)> = Vec::with_capacity(messages.len() * 2);
    let mut tell = |message: usize, field: &str| {
        said.extend(told_by(field).into_iter().flatten().map(|what| (message, what)));
    };
    prompt.each_origin(range, &mut |origin| match origin {
        OriginRef::Message { message, field } => tell(message, field),
        // Of a format.
        OriginRef::Other(Origin::Message { message, field }) => tell(*message, field),
        OriginRef::Other(origin) => others(origin),
    });
    said.sort_unstable();
    let mut dropped = Vec::new();
    let last_user = messages.iter().rposition(|message| *message.borrow().role() == Role::User);
    for (at, message) in messages.iter().enumerate() {
        let (index, is_earlier) = (first + at, last_user.is_some_and(|last| at < last));
        let is_said = |what| said.binary_search(&(index, what)).is_ok();
        of_message(index, message.borrow(), is_earlier, &is_said, &mut dropped);
    }
    dropped
}

/// Returns the conversation without its non-text parts, and their positions, or `None` if it has
/// none.
///
/// If a template gives the same prompt for both conversations, it did not write any of these parts.
pub fn without_media(conversation: &Conversation) -> Option<(Conversation, Vec<Dropped>)> {
    let is_media = |part: Part<'_>| !matches!(part, Part::Text(_));
    if !conversation.messages.iter().flat_map(Message::parts).any(is_media) {
        return None;
    }
    let mut dropped = Vec::new();
    let mut messages = Vec::new();
    for (index, message) in conversation.messages.iter().enumerate() {
        let is_text: Vec<bool> = message.parts().map(|part| matches!(part, Part::Text(_))).collect();
        let media = is_text.iter().enumerate().filter(|(_, is_text)| !**is_text);
        dropped.extend(media.map(|(at, _)| {
            let place = Place::message(index, format!("content[{at}]"));
            warning(place, "the template does not write this kind of part")
        }));
        messages.push(match (message.content(), is_text.contains(&false)) {
            (Content::Parts(parts), true) => {
                let kept = parts.iter().zip(&is_text).filter(|(_, is_text)| **is_text).map(|(part, _)| part.clone());
                let mut object = message.as_object().clone();
                object.insert("content", Json::Array(kept.collect()));
                Message::from_object(object).ok()?
            }
            _ => message.clone(),
        });
    }
    (!dropped.is_empty()).then(|| (Conversation { messages, ..conversation.clone() }, dropped))
}

/// Returns the parts of a message that a field belongs to.
fn told_by(field: &str) -> [Option<MessageField>; 2] {
    let (name, rest) = field.split_at(field.find(['.', '[']).unwrap_or(field.len()));
    let number = || {
        let (number, rest) = rest.strip_prefix('[')?.split_once(']')?;
        Some((number.parse::<usize>().ok()?, rest))
    };
    match name {
        "content" => {
            let part = number().map_or(MessageField::WholeContent, |(at, _)| MessageField::Part(at));
            [Some(MessageField::Content), Some(part)]
        }
        "tool_calls" => match number() {
            Some((at, rest)) => {
                let is_arguments = ["arguments", "input"].iter().any(|key| rest.contains(key));
                [Some(MessageField::Call(at)), is_arguments.then_some(MessageField::Arguments(at))]
            }
            None => [None, None],
        },
        name if REASONING.contains(&name) => [Some(MessageField::Reasoning), None],
        _ => [None, None],
    }
}

fn of_message(
    index: usize,
    message: &Message,
    is_earlier: bool,
    is_said: &dyn Fn(MessageField) -> bool,
    dropped: &mut Vec<Dropped>,
) {
    let first = dropped.len();
    let mut leave = |field: String, why| dropped.push(warning(Place::message(index, field), why));
    let is_blank = |text: &str| text.trim().is_empty();
    let mut is_there = false;
    match message.content() {
        Content::None => {}
        Content::Text(text) if is_blank(text) || is_said(MessageField::Content) => is_there = true,
        Content::Text(_) => leave("content".into(), "the template does not write the content of this kind of message"),
        Content::Parts(_) => {
            let is_whole = is_said(MessageField::WholeContent);
            for (at, part) in message.parts().enumerate() {
                match part {
                    Part::Text(text) if !is_blank(text) && !is_whole && !is_said(MessageField::Part(at)) => {
                        leave(format!("content[{at}]"), "the template does not write this kind of part");
                    }
                    _ => is_there = true,
                }
            }
        }
    }
    for (at, call) in message.calls().enumerate() {
        // Nothing can be seen of code that is empty.
        let is_empty_code = matches!(call, Call::CodeInterpreter { code, .. } if is_blank(code));
        if !is_said(MessageField::Call(at)) && !is_empty_code {
            leave(format!("tool_calls[{at}]"), "the template does not write the call");
        } else if has_arguments(&call) && !is_said(MessageField::Arguments(at)) {
            leave(format!("tool_calls[{at}].function.arguments"), "the template does not write the call's arguments");
        } else {
            is_there = true;
        }
    }
    let reasoning = REASONING.iter().find(|name| message.text_field(name).is_some_and(|text| !is_blank(text)));
    if let Some(name) = reasoning.filter(|_| !is_said(MessageField::Reasoning)) {
        let place = Place::message(index, *name);
        dropped.push(match is_earlier && *message.role() == Role::Assistant {
            true => {
                Dropped { place, why: "the template does not show earlier reasoning to the model", by_design: true }
            }
            false => warning(place, "the template does not write the reasoning of this kind of message"),
        });
    }
    // If nothing of the message is in the prompt, report the whole message instead.
    if !is_there && dropped[first..].iter().any(|one| !one.by_design) {
        dropped.truncate(first);
        dropped.push(warning(Place::message(index, ""), "the template writes nothing for this kind of message"));
    }
}

fn has_arguments(call: &Call<'_>) -> bool {
    match call {
        Call::Function { arguments: Arguments::Text(text), .. } => !matches!(text.trim(), "" | "{}" | "null"),
        Call::Function { arguments: Arguments::Value(object), .. } => !object.is_empty(),
        Call::Function { arguments: Arguments::None, .. } => false,
        Call::CodeInterpreter { code, .. } => !code.trim().is_empty(),
    }
}

fn warning(place: Place, why: &'static str) -> Dropped {
    Dropped { place, why, by_design: false }
}
