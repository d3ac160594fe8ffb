//! The account of a prompt that a format wrote.

use std::borrow::Cow;

use rolecall_conversation::json::{self, Step};
use rolecall_conversation::{Conversation, Json, Message, Role, Tool};
use rolecall_format::codec::attribute;

use super::rules::{Owner, REASONING};
use super::{Account, Evidence, Fragment, Leaf, LeafKind, Sign, Walk, compare};
use crate::origin::OriginRef;
use crate::{Origin, Prompt};

/// Returns the account of a conversation and the prompt that a format wrote for it.
///
/// ```
/// use rolecall_conversation::{Conversation, Message, json};
/// use rolecall_format::builtin;
/// use rolecall_render::{LeafKind, Options, account_by_format, render};
/// let text = r#"{"messages": [{"role": "user", "content": "Hello", "label": "greeting"}]}"#;
/// let conversation = Conversation::from_json(json::parse(text)?)?;
/// let prompt = render(&conversation, builtin().get("chatml").expect("built in"), &Options::default())?;
/// let account = account_by_format(&conversation, &prompt);
/// let lost = account.of_kind(LeafKind::LeftOut).next().expect("the label");
/// assert_eq!(lost.place.field, "label");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn account_by_format(conversation: &Conversation, prompt: &Prompt) -> Account {
    let evidence = Printed::of(conversation, prompt);
    let mut walk = Walk::new(&evidence);
    let messages = &conversation.messages;
    let last_user = messages.iter().rposition(|message| *message.role() == Role::User);
    for (index, message) in messages.iter().enumerate() {
        // Of a text with a gap to fill, the mark of the gap only says where it is.
        let is_gap = prompt.turns().first().is_some_and(|turn| turn.slot.is_text_alone());
        if is_gap && message.as_object().len() == 2 || evidence.is_plain(index, message) {
            walk.add_written(1);
            walk.add_role_read();
            continue;
        }
        let owner = Owner::Message {
            index,
            is_result: *message.role() == Role::Tool,
            is_assistant: *message.role() == Role::Assistant,
            is_earlier: last_user.is_some_and(|last| index < last),
        };
        walk.message(owner, message.as_object().iter().map(|(key, json)| (key, json, index)));
    }
    for (index, tool) in conversation.tools.iter().flatten().enumerate() {
        if let Tool::Function { object, .. } = tool {
            walk.value(Owner::Tool, &format!("tools[{index}]"), &Json::Object(object.clone()), index);
        }
    }
    for (index, document) in conversation.documents.iter().flatten().enumerate() {
        walk.value(Owner::Document, &format!("documents[{index}]"), document, index);
    }
    let mut account = walk.finish();
    for leaf in account.leaves.iter_mut().filter(|leaf| leaf.kind == LeafKind::LeftOut) {
        // Only keys that nothing reads have another reason.
        if leaf.why.starts_with("the template") {
            leaf.why = "the format has no place for it";
        }
    }
    // The format knows better why.
    let is_absent = |leaf: &Leaf| matches!(leaf.kind, LeafKind::LeftOut | LeafKind::DroppedByDesign);
    for dropped in &prompt.dropped {
        if !account.leaves.iter().any(|leaf| leaf.place == dropped.place && !is_absent(leaf)) {
            account.leave_out(dropped.clone());
        }
    }
    account
}

/// What a prompt has of a conversation.
struct Printed<'p> {
    /// The pieces of the messages' contents, in the order of the messages.
    contents: Vec<(usize, &'p str)>,
    /// The other fields of messages, in order.
    fields: Vec<(usize, &'p str, &'p str)>,
    tools: Vec<String>,
    documents: Vec<String>,
}

impl<'p> Printed<'p> {
    fn of(conversation: &Conversation, prompt: &'p Prompt) -> Printed<'p> {
        let mut printed = Printed {
            contents: Vec::with_capacity(conversation.messages.len()),
            fields: Vec::new(),
            tools: vec![String::new(); conversation.tools.as_ref().map_or(0, Vec::len)],
            documents: vec![String::new(); conversation.documents.as_ref().map_or(0, Vec::len)],
        };
        let add = |texts: &mut Vec<String>, at: usize, text: &str| {
            texts.get_mut(at).into_iter().for_each(|all| all.push_str(text));
        };
        prompt.each_piece(&mut |text, origin| match origin {
            OriginRef::Message { message, field: "content" } => {
                printed.contents.push((message, text));
            }
            OriginRef::Message { message, field } => printed.fields.push((message, field, text)),
            OriginRef::Other(Origin::Message { message, field }) => printed.fields.push((*message, field, text)),
            OriginRef::Other(Origin::Tool { tool }) => add(&mut printed.tools, *tool, text),
            OriginRef::Other(Origin::Document { document }) => add(&mut printed.documents, *document, text),
            OriginRef::Other(_) => {}
        });
        printed.contents.sort_by_key(|(message, _)| *message);
        printed.fields.sort_by_key(|(message, ..)| *message);
        printed
    }

    /// Reports whether a message has only a role and a content that is written as a whole.
    fn is_plain(&self, index: usize, message: &Message) -> bool {
        match (message.plain_text(), self.content(index)) {
            (Some(text), [(_, piece)]) => message.as_object().len() == 2 && (*piece == text || *piece == text.trim()),
            _ => false,
        }
    }

    /// Returns the pieces of a message's content.
    fn content(&self, index: usize) -> &[(usize, &'p str)] {
        // Most messages have one piece, and so has each one before them.
        let first = match self.contents.get(index) {
            Some((message, _)) if *message == index && (index == 0 || self.contents[index - 1].0 < index) => index,
            _ => self.contents.partition_point(|(message, _)| *message < index),
        };
        let rest = &self.contents[first..];
        &rest[..rest.iter().take_while(|(message, _)| *message == index).count()]
    }

    /// Returns the pieces of a message's field, and whether they are of that field alone.
    fn pieces_of(&self, index: usize, path: &str) -> Vec<(&'p str, bool)> {
        let top = &path[..path.find(['.', '[']).unwrap_or(path.len())];
        let mut pieces: Vec<(&str, bool)> = Vec::new();
        if top == "content" {
            let is_alone = path == "content";
            pieces.extend(self.content(index).iter().map(|(_, text)| (*text, is_alone)));
        }
        let first = self.fields.partition_point(|(message, ..)| *message < index);
        let own = self.fields[first..].iter().take_while(|(message, ..)| *message == index);
        for (_, field, text) in own {
            let is_reasoning = REASONING.contains(field) && REASONING.contains(&top);
            let rest = path.strip_prefix(field);
            if is_reasoning || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])) {
                pieces.push((text, is_reasoning || rest.is_some_and(str::is_empty)));
            }
        }
        pieces
    }

    fn of_message(&self, index: usize, path: &str, leaf: &Json) -> Sign {
        let pieces = self.pieces_of(index, path);
        let is_printed = !pieces.is_empty();
        let joined = || pieces.iter().map(|(text, _)| *text).collect::<String>();
        let Json::String(text) = leaf else {
            return match is_printed && has_scalar(&joined(), leaf) {
                true => Sign::Written,
                false => Sign::Unseen,
            };
        };
        if pieces.iter().any(|(piece, _)| has(piece, text)) || is_printed && has(&joined(), text) {
            return Sign::Written;
        }
        let own = pieces.iter().filter(|(piece, is_alone)| *is_alone || text.contains(piece.trim()));
        let own: Vec<Fragment<'_>> = own.map(|(text, _)| Fragment { text, offset: None, at: None }).collect();
        if own.is_empty() { Sign::Unseen } else { compare(text, &own, "") }
    }
}

impl Evidence for Printed<'_> {
    type At = usize;

    fn child(&self, at: usize, _step: Step<'_>) -> usize {
        at
    }

    fn sign(&self, at: usize, owner: Owner, path: &str, leaf: &Json) -> Sign {
        let printed = match owner {
            Owner::Message { index, .. } => {
                return match self.of_message(index, path, leaf) {
                    Sign::Unseen if path == "role" => Sign::Seen,
                    // A tool of a message that is printed otherwise.
                    Sign::Unseen if path.starts_with("tools[") && !self.pieces_of(index, path).is_empty() => Sign::Seen,
                    sign => sign,
                };
            }
            Owner::Tool => self.tools.get(at),
            Owner::Document => self.documents.get(at),
            Owner::Switch => None,
        };
        let Some(printed) = printed.filter(|printed| !printed.is_empty()) else { return Sign::Unseen };
        let is_there = match leaf {
            Json::String(text) => has(printed, text),
            leaf => has_scalar(printed, leaf),
        };
        if is_there { Sign::Written } else { Sign::Seen }
    }

    fn opened(&self, path: &str, text: &str) -> Option<Json> {
        let is_arguments = path.starts_with("tool_calls[") && path.ends_with(".arguments");
        let parsed = is_arguments.then(|| json::parse(text)).and_then(Result::ok)?;
        parsed.as_object().is_some().then_some(parsed)
    }
}

/// Reports whether a printed text has another text, in one of the spellings of formats, or each of
/// its lines.
fn has(printed: &str, text: &str) -> bool {
    let text = text.trim();
    let is_there = |text: &str| {
        let quoted = |is_ascii| {
            let mut quoted = String::with_capacity(text.len() + 2);
            json::write_string(&mut quoted, text, is_ascii);
            quoted
        };
        let within = |quoted: &str| printed.contains(&quoted[1..quoted.len() - 1]);
        printed.contains(text)
            || within(&quoted(false))
            || !text.is_ascii() && within(&quoted(true))
            || matches!(attribute::escape(text), Cow::Owned(escaped) if printed.contains(&escaped))
            || within(&rolecall_format::codec::literal::repr(&Json::from(text)))
    };
    is_there(text) || text.contains('\n') && text.lines().all(|line| is_there(line.trim()))
}

/// Reports whether a printed text has a number or a word.
fn has_scalar(printed: &str, leaf: &Json) -> bool {
    let spellings: &[&str] = match leaf {
        Json::Bool(true) => &["true", "True"],
        Json::Bool(false) => &["false", "False"],
        Json::Null => &["null", "None"],
        Json::Number(number) => &[number.spelling()],
        _ => &[],
    };
    spellings.iter().any(|spelling| printed.contains(spelling))
}
